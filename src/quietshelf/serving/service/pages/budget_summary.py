"""A shelf's promise in figures for the pages, from its ledger and its settings alone."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.privacy.accounting import DELTA, Assumption, Event, Ledger, epsilon_of
from quietshelf.privacy.accounting.attackers import power_under_gaussian, power_under_zcdp
from quietshelf.privacy.accounting.figures import TOLERANCE
from quietshelf.privacy.release.batch_pair import FEWEST_STEPS
from quietshelf.serving.service import queries
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.models import LARGEST_DIM
from quietshelf.serving.service.queries import figure

DELTAS, FALSE_ALARMS = (1e-5, DELTA, 1e-9), 0.01
DISCRETE = (LARGEST_DIM * (LARGEST_DIM + 3) / 2 + 4) * 0.025 / FEWEST_STEPS**2
"""How much discrete noise may raise an error rate, per rho; the 4 is for a comparison (docs/proofs.md, section 5)."""


class BudgetSummaries:
    """Caches the promise of each shelf until its ledger, or who it is made to, changes."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, dict[str, Any]]] = {}

    def of(self, connection: Connection, row: Row) -> dict[str, Any]:
        """The promise in figures and words. Reads the ledger, and whether every visitor came with a person id."""
        named = (row["arrivals"] > 0, row["anonymous"] > 0)
        stamp = (_entries(connection, row), row["releases"], row["config"], row["history_incomplete"], *named)
        kept = self._kept.get(row["shelf"])
        if kept is None or kept[0] != stamp:
            kept = (stamp, promise(queries.ledger_of(connection, row), json.loads(row["config"])))
            self._kept[row["shelf"]] = kept
        return kept[1]


def promise(ledger: Ledger, settings: dict[str, Any]) -> dict[str, Any]:
    """The promise of one ledger."""
    made = ledger.promise()
    limit = float(settings["rho"]) if ledger.budget is None else ledger.budget  # with a log behind the prior, both
    return {
        "limit": limit,
        "per_release": float(settings["rho"]) / settings["visits"],
        "rho": figure(ledger.rho),
        "share": 1.0 if math.isinf(ledger.rho) else min(1.0, ledger.rho / limit),
        "epsilon": [{"delta": delta, "epsilon": figure(epsilon_of(ledger.rho, delta))} for delta in DELTAS],
        "delta": DELTA,
        "epsilon_at_limit": figure(epsilon_of(limit, DELTA)),
        "found_at_most": found_at_most(limit if math.isfinite(ledger.rho) else math.inf, gaussian=one_release(ledger)),
        "false_alarms": FALSE_ALARMS,
        "unit": ledger.unit,
        "visits": settings["visits"],
        "declared_private": settings["private"],
        "refuses": refuses(ledger, settings),
        "words": made.words,
    }


def one_release(ledger: Ledger) -> bool:
    """Whether everybody is in at most one release of `quiet`, and in nothing else, such as a log behind the prior."""
    return ledger.visits == 1 and all(isinstance(event.batch, int) for event in ledger.events)


@cache
def found_at_most(rho: float, *, gaussian: bool) -> float:
    """The highest rate at which an attacker finds true matches, at one false alarm in a hundred.

    For one Gaussian release (docs/proofs.md, section 3), with an allowance for its discrete noise; or from rho alone.
    """
    if math.isinf(rho):
        return 1.0
    if not gaussian:
        return float(power_under_zcdp(np.array(FALSE_ALARMS), rho))
    slack = DISCRETE * rho
    return min(1.0, float(power_under_gaussian(np.array(FALSE_ALARMS + slack), rho)) + slack)


def refuses(ledger: Ledger, settings: dict[str, Any]) -> bool:
    """Whether the ledger would refuse the next release."""
    if ledger.budget is None:
        return False
    batches = [event.batch for event in ledger.events if isinstance(event.batch, int)]
    following = Event(
        name="next",
        batch=1 + max(batches, default=-1),
        sensitivity=1.0,
        noise=1.0,
        rho=float(settings["rho"]) / settings["visits"],
        assumption=Assumption.EXACT_GRID,
    )
    return ledger.would_cost(following) > ledger.budget * (1 + TOLERANCE)


def _entries(connection: Connection, row: Row) -> int:
    table = schema.events
    query = sa.select(sa.func.count()).select_from(table).where(table.c.shelf == row["shelf"])
    return int(connection.execute(query).scalar_one())


def published_since(connection: Connection, row: Row) -> float | None:
    """Since when the privacy statement is public; None if it needs a key."""
    table = schema.published
    return connection.execute(sa.select(table.c.since).where(table.c.shelf == row["shelf"])).scalar_one_or_none()
