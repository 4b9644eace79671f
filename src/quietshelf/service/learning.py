"""What a shelf has learned, as rows: records and ledger of `quiet`, to the last bit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.accounting import Event, Ledger
from quietshelf.release.batch_pair import Scales
from quietshelf.release.quiet import Learner, OpenBatch, Quiet
from quietshelf.release.records import Estimate, Record
from quietshelf.service import schema
from quietshelf.shelf.settings import Settings
from quietshelf.types import FloatArray

Row = Mapping[str, Any]


def packed(array: FloatArray) -> bytes:
    """An array as bytes."""
    return np.ascontiguousarray(array, dtype=np.float64).tobytes()


def unpacked(content: bytes, *shape: int) -> FloatArray:
    """The inverse."""
    return np.frombuffer(content, dtype=np.float64).reshape(shape).copy()


def frozen_row(batch: OpenBatch, *, shelf: int, grid: float, window: float, now: float) -> dict[str, Any]:
    """A batch that has just opened."""
    return {
        "shelf": shelf,
        "batch": batch.number,
        "size": batch.size,
        "taken": 0,
        "theta": packed(batch.theta),
        "coordinates": packed(batch.coordinates),
        "score_scale": batch.scales.score,
        "information_scale": batch.scales.information,
        "grid": grid,
        "window": window,
        "opened_at": now,
        "full_at": None,
    }


def frozen(row: Row) -> OpenBatch:
    """What the contributions of a batch are computed with."""
    theta = unpacked(row["theta"], -1)
    return OpenBatch(
        number=row["batch"],
        size=row["size"],
        theta=theta,
        coordinates=unpacked(row["coordinates"], theta.size, theta.size),
        scales=Scales(row["score_scale"], row["information_scale"]),
    )


def start_row(learner: Learner, visitor_dim: int) -> dict[str, Any]:
    """What the first offer freezes."""
    return {
        "visitor_dim": visitor_dim,
        "declared": learner.config.declared,
        "curvature": packed(learner.curvature),
        "prior_theta": packed(learner.prior.theta),
        "prior_precision": packed(learner.prior.precision),
    }


def learner(connection: Connection, shelf: Row, settings: Settings) -> Learner | None:
    """The learner of a shelf; None before its first offer."""
    if shelf["curvature"] is None:
        return None
    theta = unpacked(shelf["prior_theta"], -1)
    dim = theta.size
    prior = Estimate(theta, unpacked(shelf["prior_precision"], dim, dim))
    rows = release_rows(connection, shelf["shelf"])
    config = settings.learning(declared=shelf["declared"])
    estimate = prior
    if rows:
        estimate = Estimate(unpacked(rows[-1]["theta"], dim), unpacked(rows[-1]["precision"], dim, dim))
    return Learner(
        config=config,
        curvature=unpacked(shelf["curvature"], dim, dim),
        prior=prior,
        estimate=estimate,
        records=tuple(record(row) for row in rows),
        ledger=ledger(connection, shelf["shelf"], config),
    )


def release_rows(connection: Connection, shelf: int) -> list[Row]:
    """Every release of a shelf, oldest first."""
    table = schema.releases
    query = sa.select(table).where(table.c.shelf == shelf).order_by(table.c.number)
    return [dict(row) for row in connection.execute(query).mappings()]


def record(row: Row) -> Record:
    """What a release left behind."""
    theta = unpacked(row["evaluated_at"], -1)
    dim = theta.size
    return Record(
        theta=theta,
        coordinates=unpacked(row["coordinates"], dim, dim),
        score=unpacked(row["score"], dim),
        vectors=unpacked(row["vectors"], dim, dim),
        values=unpacked(row["values"], dim),
        scales=Scales(row["score_scale"], row["information_scale"]),
        size=row["size"],
    )


def release_row(learner: Learner, batch: Row, *, now: float) -> dict[str, Any]:
    """The release that a learner has just made, of the batch in that row."""
    latest = learner.records[-1]
    return {
        "shelf": batch["shelf"],
        "number": len(learner.records),
        "batch": batch["batch"],
        "size": latest.size,
        "score_scale": latest.scales.score,
        "information_scale": latest.scales.information,
        "grid": batch["grid"],
        "evaluated_at": packed(latest.theta),
        "coordinates": packed(latest.coordinates),
        "score": packed(latest.score),
        "vectors": packed(latest.vectors),
        "values": packed(latest.values),
        "theta": packed(learner.estimate.theta),
        "precision": packed(learner.estimate.precision),
        "opened_at": batch["opened_at"],
        "full_at": batch["full_at"],
        "released_at": now,
    }


def ledger(connection: Connection, shelf: int, config: Quiet) -> Ledger:
    """The ledger as stored; an exact release (tests inject one) leaves no budget to keep."""
    found = stored_events(connection, shelf)
    exact = any(event.noise == 0 for event in found)
    budget = None if exact else config.rho
    return Ledger(budget=budget, visits=config.visits, unit=config.unit, events=tuple(found))


def stored_events(connection: Connection, shelf: int) -> list[Event]:
    """Every event of a shelf, oldest first."""
    table = schema.events
    query = sa.select(table.c.event).where(table.c.shelf == shelf).order_by(table.c.number)
    return [Event.from_dict(json.loads(text)) for text in connection.execute(query).scalars()]


def enter(connection: Connection, shelf: int, entries: Sequence[tuple[int, Event]], *, first: int) -> None:
    """Add events, each with its batch, to a shelf's ledger; ``first`` is how many it has. No event at all fails."""
    rows = [
        {"shelf": shelf, "number": number, "batch": batch, "event": json.dumps(event.to_dict(), allow_nan=False)}
        for number, (batch, event) in enumerate(entries, start=first)
    ]
    connection.execute(sa.insert(schema.events), rows)
