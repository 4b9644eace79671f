"""Checks the ledger against what was published, by recomputing every release and every cost from public records.

A restored backup agrees with itself; only the epoch file can tell that releases are missing from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import BudgetExceeded, Event, gaussian
from quietshelf.privacy.release import batch_pair, records
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import OUTCOME_SENSITIVITY, SENSITIVITY, svec_dim
from quietshelf.serving.service import queries
from quietshelf.serving.service.catalogue.views import settings_in
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.releases import epochs
from quietshelf.serving.service.releases.losses import NOWHERE, UNSEEN

TOLERANCE = 1e-9
"""For estimates, which another machine's linear algebra may round differently. Costs must be equal to the last bit."""

BEHIND = (
    "shelf {name}: releases are missing ({count}), so this is a backup; `quietshelf restore` shows what it costs to "
    "accept it, and `quietshelf serve` accepts it without asking"
)


def verify(connection: Connection, row: Row) -> list[str]:
    """List what is wrong with a shelf's ledger."""
    wrong = [*_events(connection, row), *_budget(connection, row)]
    try:
        return [*wrong, *_estimates(connection, row)]
    except BudgetExceeded as error:  # such a ledger makes no learner
        return wrong or [str(error)]


def forgotten(connection: Connection, known: dict[str, Any]) -> list[str]:
    """List what the epoch file (``Vault.epoch``, read before) knows and this database does not."""
    found, identity = epochs.progress(connection), connection.execute(sa.select(schema.store.c.identity)).scalar_one()
    if known.get("identity") != identity:
        either = epochs.used(found) or epochs.used(known.get("shelves", {}))
        return [epochs.OTHER] if either else []
    return [
        BEHIND.format(name=mark["name"], count=mark["released"] - found.get(shelf, NOWHERE)["released"])
        for shelf, mark in known["shelves"].items()
        if mark["opened"] >= 0 and (shelf not in found or mark["released"] > found[shelf]["released"])
    ]


def _events(connection: Connection, row: Row) -> Iterator[str]:
    """Check that each release has its event, with the cost of its noise, and that nothing else is in the ledger."""
    stored = learning.stored_events(connection, row["shelf"])
    yield from _unseen([event for event in stored if event.detail in UNSEEN], row)
    kept = [event for event in stored if event.detail not in UNSEEN]
    released = learning.release_rows(connection, row["shelf"])
    table = schema.batches
    waiting = sa.select(sa.func.count()).where(table.c.shelf == row["shelf"], table.c.stage == schema.RELEASED)
    published = len(released) - connection.execute(waiting).scalar_one()
    if published != row["releases"]:
        yield f"{row['releases']} releases are counted, {published} are stored"
    wanted = [(each, figures) for each in released for figures in _figures(each)]
    if len(kept) != len(wanted):
        yield f"{len(released)} releases must have {len(wanted)} events, got {len(kept)}"
        return
    for event, (each, (name, sensitivities, noise)) in zip(kept, wanted, strict=True):
        exact = event.noise == 0  # a test injected a source without noise: then the cost must read infinite
        same = (event.name, event.batch, event.noise) == (name, each["batch"], 0.0 if exact else noise)
        if not same or event.sensitivity not in sensitivities or _cheaper(event):
            yield f"release {each['number']} (batch {each['batch']}) and its {name} event differ"


def _figures(release: Row) -> list[tuple[str, tuple[float, ...], float]]:
    """Name, sensitivities and noise of a release's events: one pair, or two for releases made without a bound.

    An earlier version charged for the rounding of a pair, with a slightly larger sensitivity.
    """
    dim, bound, grid = len(release["theta"]) // 8, release["bound"], release["grid"]
    score, information = release["score_scale"], release["information_scale"]
    rounding = 2.0 * grid * math.sqrt(svec_dim(dim))
    if bound is None:  # |w g| <= 1 and trace(w H) <= 1, each with a share of rho
        return [("score", (2.0,), score), ("information", (math.sqrt(2.0) + rounding,), information)]
    noise = batch_pair.unit_scale(batch_pair.Scales(score, information, bound))
    compared = release["arms_scale"]
    sold = [] if compared is None else [("comparison", (OUTCOME_SENSITIVITY,), compared * batch_pair.NARROWER)]
    return [("pair", (SENSITIVITY, SENSITIVITY + rounding / bound), noise), *sold]


def _unseen(events: list[Event], row: Row) -> Iterator[str]:
    """Check that releases whose figures are lost cost what every release of the shelf costs."""
    wanted = settings_in(row).learning().rho_per_release * (1 - TOLERANCE)
    for batch in sorted({int(event.batch) for event in events}):
        mine = [event for event in events if event.batch == batch]
        if any(map(_cheaper, mine)) or sum(event.rho for event in mine) < wanted:
            yield f"batch {batch}, whose figures are lost, must cost what a release costs"


def _cheaper(event: Event) -> bool:
    """Whether an event claims less than its noise costs."""
    again = gaussian(
        event.name,
        sensitivity=event.sensitivity,
        noise=event.noise,
        batch=event.batch,
        assumption=event.assumption,
    )
    return event.rho < again.rho


def _budget(connection: Connection, row: Row) -> Iterator[str]:
    try:
        queries.ledger_of(connection, row, published=False)
    except ValueError as error:
        yield str(error)


def _estimates(connection: Connection, row: Row) -> Iterator[str]:
    """Check that each estimate follows from its records and the prior."""
    learner = learning.learner(connection, row, settings_in(row), published=False)
    if learner is None:
        return
    parts = learner.config, learner.capacity, learner.moments, learner.given, learner.ledger
    before = Learner.resumed(*parts)
    for count, each in enumerate(learning.release_rows(connection, row["shelf"]), start=1):
        estimate = replace(before, records=learner.records[:count]).rebuilt().estimate
        theta = learning.unpacked(each["theta"], -1)
        stored = records.Estimate(theta, learning.unpacked(each["precision"], theta.size, theta.size))
        before = replace(before, estimate=stored)
        if each["fit"] is None:  # from a version with another estimator
            continue
        largest = float(np.abs(estimate.precision).max())  # entries that are tiny beside it count as zero
        if not (_close(theta, estimate.theta, 1.0) and _close(stored.precision, estimate.precision, largest)):
            yield f"release {each['number']}: the estimate is not what its records give"


def _close(stored: FloatArray, again: FloatArray, size: float) -> bool:
    return bool(np.allclose(stored, again, rtol=TOLERANCE, atol=TOLERANCE * size))
