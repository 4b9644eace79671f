"""Deletes visitors' raw data with their batch, in pieces so that nobody waits for a large one.

Once a transaction has released, burnt or dropped a batch, nothing reads the rows of its slots. A table keeps track of
what is left to delete: searching for it among freshly deleted rows takes PostgreSQL longer every time.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.prepared import Prepared

PIECE = 64
"""Largest batch deleted in one go, and the first piece of a larger one, in slots."""


def _some_of(table: sa.Table, forget: sa.Delete | sa.Update) -> Prepared:
    """A statement for some slots of one batch."""
    slots = (table.c.slot >= sa.bindparam("first"), table.c.slot < sa.bindparam("end"))
    return Prepared(
        forget.where(table.c.shelf == sa.bindparam("of_shelf"), table.c.batch == sa.bindparam("of_batch"), *slots)
    )


_FORGET = (
    _some_of(schema.offers, sa.delete(schema.offers)),
    _some_of(schema.retries, sa.update(schema.retries).values(fingerprint=None)),
)
"""Of Idempotency-Keys, only the fact that they were used remains."""


def forget_batch(connection: Connection, shelf: int, batch: int) -> None:
    """Delete a refused, burnt or dropped batch; `forget_more` deletes the rest of its visitors later."""
    table = schema.batches  # locked in the order in which answers lock them
    gone = sa.delete(table).where(table.c.shelf == shelf, table.c.batch == batch).returning(table.c.size)
    size = connection.execute(gone).scalar()
    if size is not None:
        forget_slots(connection, shelf, batch, size)


def forget_slots(connection: Connection, shelf: int, batch: int, size: int) -> None:
    """Delete the visitors' data of a batch of this size; if it is large, note it for later."""
    if size <= PIECE:
        _delete(connection, shelf, batch, 0, size)
    else:
        connection.execute(sa.insert(schema.leftovers), {"shelf": shelf, "batch": batch, "slot": 0, "size": size})


def forget_more(connection: Connection, slots: int) -> int:
    """Delete up to ``slots`` more slots of a batch that is gone; returns how many there were."""
    left = schema.leftovers
    oldest = sa.select(left).order_by(left.c.shelf, left.c.batch).limit(1).with_for_update(skip_locked=True)
    row = connection.execute(oldest).one_or_none()
    if row is None:
        return 0
    end, mine = row.slot + slots, (left.c.shelf == row.shelf, left.c.batch == row.batch)
    _delete(connection, row.shelf, row.batch, row.slot, end)
    done = sa.update(left).values(slot=end) if end < row.size else sa.delete(left)
    connection.execute(done.where(*mine))
    return min(slots, int(row.size) - int(row.slot))


def _delete(connection: Connection, shelf: int, batch: int, first: int, end: int) -> None:
    for statement in _FORGET:
        statement.run(connection, {"of_shelf": shelf, "of_batch": batch, "first": first, "end": end})
