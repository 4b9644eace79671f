"""Who may do what: keys, visitors' tickets, signatures, and the admin log.

`keyring` finds the key of a request; `Key.may` in `keys` checks its scope and shelf.
"""
