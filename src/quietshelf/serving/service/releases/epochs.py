"""Keeps the epoch file: how far each shelf has come, and which batch is announced (R7, R8).

A release is announced in the file before its noise is drawn, and settled after its commit. Whatever happens in between,
in this process or the next, the file knows which batch may have been drawn (`restore`; docs/proofs.md, section 6).

On PostgreSQL, which several machines may share, the announcement is committed to the database first, and every
machine's file notes it (`election`). A file is *current* if it has the id of the last announcement: then it knows of
every release.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.serving.service.catalogue.views import public_in, settings_in
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Mark, Progress
from quietshelf.serving.service.releases.election import Announcement, announced

ELSEWHERE = (
    "a release must be announced in the epoch file that has the last one, got the file of another machine (if that "
    "machine is lost, run quietshelf restore)"
)
OTHER = "the epoch file must belong to this database (if this is a backup, run quietshelf restore)"
LOST_COMMIT = "a release must follow the last one in the epoch file, got a database that has lost it"


class StoreRow(NamedTuple):
    """The row of ``store``."""

    one: int
    identity: str
    key_check: str
    epoch: int
    dropped: int
    releaser_id: str | None


_STORE, _STORE_LOCKED = Prepared(sa.select(schema.store)), Prepared(sa.select(schema.store).with_for_update())
_RENAME = Prepared(sa.update(schema.store).values(releaser_id=sa.bindparam("mine")))
_events = schema.events.c
_last = sa.select(_events.shelf, sa.func.max(_events.batch).label("batch")).group_by(_events.shelf).subquery()
_PROGRESS = Prepared(
    sa.select(
        *(schema.shelves.c[name] for name in ("shelf", "name", "config", "opened")),
        sa.func.coalesce(_last.c.batch, -1).label("released"),
    ).join_from(schema.shelves, _last, schema.shelves.c.shelf == _last.c.shelf, isouter=True)
)


class Look(NamedTuple):
    """What one transaction read: the row of ``store``, how far each shelf has come, and what is announced."""

    this: StoreRow
    found: Progress
    announced: list[Announcement]


def look(connection: Connection) -> Look:
    """Read what is compared with an epoch file."""
    return Look(_this(connection), progress(connection), announced(connection))


def progress(connection: Connection) -> Progress:
    """How far each shelf has come, and what its releases cost."""
    return {str(row["shelf"]): _mark(row) for row in _PROGRESS.rows(connection, {})}


def used(known: Progress) -> bool:
    """Whether any shelf ever made an offer."""
    return any(mark["opened"] >= 0 for mark in known.values())


def behind(found: Progress, known: Progress) -> bool:
    """Whether the database lacks shelves, batches or releases that the file knows of: a commit was lost (R8)."""
    for shelf, mark in known.items():
        here = found.get(shelf)
        if here is None or mark["opened"] > here["opened"] or mark["released"] > here["released"]:
            return True
    return False


def unsettled(found: Mark | None, known: Mark | None) -> list[int]:
    """Batches of one shelf that the file announced and whose cost is not in the database."""
    last = -1 if found is None else found["released"]
    return [batch for batch in ([] if known is None else known["announced"]) if batch > last]


def note(store: Store, *, seen: Look | None = None, afresh: bool = False, mine: bool = False) -> str | None:
    """Update the epoch file from the database; returns the last announcement. The caller holds the file's lock.

    An announcement is removed only once the database has the cost of that batch: if the commit is lost, it stays (R7).

    Args:
        store: The database and its epoch file.
        seen: The database, if the caller has just read it under this lock.
        afresh: Whether what the file knows beyond the database is settled, and may be forgotten.
        mine: Whether this file has just become the one that announces: it then counts as complete.
    """
    if seen is None:
        with store.read() as connection:
            seen = look(connection)
    (this, found, under_way), file = seen, store.vault.epoch
    afresh = afresh and this.epoch > file.get("epoch", -1)  # else the database has lost that as well
    known: Progress = {} if afresh else file.get("shelves", {})
    merged = {shelf: furthest(found.get(shelf), known.get(shelf)) for shelf in {**known, **found}}
    for shelf, mark in merged.items():
        told = {each.batch for each in under_way if each.shelf == int(shelf)}
        mark["announced"] = sorted({*unsettled(found.get(shelf), known.get(shelf)), *told})
    content = {
        "releaser_ids": [] if this.releaser_id is None else [this.releaser_id],
        "complete": mine or current(this, under_way, file),
        "witnesses": [] if mine else file.get("witnesses", []),
        "shelves": merged,
    }
    _write(store, this, content, afresh=afresh)
    return this.releaser_id


def current(this: StoreRow, under_way: list[Announcement], file: dict[str, Any]) -> bool:
    """Whether an epoch file knows of every release: it has the last announcement, or the one before that under way.

    It must have missed none before. A file that did keeps noting new ones, but stays incomplete until a process whose
    file is complete has heard of it (`election`).

    Args:
        this: The row of ``store``.
        under_way: The announcements at the same moment.
        file: The content of the epoch file.
    """
    ids = file.get("releaser_ids", [])
    before = [each.previous for each in under_way if each.id == this.releaser_id]
    has = this.releaser_id is None or this.releaser_id in ids or any(each in ids for each in before)
    return has and bool(file.get("complete", file))  # earlier versions let complete files alone release


def is_current(connection: Connection, store: Store) -> bool:
    """Whether this epoch file is current, by the database as it is now."""
    return current(_this(connection), announced(connection), store.vault.epoch)


def announce(store: Store, connection: Connection, shelf: int, batch: int) -> Announcement:
    """R7: write to the epoch file that a batch is about to be released, before its noise is drawn.

    The caller holds the file's lock. The database carries the id of its last announcement; a file without that id may
    not announce, because two files that each know some of the releases could not detect a restored backup. A database
    that has lost a release is refused here (R8).
    """
    this, found = _checked(store, connection)
    merged = {each: {**mark, "announced": []} for each, mark in found.items()}
    merged[str(shelf)]["announced"] = [batch]
    before = [] if this.releaser_id is None else [this.releaser_id]
    told = Announcement(_new_id(connection), shelf, batch, this.releaser_id)
    content = {"releaser_ids": [*before, told.id], "complete": True, "witnesses": [], "shelves": merged}
    _write(store, this, content, always=True)  # an earlier attempt may have written the file
    return told


def tell(store: Store, connection: Connection, shelf: int, batch: int) -> Announcement:
    """R7, on PostgreSQL: announce to all machines as this transaction commits; `note` follows in every file.

    This file gets the id first, so it stays current even if the outcome of the commit is never known. A file with the
    id but without the announcement belongs to the releaser, and nothing has been drawn yet.
    """
    this, _ = _checked(store, connection)
    told = Announcement(_new_id(connection), shelf, batch, this.releaser_id)
    connection.execute(sa.insert(schema.announcements).values(told._asdict()))
    before = [] if this.releaser_id is None else [this.releaser_id]
    store.vault.note({**store.vault.epoch, "releaser_ids": [*before, told.id]})
    return told


def untold(told: Announcement, file: dict[str, Any]) -> bool:
    """Whether this file made the announcement and nothing was drawn: it has only the id (`tell`)."""
    mark: Mark = file.get("shelves", {}).get(str(told.shelf), {"announced": []})
    return told.id in file.get("releaser_ids", []) and told.batch not in mark["announced"]


def _checked(store: Store, connection: Connection) -> tuple[StoreRow, Progress]:
    """The row of ``store``, locked, and every shelf's progress; refused unless this file may announce."""
    this = _this(connection, _STORE_LOCKED)
    file, found = store.vault.epoch, progress(connection)
    require(current(this, [], file), ELSEWHERE)
    known: Progress = file.get("shelves", {})
    require(not behind(found, known), LOST_COMMIT)
    return this, found


