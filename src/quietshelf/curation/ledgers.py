"""To whom a ledger is addressed: persons where everybody was named, else visits; never less than what may be spent.

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
    """A ledger to persons if every visitor so far was named, else to visits.

    ``history_incomplete`` says why releases and counts may be missing, if they may; ``log`` is what the shelf started
    from, if it did: its cost comes on top.
    """
    if history_incomplete is not None:
        ledger = _incomplete(ledger, rho_per_release, history_incomplete)
    elif arrivals > 0 and anonymous == 0:
        ledger = replace(ledger, unit="person")
    return ledger if log is None else _with_log(ledger, log)


def _with_log(ledger: Ledger, log: PriorFile) -> Ledger:
    """A ledger to those who may be in the log as well: both costs add up, and so do both budgets.

    Where the log told no persons apart, one person may have any number of rows in it: the sum is to visits.
    """
    unit, visits = (ledger.unit, ledger.visits) if log.unit == "person" else ("visit", 1)
    budget = None if ledger.budget is None or not log.private else added_up([ledger.budget, log.rho])
    return replace(ledger, unit=unit, visits=visits, budget=budget, events=(log.event, *ledger.events))


def _incomplete(ledger: Ledger, rho: float, detail: str) -> Ledger:
    """A ledger that may lack releases and counts: to visits, with one event that stands for what it may lack.

    Every visit is in one release at most, of cost rho at most, whoever made it; of persons nothing more can be said.
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
