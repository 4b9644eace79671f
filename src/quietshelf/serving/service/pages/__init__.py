"""Releases, ledgers, arrivals -> dashboard pages, and the same figures as JSON at the same address.

Pages read settings, items, releases, the ledger, and the number and times of arrivals. One page, `counts`, reads what
visitors chose: it is for ``admin`` only, and carries a warning.
"""
