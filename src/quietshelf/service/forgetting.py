"""What was seen of visitors goes when their batch does, a piece at a time: nobody waits for a large one.

Rows of slots whose batch is released, burnt or dropped are never read, from the transaction that ends it on. What is
left of them is remembered: looking for it among rows that were deleted just now takes PostgreSQL longer every time.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.service import schema

PIECE = 256
"""Rows that are deleted at a time."""
_USED_KEY = sa.update(schema.retries).values(fingerprint=None)


def forget_batch(connection: Connection, shelf: int, batch: int) -> None:
    """Forget a batch that is refused, burnt or dropped; a process goes on with its visitors (`forget_more`)."""
    table = schema.batches  # locked in the order in which answers lock them
    gone = sa.delete(table).where(table.c.shelf == shelf, table.c.batch == batch).returning(table.c.size)
    size = connection.execute(gone).scalar()
    if size is not None:
        forget_slots(connection, shelf, batch, size)


def forget_slots(connection: Connection, shelf: int, batch: int, size: int) -> None:
    """Begin to delete what was seen of the visitors of a batch of that size."""
    connection.execute(sa.insert(schema.leftovers), {"shelf": shelf, "batch": batch, "slot": 0, "size": size})
    _forget_piece(connection, shelf, batch, 0, size)


def forget_more(connection: Connection) -> bool:
    """Delete some more of what batches that are gone have left; whether there was any."""
    table = schema.leftovers
    oldest = sa.select(table).order_by(table.c.shelf, table.c.batch).limit(1).with_for_update(skip_locked=True)
    row = connection.execute(oldest).one_or_none()
    if row is None:
        return False
    _forget_piece(connection, row.shelf, row.batch, row.slot, row.size)
    return True


def _forget_piece(connection: Connection, shelf: int, batch: int, slot: int, size: int) -> None:
    """The next slots; of Idempotency-Keys only that they were used remains."""
    for table, forget in ((schema.offers, sa.delete(schema.offers)), (schema.retries, _USED_KEY)):
        some = (table.c.slot >= slot, table.c.slot < slot + PIECE)
        connection.execute(forget.where(table.c.shelf == shelf, table.c.batch == batch, *some))
    left = schema.leftovers
    mine = (left.c.shelf == shelf, left.c.batch == batch)
    if slot + PIECE < size:
        connection.execute(sa.update(left).where(*mine).values(slot=slot + PIECE))
    else:
        connection.execute(sa.delete(left).where(*mine))
