"""Stores and loads what a shelf has learned: records and ledger of `quiet`, exact to the last bit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.fields import learner_from, record_fields, record_from
from quietshelf.curation.settings import ShelfSettings
from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import Event, Ledger
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.prepared import Prepared

Row = Mapping[str, Any]
ALL = 2**31 - 1
"""More releases than any shelf makes."""
_releases, _events, _batches = schema.releases.c, schema.events.c, schema.batches.c
_of_shelf: sa.BindParameter[int] = sa.bindparam("of_shelf")
_RELEASES = Prepared(
    sa.select(schema.releases)
    .where(
        _releases.shelf == _of_shelf,
        _releases.number > sa.bindparam("after"),
        _releases.number <= sa.bindparam("most"),
    )
    .order_by(_releases.number)
)
_of_events = sa.select(_events.event).where(_events.shelf == _of_shelf).order_by(_events.number)
_waiting = sa.select(_batches.batch).where(_batches.shelf == _of_shelf, _batches.stage == schema.RELEASED)
_EVENTS, _PUBLISHED_EVENTS = Prepared(_of_events), Prepared(_of_events.where(_events.batch.not_in(_waiting)))


def packed(array: FloatArray) -> bytes:
    """An array as bytes."""
    return np.ascontiguousarray(array, dtype=np.float64).tobytes()


def unpacked(content: bytes, *shape: int) -> FloatArray:
    """Bytes as an array: the inverse of `packed`."""
    return np.frombuffer(content, dtype=np.float64).reshape(shape).copy()


def to_row(fields: Row) -> dict[str, Any]:
    """Convert arrays among the fields to bytes."""
    return {name: packed(value) if isinstance(value, np.ndarray) else value for name, value in fields.items()}


def from_row(row: Row) -> dict[str, Any]:
    """Convert bytes to flat arrays: the inverse of `to_row`."""
    return {name: unpacked(value, -1) if isinstance(value, bytes) else value for name, value in row.items()}


def learner(
    connection: Connection, shelf: Row, settings: ShelfSettings, *, published: bool = True, known: Learner | None = None
) -> Learner | None:
    """A shelf's learner, from its published releases or from all of them; None before the first offer.

    ``known`` is an earlier learner, whose records are reused, except the last one, since it holds the estimate.
    """
    if shelf["second"] is None:
        return None
    before = [] if known is None else list(known.records[: shelf["releases"]][:-1])
    most = shelf["releases"] if published else None
    rows = [from_row(row) for row in release_rows(connection, shelf["shelf"], most, after=len(before))]
    config = settings.learning()
    records = before + [record_from(row) for row in rows]
    kept = ledger(connection, shelf["shelf"], config, published=published)
    capacity = shelf["prior_capacity"] or settings.capacity  # as at the first offer: it may change later
    return learner_from(config, capacity, from_row(shelf), records, rows[-1] if rows else None, kept)


def release_rows(connection: Connection, shelf: int, most: int | None = None, *, after: int = 0) -> list[Row]:
    """The releases of a shelf, oldest first: up to number ``most``, without the first ``after``."""
    return [*_RELEASES.rows(connection, {"of_shelf": shelf, "after": after, "most": ALL if most is None else most})]


def release_row(learner: Learner, batch: Row) -> dict[str, Any]:
    """The row of the release that a learner has just made; the batch's row says when it is published (R5)."""
    return {
        **{name: batch[name] for name in ("shelf", "batch", "grid", "opened_at", "full_at")},
        **to_row({**record_fields(learner.records[-1]), **learner.estimate._asdict()}),
        "number": len(learner.records),
        "released_at": batch["released_at"],
    }


def ledger(connection: Connection, shelf: int, config: Quiet, *, published: bool) -> Ledger:
    """The stored ledger. It has no budget after a release without noise, which only tests can inject.

    ``published`` leaves out releases that wait for publication: their cost would reveal when they were made (R5).
    """
    found = stored_events(connection, shelf, published=published)
    exact = any(event.noise == 0 for event in found)
    budget = None if exact else config.rho
    return Ledger(budget=budget, visits=config.visits, unit=config.unit, events=tuple(found))


def stored_events(connection: Connection, shelf: int, *, published: bool = False) -> list[Event]:
    """The events of a shelf, oldest first; ``published`` leaves out those of releases that wait for publication."""
    query = _PUBLISHED_EVENTS if published else _EVENTS
    return [Event.from_dict(json.loads(text)) for (text,) in query.tuples(connection, {"of_shelf": shelf})]


def enter(connection: Connection, shelf: int, entries: Sequence[tuple[int, Event]], *, first: int) -> None:
    """Add events, at least one, each with its batch, to a ledger that has ``first`` events."""
    rows = [
        {"shelf": shelf, "number": number, "batch": batch, "event": json.dumps(event.to_dict(), allow_nan=False)}
        for number, (batch, event) in enumerate(entries, start=first)
    ]
    connection.execute(sa.insert(schema.events), rows)
