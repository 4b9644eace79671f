"""Shared by two steps: forget the open batches, whose contributions an earlier version rounded or bounded differently.

They may not be released: a release now draws other noise. Dropping them costs no privacy.
"""

from __future__ import annotations

import json

import sqlalchemy as sa

SAID = (
    "{visitors} visitors of batches that were not released were left out when this version was installed: it {change} "
    "what a visitor contributes in another way. The promise is what it was."
)


def drop_open_batches(connection: sa.Connection, change: str) -> None:
    """Drop them on every shelf; ``change`` says in the shelf's notes what the new version does."""
    held = sa.table("batches", *map(sa.column, ("shelf", "batch", "size", "taken")))
    query = sa.select(held.c.shelf, held.c.size, held.c.taken).order_by(held.c.shelf, held.c.batch)
    found: dict[int, list[tuple[int, int]]] = {}
    for shelf, size, taken in connection.execute(query).all():
        found.setdefault(shelf, []).append((size, taken))
    for shelf, batches in found.items():
        visitors = sum(taken for _, taken in batches)
        said = SAID.format(visitors=visitors, change=change)
        _drop(connection, shelf, first=batches[0][0], visitors=visitors, said=said)


def _drop(connection: sa.Connection, shelf: int, *, first: int, visitors: int, said: str) -> None:
    """Forget the open batches of one shelf, like those of a restored backup, and add a note."""
    offers, batches = (sa.table(name, sa.column("shelf"), sa.column("batch")) for name in ("offers", "batches"))
    retries = sa.table("retries", sa.column("shelf"), sa.column("batch"), sa.column("fingerprint"))
    keys = (retries.c.shelf == shelf) & retries.c.batch.in_(sa.select(batches.c.batch).where(batches.c.shelf == shelf))
    connection.execute(sa.update(retries).where(keys).values(fingerprint=None))
    for table in (offers, batches):
        connection.execute(sa.delete(table).where(table.c.shelf == shelf))
    shelves = sa.table("shelves", *map(sa.column, ("shelf", "notes", "next_size", "config_version")))
    this = shelves.c.shelf == shelf
    notes = json.loads(connection.execute(sa.select(shelves.c.notes).where(this)).scalar_one())
    changed = {"notes": json.dumps([*notes, said]), "next_size": first, "config_version": shelves.c.config_version + 1}
    connection.execute(sa.update(shelves).where(this).values(changed))
    store = sa.table("store", sa.column("dropped"))
    connection.execute(sa.update(store).values(dropped=store.c.dropped + visitors))
