"""Bounded sums of raw rounds -> releases with noise, and the ledger of what they cost."""
