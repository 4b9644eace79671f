"""Bytes on a connection -> checked, bounded requests -> replies.

`protocol` hands plain visits to `visits`; everything else goes through the gate (`middleware`) to `fast_path` or the
routes (`app`).
"""
