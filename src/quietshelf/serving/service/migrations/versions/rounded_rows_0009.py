"""Contributions are kept as rounded rows, and summed as they are: open batches, kept as matrices, are dropped.

What visitors of an open batch contributed was rounded for other noise than a release now draws, so it may not be
released. Dropping costs no privacy: their contributions and features are deleted, their offers have expired, and the
next batch has the size of the first that was dropped.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

DROPPED = (
    "{visitors} visitors of batches that were not released were left out when this version was installed: it rounds "
    "what a visitor contributes in another way. The promise is what it was."
)


def upgrade() -> None:
    """Drop what is open."""
    connection = op.get_bind()
    held = sa.table("batches", *map(sa.column, ("shelf", "batch", "size", "taken")))
    query = sa.select(held.c.shelf, held.c.size, held.c.taken).order_by(held.c.shelf, held.c.batch)
    found: dict[int, list[tuple[int, int]]] = {}
    for shelf, size, taken in connection.execute(query).all():
        found.setdefault(shelf, []).append((size, taken))
    for shelf, batches in found.items():
        _drop(connection, shelf, first=batches[0][0], visitors=sum(taken for _, taken in batches))


def _drop(connection: sa.Connection, shelf: int, *, first: int, visitors: int) -> None:
    """Forget the open batches of one shelf, as a restored backup's are; that they were is said in its notes."""
    offers, batches = (sa.table(name, sa.column("shelf"), sa.column("batch")) for name in ("offers", "batches"))
    retries = sa.table("retries", sa.column("shelf"), sa.column("batch"), sa.column("fingerprint"))
    keys = (retries.c.shelf == shelf) & retries.c.batch.in_(sa.select(batches.c.batch).where(batches.c.shelf == shelf))
    connection.execute(sa.update(retries).where(keys).values(fingerprint=None))
    for table in (offers, batches):
        connection.execute(sa.delete(table).where(table.c.shelf == shelf))
    shelves = sa.table("shelves", *map(sa.column, ("shelf", "notes", "next_size", "config_version")))
    this = shelves.c.shelf == shelf
    notes = json.loads(connection.execute(sa.select(shelves.c.notes).where(this)).scalar_one())
    said = json.dumps([*notes, DROPPED.format(visitors=visitors)])
    changed = {"notes": said, "next_size": first, "config_version": shelves.c.config_version + 1}
    connection.execute(sa.update(shelves).where(this).values(changed))
    store = sa.table("store", sa.column("dropped"))
    connection.execute(sa.update(store).values(dropped=store.c.dropped + visitors))
