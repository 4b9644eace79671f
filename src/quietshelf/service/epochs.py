"""The epoch file as the service keeps it: how far each shelf has come, and which batches are about to be released.

A release is announced in the file before it is committed, and struck off after: whatever ends the process in between,
the next start knows of a batch that may have been published (`restore`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.service import schema
from quietshelf.service.models import ShelfBody
from quietshelf.service.store import Store
from quietshelf.service.vault import Mark, Marks
from quietshelf.service.views import settings_of
from quietshelf.types import require

OTHER = "the epoch file must be the one of this database; if this is a backup, run quietshelf restore"


def marks(connection: Connection) -> Marks:
    """How far each shelf has come, and what its releases cost."""
    shelves, done = schema.shelves, schema.events
    columns = (shelves.c.shelf, shelves.c.name, shelves.c.config, shelves.c.opened)
    query = (
        sa.select(*columns, sa.func.coalesce(sa.func.max(done.c.batch), -1).label("released"))
        .join_from(shelves, done, shelves.c.shelf == done.c.shelf, isouter=True)
        .group_by(*columns)
    )
    return {str(row.shelf): _mark(row) for row in connection.execute(query)}


def used(known: Marks) -> bool:
    """Whether any shelf was ever offered."""
    return any(mark["opened"] >= 0 for mark in known.values())


def note(store: Store, *, settled: bool = False, afresh: bool = False) -> None:
    """Bring the epoch file up to the database; the caller holds its lock.

    Args:
        store: The database and its epoch file.
        settled: Whether it is certain that no announced release is under way; else those not made yet stay announced.
        afresh: What the file knows beyond the database is settled and may be forgotten.
    """
    with store.read() as connection:
        this = connection.execute(sa.select(schema.store)).one()
        found, table = marks(connection), schema.batches
        waiting = {tuple(row) for row in connection.execute(sa.select(table.c.shelf, table.c.batch))}
    known: Marks = {} if afresh else store.vault.marks.get("shelves", {})
    merged = {shelf: furthest(found.get(shelf), known.get(shelf)) for shelf in {**known, **found}}
    for shelf, mark in merged.items():
        before = [] if settled else known.get(shelf, {}).get("releasing", [])
        mark["releasing"] = [batch for batch in before if (int(shelf), batch) in waiting]
    _write(store, this, merged, afresh=afresh)


class Announced(Store):
    """The same store; its transactions announce what they release, in the epoch file, before they are committed."""

    def __init__(self, store: Store) -> None:
        vars(self).update(vars(store))

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction; if it cannot be announced, nothing of it happens."""
        with super().write() as connection:
            yield connection
            self._announce(connection)

    def _announce(self, connection: Connection) -> None:
        this = connection.execute(sa.select(schema.store)).one()
        known: Marks = self.vault.marks.get("shelves", {})
        merged = dict(known)
        for shelf, mark in marks(connection).items():
            last = known.get(shelf, {"released": -1})["released"]
            new = list(range(last + 1, mark["released"] + 1))
            merged[shelf] = {**furthest(mark, known.get(shelf)), "released": last, "releasing": new}
        _write(self, this, merged, always=True)  # an earlier try may have failed after the file had its new content


def _write(store: Store, this: Any, merged: Marks, *, afresh: bool = False, always: bool = False) -> None:
    file = store.vault.marks
    require(afresh or file.get("identity") == this.identity or not used(file.get("shelves", {})), OTHER)
    if always or file != {"identity": this.identity, "epoch": this.epoch, "shelves": merged}:
        store.vault.note(this.identity, this.epoch, merged)


def furthest(one: Mark | None, other: Mark | None) -> Mark:
    """Of two marks of one shelf the further; name and cost as they were when it had come that far."""
    found = sorted((mark for mark in (other, one) if mark is not None), key=lambda mark: int(mark["opened"]))
    return {**found[-1], **{name: max(mark[name] for mark in found) for name in ("opened", "released")}}


def _mark(row: Any) -> Mark:
    settings = settings_of(ShelfBody.model_validate_json(row.config))
    return {
        "opened": row.opened,
        "released": row.released,
        "releasing": [],
        "name": row.name,
        "rho": settings.rho,
        "visits": settings.visits,
        "rho_per_release": settings.learning(declared=True).rho_per_release,
    }
