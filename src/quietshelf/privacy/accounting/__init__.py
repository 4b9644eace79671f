"""Events -> ledger -> rho, (epsilon, delta) and a promise in words; refuses events beyond the budget."""

from quietshelf.privacy.accounting.conversions import (
    DELTA,
    epsilon_classic,
    epsilon_of,
    epsilon_of_gaussian,
    epsilon_of_renyi,
    epsilon_text,
    rho_from,
    rho_of,
)
from quietshelf.privacy.accounting.events import HISTORY, LOG, Assumption, BatchOrHistory, Event, gaussian, noise_for
from quietshelf.privacy.accounting.ledger import BudgetExceeded, Ledger, together
from quietshelf.privacy.accounting.promise import Promise

__all__ = [
    "DELTA",
    "HISTORY",
    "LOG",
    "Assumption",
    "BatchOrHistory",
    "BudgetExceeded",
    "Event",
    "Ledger",
    "Promise",
    "epsilon_classic",
    "epsilon_of",
    "epsilon_of_gaussian",
    "epsilon_of_renyi",
    "epsilon_text",
    "gaussian",
    "noise_for",
    "rho_from",
    "rho_of",
    "together",
]
