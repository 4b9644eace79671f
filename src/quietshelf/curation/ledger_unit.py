"""Whom a ledger protects: persons if every visitor was named, else visits; it never understates what may be spent.

Costs are entered by `batches.charge`.

Reference: docs/proofs.md, sections 6 and 7.
"""

from __future__ import annotations

import math
from dataclasses import replace

from quietshelf.curation.prior_file import PriorFile
from quietshelf.privacy.accounting import Assumption, Event, Ledger
from quietshelf.privacy.accounting.figures import added_up


def addressed(
    ledger: Ledger,
    *,
    arrivals: int,
    anonymous: int,
    history_incomplete: str | None,
    rho_per_release: float,
    log: PriorFile | None = None,
) -> Ledger:
    """State the ledger per person if every visitor so far was named, else per visit.

    ``history_incomplete`` says why releases and counts may be missing, or is None. ``log`` is the prior that the shelf
    started from, if any: its cost is added.
    """
    if history_incomplete is not None:
        ledger = _incomplete(ledger, rho_per_release, history_incomplete)
    elif arrivals > 0 and anonymous == 0:
        ledger = replace(ledger, unit="person")
    return ledger if log is None else _with_log(ledger, log)


def _with_log(ledger: Ledger, log: PriorFile) -> Ledger:
    """Add the cost and the budget of a log, because visitors may be in it as well.

    If the log does not identify persons, one person may have any number of rows in it: the sum is per visit.
    """
    unit, visits = (ledger.unit, ledger.visits) if log.unit == "person" else ("visit", 1)
    budget = None if ledger.budget is None or not log.private else added_up([ledger.budget, log.rho])
    return replace(ledger, unit=unit, visits=visits, budget=budget, events=(log.event, *ledger.events))


def _incomplete(ledger: Ledger, rho: float, detail: str) -> Ledger:
    """State a ledger that may lack releases and counts per visit, with one event for what may be missing.

    Every visit is in at most one release, of cost at most rho, whichever process made it. Nothing can be said per
    person.
    """
    unknown = Event(
        name="releases not in this ledger",
        batch=1 + max((int(event.batch) for event in ledger.events), default=-1),
        sensitivity=math.inf,
        noise=0.0,
        rho=rho,
        assumption=Assumption.EXACT_GRID,
        detail=detail,
    )
    return replace(ledger, unit="visit", visits=1).spend(unknown)
