"""The releaser: a full batch whose answers have been waited for becomes one release, once (R5, R7).

Budget check, sum, announcement, noise, release, ledger entry and the deletion of the batch are one transaction: all of
it or nothing. Rows of slots whose batch is gone are never read; those of a large batch are deleted after it. The
announcement goes to the epoch file before the noise is drawn, so that a batch whose transaction is lost is known, and
burnt (`restore`). When depends on arrivals and the clock alone (docs/proofs.md, section 6). One releaser per shelf at a
time: the rows of the shelf and of its oldest batch are locked, and a batch that is gone was released by another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.accounting import BudgetExceeded
from quietshelf.curation.batches import announce, close, published, shelf_time
from quietshelf.curation.contributions import at_once, summed, total, width
from quietshelf.curation.fields import batch_from
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.service import learning, schema
from quietshelf.service.answers import of_rows
from quietshelf.service.learning import Row, from_row, unpacked
from quietshelf.service.prepared import Prepared
from quietshelf.service.store import Store, one
from quietshelf.service.views import settings_in
from quietshelf.statistics import Total
from quietshelf.types import NOTHING, FloatArray

PIECE = 4096
"""Rows that are read or deleted at a time: nobody waits for a large batch longer than for so many."""
_USED_KEY = sa.update(schema.retries).values(fingerprint=None)
Announce = Callable[[Connection, int, int], None]
"""Make durable, outside the database, that this batch of this shelf is about to be released."""
_batches, _older = schema.batches.c, schema.batches.alias()
_due_at = _batches.full_at + _batches.window
_before = sa.and_(_older.c.shelf == _batches.shelf, _older.c.batch < _batches.batch)
_FIRST = ~sa.exists().where(_before)
"""R5: of each shelf its oldest batch alone."""
_HELD_UP = sa.exists().where(_before, _older.c.full_at.is_(None))
_NEXT = sa.select(sa.func.min(_due_at)).where(_FIRST)
_NEXT_OF = Prepared(
    sa.select(sa.func.min(_due_at)).where(
        _batches.shelf == sa.bindparam("of_shelf"), _due_at > sa.bindparam("after"), ~_HELD_UP
    )
)
PLACES = 20
"""Items shown, as reckoned with where a step is sized; more of them make it longer, and no more than that."""


class Outcome(NamedTuple):
    """What became of a batch: ``size`` visitors in ``shelf``; ``released`` is False if the ledger refused."""

    shelf: str
    batch: int
    size: int
    released: bool


def next_due(connection: Connection) -> float | None:
    """When the next batch may be released; None if none is full."""
    return connection.execute(_NEXT).scalar()


def next_due_of(connection: Connection, shelf: int, *, after: float) -> float | None:
    """The same of one shelf, if later than ``after``."""
    found: float | None = _NEXT_OF.scalar(connection, {"of_shelf": shelf, "after": after})
    return found


def release_one(
    store: Store,
    source: NoiseSource,
    *,
    upto: float,
    forget_before: float,
    announced: Announce,
    only: tuple[int, int] | None = None,
    first: Callable[[Connection], None] = lambda _: None,
) -> Outcome | None:
    """Release the batch that is due first, by ``upto``; None if none is, or if another releaser is at it.

    Args:
        store: The database.
        source: Where the noise comes from.
        upto: Everything received before this is written.
        forget_before: Idempotency keys of released offers are forgotten if they are older than so many seconds.
        announced: Called before the noise is drawn; if it raises, there is no release.
        only: The batch that was announced, with its shelf; None for whichever is due first.
        first: Called before anything is read: a long sum must cost nobody the lead.
    """
    with store.write() as connection:
        first(connection)
        found = _due(connection, store, upto, only)
        if found is None:
            return None
        shelf, batch = found
        shelves = schema.shelves
        now = shelf_time(batch["due_at"], shelf["last_time"])
        released = _spend(connection, shelf, batch, source, announced)
        forget_batch(connection, batch["shelf"], batch["batch"], upto=PIECE)
        _forget_keys(connection, now - forget_before)
        done = {"last_time": now, "releases": shelf["releases"] + released}
        connection.execute(sa.update(shelves).where(shelves.c.shelf == shelf["shelf"]).values(done))
        return Outcome(shelf["name"], batch["batch"], batch["size"], released)


def affordable_due(connection: Connection, store: Store, source: NoiseSource, upto: float) -> tuple[int, int] | None:
    """Shelf and number of the batch that is due first; None if there is none, or the ledger refuses its release."""
    found = _due(connection, store, upto)
    if found is None:
        return None
    shelf, row = found
    try:
        announce(_learner(connection, shelf, source), batch_from(from_row(row)), source)
    except BudgetExceeded:
        return None
    return row["shelf"], row["batch"]


def _due(
    connection: Connection, store: Store, upto: float, only: tuple[int, int] | None = None
) -> tuple[Row, Row] | None:
    """Shelf and batch to release, locked: of each shelf its oldest batch alone, and only once that is full and due.

    A lock that somebody holds is waited for, never passed over: an answer on its way must not change the order.
    """
    shelves, table = schema.shelves, schema.batches
    due = [_FIRST, table.c.taken + table.c.unused >= table.c.size, _due_at <= upto]
    if only is not None:
        due += [table.c.shelf == only[0], table.c.batch == only[1]]
    query = sa.select(table.c.shelf, table.c.batch).where(*due).order_by(_due_at, table.c.shelf)
    for number, batch in connection.execute(query).all():
        if store.lock(connection, number):  # else another releaser is at this shelf
            this = sa.select(shelves).where(shelves.c.shelf == number)
            shelf = one(connection, this.with_for_update())
            chosen = sa.select(table).where(table.c.shelf == number, table.c.batch == batch)
            kept = one(connection, chosen.with_for_update())
            if shelf is None or kept is None:
                return None
            return shelf, {**kept, "due_at": published(batch_from(from_row(kept)), _last_release(connection, number))}
    return None


def _last_release(connection: Connection, shelf: int) -> float | None:
    """When the last release of a shelf was due."""
    table = schema.releases
    return connection.execute(sa.select(sa.func.max(table.c.released_at)).where(table.c.shelf == shelf)).scalar()


def _spend(connection: Connection, shelf: Row, row: Row, source: NoiseSource, announced: Announce) -> bool:
    """Release and ledger entry; False if the budget does not allow it, and then nothing is announced or drawn."""
    learner = _learner(connection, shelf, source)
    batch, before = batch_from(from_row(row)), len(learner.ledger.events)
    found = summed_up(connection, row, silent=settings_in(shelf).on_no_answer == "no-choice")
    try:
        charged = announce(learner, batch, source)
    except BudgetExceeded:
        return False
    announced(connection, row["shelf"], row["batch"])
    after = close(charged, batch, found, source)
    connection.execute(sa.insert(schema.releases), learning.release_row(after, row))
    entries = [(row["batch"], event) for event in after.ledger.events[before:]]
    learning.enter(connection, row["shelf"], entries, first=before)
    return True


def _learner(connection: Connection, shelf: Row, source: NoiseSource) -> Learner:
    learner = learning.learner(connection, shelf, settings_in(shelf))
    assert learner is not None  # noqa: S101 - a batch was opened by a learner
    if source.noiseless:  # a test injected it: all is lost anyway, and the ledger says so
        return replace(learner, ledger=replace(learner.ledger, budget=None))
    return learner


def summed_up(connection: Connection, batch: Row, *, silent: bool) -> Total:
    """The sum over a batch: answers first, then those without one if they count, each in order of arrival."""
    dim, compares = len(batch["theta"]) // 8, batch["arms_scale"] is not None
    found = np.zeros(width(dim, compares=compares))
    for parts in chain(_answered(connection, batch, dim), _silent(connection, batch, dim) if silent else ()):
        found = found + summed(parts, dim, compares=compares)
    return total(found, dim)


def _answered(connection: Connection, batch: Row, dim: int) -> Iterator[list[FloatArray]]:
    table = schema.offers
    query = sa.select(table.c.contribution).where(_mine(batch), table.c.contribution.isnot(None))
    for some in _pieces(connection, query.order_by(table.c.slot), at_once(dim, PLACES)):
        yield [unpacked(each, -1) for each in some]


def _silent(connection: Connection, batch: Row, dim: int) -> Iterator[list[FloatArray]]:
    table, frozen = schema.offers, batch_from(from_row(batch))
    query = sa.select(table.c.rows).where(_mine(batch), table.c.rows.isnot(None), table.c.answer.is_(None))
    for some in _pieces(connection, query.order_by(table.c.slot), at_once(dim, PLACES)):
        yield of_rows(some, [NOTHING] * len(some), frozen)


def _pieces(connection: Connection, query: sa.Select[Any], size: int) -> Iterator[Sequence[bytes]]:
    """The only column of a query, some rows at a time: those of a large batch do not fit in memory."""
    size = min(size, PIECE)
    return connection.execute(query, execution_options={"yield_per": size}).scalars().partitions(size)


def forget_batch(connection: Connection, shelf: int, batch: int, *, upto: int | None = None) -> None:
    """Delete what was seen of a batch's visitors; of their Idempotency-Keys only that they were used remains.

    Args:
        connection: A transaction.
        shelf: Number of the shelf.
        batch: Number of the batch.
        upto: The first slot that is left to `forget_more`; None for all at once.
    """
    table = schema.batches  # locked in the order in which answers lock them
    connection.execute(sa.delete(table).where(table.c.shelf == shelf, table.c.batch == batch))
    _forget_slots(connection, shelf, batch, upto)


def forget_more(connection: Connection) -> bool:
    """Delete some more of what large batches that are gone have left; whether there was any."""
    offers, batches, shelves = schema.offers.c, schema.batches.c, schema.shelves.c
    first = sa.select(sa.func.min(offers.batch)).where(offers.shelf == shelves.shelf).scalar_subquery()
    oldest = sa.select(sa.func.min(batches.batch)).where(batches.shelf == shelves.shelf).scalar_subquery()
    left = sa.select(shelves.shelf, first.label("batch")).where(sa.or_(first < oldest, oldest.is_(None) & (first >= 0)))
    row = connection.execute(left.limit(1)).one_or_none()
    if row is None:
        return False
    mine = (offers.shelf == row.shelf, offers.batch == row.batch)
    slot = connection.execute(sa.select(sa.func.min(offers.slot)).where(*mine)).scalar_one()
    _forget_slots(connection, row.shelf, row.batch, slot + PIECE)
    return True


def _forget_slots(connection: Connection, shelf: int, batch: int, upto: int | None) -> None:
    for table, forget in ((schema.offers, sa.delete(schema.offers)), (schema.retries, _USED_KEY)):
        mine = [table.c.shelf == shelf, table.c.batch == batch]
        connection.execute(forget.where(*mine, *([] if upto is None else [table.c.slot < upto])))


def _forget_keys(connection: Connection, old: float) -> None:
    """Delete some of the Idempotency-Keys of released offers that are older than that."""
    keys = schema.retries
    gone = sa.select(keys.c.shelf, keys.c.key).where(keys.c.fingerprint.is_(None), keys.c.made < old).limit(PIECE)
    connection.execute(sa.delete(keys).where(sa.tuple_(keys.c.shelf, keys.c.key).in_(gone)))


def _mine(batch: Row) -> sa.ColumnElement[bool]:
    table = schema.offers
    return sa.and_(table.c.shelf == batch["shelf"], table.c.batch == batch["batch"])
