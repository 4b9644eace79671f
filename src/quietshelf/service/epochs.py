"""The epoch file as the service keeps it: how far each shelf has come, and which batches are about to be released.

A release is announced in the file before it is committed, and struck off after: whatever ends the process in between,
the next start knows of a batch that may have been published (`restore`).
"""

from __future__ import annotations

import secrets
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.service import schema
from quietshelf.service.learning import Row
from quietshelf.service.store import Store
from quietshelf.service.vault import Mark, Marks
from quietshelf.service.views import settings_in
from quietshelf.types import require

ELSEWHERE = (
    "a release must be announced in the epoch file that has the last one, got the file of another machine; if that one "
    "is lost, run quietshelf restore"
)
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
    return {str(row["shelf"]): _mark(dict(row)) for row in connection.execute(query).mappings()}


def used(known: Marks) -> bool:
    """Whether any shelf was ever offered."""
    return any(mark["opened"] >= 0 for mark in known.values())


def note(store: Store, *, settled: bool = False, afresh: bool = False, mine: bool = False) -> None:
    """Bring the epoch file up to the database; the caller holds its lock.

    Args:
        store: The database and its epoch file.
        settled: Whether it is certain that no announced release is under way; else those not made yet stay announced.
        afresh: What the file knows beyond the database is settled and may be forgotten.
        mine: Whether this file has just taken over the announcing of releases.
    """
    with store.read() as connection:
        this = connection.execute(sa.select(schema.store)).one()
        found, table = marks(connection), schema.batches
        waiting = {tuple(row) for row in connection.execute(sa.select(table.c.shelf, table.c.batch))}
    file = store.vault.marks
    known: Marks = {} if afresh else file.get("shelves", {})
    merged = {shelf: furthest(found.get(shelf), known.get(shelf)) for shelf in {**known, **found}}
    for shelf, mark in merged.items():
        before = [] if settled else known.get(shelf, {}).get("releasing", [])
        mark["releasing"] = [batch for batch in before if (int(shelf), batch) in waiting]
    seals = file.get("seals", [])
    if this.seal is not None and (mine or this.seal in seals):
        seals = [this.seal]
    _write(store, this, merged, seals, afresh=afresh)


def keeps(store: Store) -> bool:
    """Whether the last release was announced in this epoch file: only then does the file know of every release."""
    with store.read() as connection:
        seal = connection.execute(sa.select(schema.store.c.seal)).scalar_one()
    return seal is None or seal in store.vault.marks.get("seals", [])


def announce(store: Store, connection: Connection) -> None:
    """Write what a transaction releases to the epoch file, before it is committed; the caller holds the file's lock.

    The database carries the seal of the file that announced its last release. Another machine's file does not have
    it, and cannot announce: two files that each know some of the releases could not tell a restored backup.
    """
    this = connection.execute(sa.select(schema.store).with_for_update()).one()
    file = store.vault.marks
    require(this.seal is None or this.seal in file.get("seals", []), ELSEWHERE)
    known: Marks = file.get("shelves", {})
    merged = dict(known)
    for shelf, mark in marks(connection).items():
        last = known.get(shelf, {"released": -1})["released"]
        new = list(range(last + 1, mark["released"] + 1))
        merged[shelf] = {**furthest(mark, known.get(shelf)), "released": last, "releasing": new}
    before = [] if this.seal is None else [this.seal]
    _write(store, this, merged, [*before, _seal(connection)], always=True)  # an earlier try may have written the file


def take_over(store: Store, connection: Connection) -> None:
    """Make this epoch file the one that announces, from this transaction's commit on."""
    file, seal = store.vault.marks, _seal(connection)
    if file:  # if there is none, the file is written after the commit, or the next start asks for the same step again
        store.vault.note(file["identity"], file["epoch"], file["shelves"], [*file.get("seals", []), seal])


def _seal(connection: Connection) -> str:
    seal = secrets.token_hex(8)
    connection.execute(sa.update(schema.store).values(seal=seal))
    return seal


def _write(
    store: Store, this: Any, merged: Marks, seals: list[str], *, afresh: bool = False, always: bool = False
) -> None:
    file = store.vault.marks
    require(afresh or file.get("identity") == this.identity or not used(file.get("shelves", {})), OTHER)
    if always or file != {"identity": this.identity, "epoch": this.epoch, "seals": seals, "shelves": merged}:
        store.vault.note(this.identity, this.epoch, merged, seals)


def furthest(one: Mark | None, other: Mark | None) -> Mark:
    """Of two marks of one shelf the further; name and cost as they were when it had come that far."""
    found = sorted((mark for mark in (other, one) if mark is not None), key=lambda mark: int(mark["opened"]))
    return {**found[-1], **{name: max(mark[name] for mark in found) for name in ("opened", "released")}}


def _mark(row: Row) -> Mark:
    settings = settings_in(row)
    return {
        "opened": row["opened"],
        "released": row["released"],
        "releasing": [],
        "name": row["name"],
        "rho": settings.rho,
        "visits": settings.visits,
        "rho_per_release": settings.learning(declared=True).rho_per_release,
    }
