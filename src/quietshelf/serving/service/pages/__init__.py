"""Releases, ledgers, arrivals -> pages for people, and the same figures as JSON at the same address.

Every page but one reads settings, items, releases, the ledger, and how many came when. The exception, `counts`, reads
what visitors chose: it is for ``admin`` alone, and says what it is.
"""