def take_over(store: Store, connection: Connection) -> None:
    """Make this epoch file the one that announces, as this transaction commits."""
    file, mine = store.vault.epoch, _new_id(connection)
    if file:  # a new file is written after the commit; if that fails, the next start repeats this step
        store.vault.note({**file, "releaser_ids": [*file.get("releaser_ids", []), mine]})


def _new_id(connection: Connection) -> str:
    mine = secrets.token_hex(8)
    _RENAME.run(connection, {"mine": mine})
    return mine


def _this(connection: Connection, query: Prepared = _STORE) -> StoreRow:
    (row,) = query.tuples(connection, {})
    return StoreRow(*row)


def _write(store: Store, this: StoreRow, told: dict[str, Any], *, afresh: bool = False, always: bool = False) -> None:
    file = store.vault.epoch
    require(afresh or file.get("identity") == this.identity or not used(file.get("shelves", {})), OTHER)
    name = file.get("file") or secrets.token_hex(8)
    content = {"identity": this.identity, "epoch": this.epoch, "file": name, **told}
    if always or file != content:
        store.vault.note(content)


def furthest(one: Mark | None, other: Mark | None) -> Mark:
    """The further of two marks of one shelf, with its name and cost."""
    if other is None or one == other:
        return dict(one or {})
    found = sorted((mark for mark in (other, one) if mark is not None), key=lambda mark: int(mark["opened"]))
    return {**found[-1], **{name: max(mark[name] for mark in found) for name in ("opened", "released")}}


def _mark(row: Row) -> Mark:
    return {
        "opened": row["opened"],
        "released": row["released"],
        "announced": [],
        "name": row["name"],
        **_promised(row["config"]),
    }


@lru_cache(maxsize=10_000)
def _promised(config: str) -> Mark:
    """What a shelf with these settings promises; cached, since every check asks it of every shelf."""
    row = {"config": config}
    settings, log = settings_in(row), public_in(row).log
    return {
        "rho": settings.rho,
        "visits": settings.visits,
        "rho_per_release": settings.learning().rho_per_release,
        "log": None if log is None else log.to_dict()["cost"],
    }
