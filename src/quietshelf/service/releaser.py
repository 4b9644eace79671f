"""The releaser: a full batch whose answers have been waited for becomes one release, once.

Budget check, sum, noise, release, ledger entry and the deletion of the raw contributions are one transaction: all of it
or nothing. The moment depends on arrivals and the clock alone (docs/proofs.md, section 6). One releaser a shelf at a
time: the rows of the shelf and of its oldest batch are locked, and a batch that is gone was released by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.accounting import BudgetExceeded
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import OpenBatch
from quietshelf.service import learning, schema
from quietshelf.service.learning import Row
from quietshelf.service.parts import NUMBERS, contributions
from quietshelf.service.store import Store, one
from quietshelf.service.views import settings_in
from quietshelf.statistics import Total, svec_dim
from quietshelf.types import NOTHING, FloatArray

Hook = Callable[[Connection], None]
_due_at = schema.batches.c.full_at + schema.batches.c.window


class Outcome(NamedTuple):
    """What became of a batch: ``size`` visitors in ``shelf``; ``released`` is False if the ledger refused."""

    shelf: str
    batch: int
    size: int
    released: bool


def next_due(connection: Connection) -> float | None:
    """When the next batch may be released; None if none is full."""
    return connection.execute(sa.select(sa.func.min(_due_at))).scalar()


def release_one(
    store: Store, source: NoiseSource, *, forget_before: float, before_commit: Hook | None = None
) -> Outcome | None:
    """Release the batch that is due first; None if none is, or if somebody else is at it.

    Args:
        store: The database.
        source: Where the noise comes from.
        forget_before: Idempotency keys of released offers are forgotten if they are older than so many seconds.
        before_commit: Called last in the transaction; if it raises, there is no release.
    """
    with store.write() as connection:
        found = _due(connection, store)
        if found is None:
            return None
        shelf, batch = found
        shelves = schema.shelves
        now = store.now(connection, after=shelf["moment"])
        released = _spend(connection, shelf, batch, source, now)
        forget_batch(connection, batch["shelf"], batch["batch"])
        _forget_keys(connection, now - forget_before)
        done = {"moment": now, "releases": shelf["releases"] + released}
        connection.execute(sa.update(shelves).where(shelves.c.shelf == shelf["shelf"]).values(done))
        if before_commit is not None:
            before_commit(connection)
        return Outcome(shelf["name"], batch["batch"], batch["size"], released)


def _due(connection: Connection, store: Store) -> tuple[Row, Row] | None:
    """Shelf and batch to release, locked: of each shelf its oldest batch alone, and only once that is full and due.

    A lock that somebody holds is waited for, never passed over: an answer on its way must not change the order.
    """
    shelves, table = schema.shelves, schema.batches
    older = table.alias()
    first = ~sa.exists().where(older.c.shelf == table.c.shelf, older.c.batch < table.c.batch)
    due = (first, table.c.taken == table.c.size, _due_at <= store.now(connection))
    query = sa.select(table.c.shelf, table.c.batch).where(*due).order_by(_due_at, table.c.shelf)
    for number, batch in connection.execute(query).all():
        if store.lock(connection, number):  # else another releaser is at this shelf
            this = sa.select(shelves).where(shelves.c.shelf == number)
            shelf = one(connection, this.with_for_update())
            chosen = sa.select(table).where(table.c.shelf == number, table.c.batch == batch)
            kept = one(connection, chosen.with_for_update())
            return None if shelf is None or kept is None else (shelf, kept)
    return None


def _spend(connection: Connection, shelf: Row, batch: Row, source: NoiseSource, now: float) -> bool:
    """Release and ledger entry; False if the budget does not allow it, and then nothing is drawn."""
    settings = settings_in(shelf)
    learner = learning.learner(connection, shelf, settings)
    assert learner is not None  # noqa: S101 - a batch was opened by a learner
    if source.noiseless:  # a test injected it: all is lost anyway, and the ledger says so
        learner = replace(learner, ledger=replace(learner.ledger, budget=None))
    frozen = learning.frozen(batch)
    total = summed_up(connection, batch, frozen, silent=settings.silence == "no-choice")
    before = len(learner.ledger.events)
    try:
        after = learner.close(frozen, total, source)
    except BudgetExceeded:
        return False
    connection.execute(sa.insert(schema.releases), learning.release_row(after, batch, now=now))
    entries = [(batch["batch"], event) for event in after.ledger.events[before:]]
    learning.enter(connection, shelf["shelf"], entries, first=before)
    return True


def summed_up(connection: Connection, batch: Row, frozen: OpenBatch, *, silent: bool) -> Total:
    """The sum over a batch: answers first, then those who kept silent, each in order of arrival."""
    dim = frozen.theta.size
    total = np.zeros(dim + svec_dim(dim))
    parts = chain(_answered(connection, batch, total.size), _silent(connection, batch, frozen) if silent else ())
    for part in parts:
        total = np.concatenate([total[None], part]).sum(0)  # along the first axis: one visitor after the other
    return Total(total[:dim], total[dim:])


def _answered(connection: Connection, batch: Row, width: int) -> Iterator[FloatArray]:
    table = schema.offers
    query = sa.select(table.c.contribution).where(_mine(batch), table.c.contribution.isnot(None))
    for some in connection.execute(query.order_by(table.c.slot)).scalars().partitions(max(1, NUMBERS // width)):
        yield np.frombuffer(b"".join(some), dtype=np.float64).reshape(-1, width)


def _silent(connection: Connection, batch: Row, frozen: OpenBatch) -> Iterator[FloatArray]:
    table, dim = schema.offers, frozen.theta.size
    query = sa.select(table.c.rows).where(_mine(batch), table.c.rows.isnot(None), table.c.answer.is_(None))
    for some in connection.execute(query.order_by(table.c.slot)).scalars().partitions(max(1, NUMBERS // dim**2)):
        yield contributions(some, [NOTHING] * len(some), frozen, batch["grid"])


def forget_batch(connection: Connection, shelf: int, batch: int) -> None:
    """Delete what was seen of a batch's visitors; of their Idempotency-Keys only that they were used remains."""
    for table in (schema.batches, schema.offers):  # locked in the order in which answers lock them
        connection.execute(sa.delete(table).where(table.c.shelf == shelf, table.c.batch == batch))
    keys = schema.retries
    connection.execute(sa.update(keys).where(keys.c.shelf == shelf, keys.c.batch == batch).values(fingerprint=None))


def _forget_keys(connection: Connection, old: float) -> None:
    """Delete the Idempotency-Keys of released offers that are older than that."""
    keys = schema.retries
    connection.execute(sa.delete(keys).where(keys.c.fingerprint.is_(None), keys.c.made < old))


def _mine(batch: Row) -> sa.ColumnElement[bool]:
    table = schema.offers
    return sa.and_(table.c.shelf == batch["shelf"], table.c.batch == batch["batch"])
