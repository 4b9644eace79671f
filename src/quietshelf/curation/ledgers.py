"""To whom a ledger is addressed: persons where everybody was named, else visits; never less than what may be spent.

Reference: docs/proofs.md, sections 6 and 7.
"""

from __future__ import annotations

import math
from dataclasses import replace

from quietshelf.accounting import Assumption, Event, Ledger


def addressed(
    ledger: Ledger, *, arrivals: int, anonymous: int, history_incomplete: str | None, rho_per_release: float
) -> Ledger:
    """A ledger to persons if every visitor so far was named, else to visits.

    ``history_incomplete`` says why releases and counts may be missing, if they may.
    """
    if history_incomplete is not None:
        return _incomplete(ledger, rho_per_release, history_incomplete)
    everybody_named = arrivals > 0 and anonymous == 0
    return replace(ledger, unit="person") if everybody_named else ledger


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
