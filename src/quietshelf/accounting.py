"""What was spent -> a promise: ledgers, and zCDP in terms of (epsilon, delta)."""

from quietshelf.privacy.accounting import DELTA, Event, Ledger, Promise, epsilon_of, rho_of, together

__all__ = ["DELTA", "Event", "Ledger", "Promise", "epsilon_of", "rho_of", "together"]
