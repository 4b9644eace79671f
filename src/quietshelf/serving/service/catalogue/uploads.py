"""The transactions of an upload: lines are staged, applied once complete, and shown by a single change of version.

Until it is complete, an upload exists only in ``staged``; if it breaks off, it is deleted. Once complete, it gets a
version far above the shelf's own. Its items are written with that version, a few hundred per transaction, and stay
hidden until the shelf's version is set to it. Changes made meanwhile get versions in between, and show at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.catalogue.catalogues import counted
from quietshelf.serving.service.catalogue.items import Prepared, Stamps, named, show, write
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.lookup import Keyed
from quietshelf.serving.service.database.prepared import insert_rows
from quietshelf.serving.service.database.store import one
from quietshelf.serving.service.models import ItemBody
from quietshelf.serving.service.problems import Conflict, Invalid

CHUNK = 250
"""Items per transaction: visitors wait for one transaction at most."""
AHEAD = 2**32
"""How far an upload's version is above the shelf's own."""
STALE_SECONDS = 600.0
"""An incomplete upload counts as abandoned after this time without progress."""
LEFT_SECONDS = 30.0
"""After this time without progress, any process may continue a complete upload."""
ORPHANS = 2000
"""Lines of abandoned uploads deleted per transaction."""
_uploads, _staged = schema.uploads, schema.staged
STAGED = Keyed(_staged, ("upload", "id"))


class Line(NamedTuple):
    """One item of an upload: its line number, its id, and its JSON."""

    line: int
    id: str
    body: str


def begin(connection: Connection, name: str, now: float) -> str:
    """Start an upload to a shelf; returns its id."""
    upload, shelf = secrets.token_hex(8), shelf_row(connection, name)["shelf"]
    connection.execute(sa.insert(_uploads), {"upload": upload, "shelf": shelf, "touched": now})
    return upload


def stage(connection: Connection, upload: str, lines: Sequence[Line], now: float) -> None:
    """Stage lines; `Invalid` if an id came before."""
    _touch(connection, upload, now)
    ids = {each.id: each.line for each in lines}
    for again in STAGED.rows(connection, [(upload, name) for name in ids]):
        name = again["id"]
        raise Invalid(f"items must be named once each, got {name!r} in lines {again['line']} and {ids[name]}")
    insert_rows(connection, _staged, [{"upload": upload, **each._asdict()} for each in lines])


def complete(connection: Connection, upload: str, now: float) -> bool:
    """Mark the upload complete: it will be applied, whatever happens. False while the shelf has another."""
    found = _touch(connection, upload, now)
    shelf = found["shelf"]
    row = one(connection, sa.select(schema.shelves).where(schema.shelves.c.shelf == shelf).with_for_update())
    assert row is not None  # noqa: S101 - a deleted shelf keeps its row
    other = sa.select(_uploads.c.upload).where(_uploads.c.shelf == shelf, _uploads.c.version.isnot(None))
    if connection.execute(other).first() is not None:
        return False
    told = {"base": counted(connection, shelf), "version": row["stock_version"] + AHEAD}
    connection.execute(sa.update(_uploads).where(_uploads.c.upload == upload).values(told))
    return True


def take_in(connection: Connection, upload: str, now: float) -> dict[str, int] | None:
    """Add the items of the next lines, hidden; after the last ones, show them all. None once all are shown."""
    if one(connection, _of(upload)) is None:
        return None
    found = _touch(connection, upload, now)
    row = one(connection, sa.select(schema.shelves).where(schema.shelves.c.shelf == found["shelf"]).with_for_update())
    assert row is not None  # noqa: S101 - a deleted shelf has no uploads
    query = sa.select(_staged).where(_staged.c.upload == upload).order_by(_staged.c.line).limit(CHUNK)
    lines = [Line(each.line, each.id, each.body) for each in connection.execute(query)]
    done = _enter(connection, row, lines, found["version"])
    mine = (_staged.c.upload == upload, _staged.c.line <= (lines[-1].line if lines else 0))
    connection.execute(sa.delete(_staged).where(*mine))
    if len(lines) < CHUNK:
        show(connection, row["shelf"], found["version"])
        drop(connection, upload)
    return done


def _enter(connection: Connection, row: Row, lines: Sequence[Line], version: int) -> dict[str, int]:
    """Put the items that are still valid: one may have been retired, or lost its group, since it was checked."""
    prepared, skipped = Prepared.of(connection, row), 0
    known = named(connection, row["shelf"], [each.id for each in lines])
    for each in lines:
        try:
            prepared.take(ItemBody.model_validate_json(each.body), known.get(each.id))
        except Invalid:
            skipped += 1
    write(connection, row, prepared, Stamps(0, version, version))
    return {**prepared.counts, "skipped": skipped}


def drop(connection: Connection, upload: str) -> None:
    """Delete an upload; its lines are deleted later."""
    connection.execute(sa.delete(_uploads).where(_uploads.c.upload == upload))


def waiting(connection: Connection) -> bool:
    """Whether there is anything to clean up."""
    return any(connection.execute(sa.select(table.c.upload).limit(1)).first() for table in (_uploads, _staged))


def tidy(connection: Connection, now: float) -> list[str]:
    """Delete abandoned uploads and some of their lines; returns complete ones that nobody is applying."""
    old = _uploads.c.touched < now - STALE_SECONDS
    connection.execute(sa.delete(_uploads).where(old, _uploads.c.version.is_(None)))
    lost = sa.select(_staged.c.upload, _staged.c.line).where(_staged.c.upload.not_in(sa.select(_uploads.c.upload)))
    orphans = connection.execute(lost.limit(ORPHANS)).all()
    if orphans:
        gone = (_staged.c.upload == sa.bindparam("of_upload")) & (_staged.c.line == sa.bindparam("of_line"))
        rows = [{"of_upload": upload, "of_line": line} for upload, line in orphans]
        connection.execute(sa.delete(_staged).where(gone), rows)
    left = sa.select(_uploads.c.upload).where(_uploads.c.touched < now - LEFT_SECONDS, _uploads.c.version.isnot(None))
    return list(connection.execute(left).scalars())


def _of(upload: str) -> sa.Select[Any]:
    """Select an upload and lock it, since another process may be applying it."""
    return sa.select(_uploads).where(_uploads.c.upload == upload).with_for_update()


def _touch(connection: Connection, upload: str, now: float) -> Row:
    found = one(connection, _of(upload))
    if found is None:
        raise Conflict(
            "the upload must continue without long pauses, and its shelf must still exist; nothing of it was kept"
        )
    connection.execute(sa.update(_uploads).where(_uploads.c.upload == upload).values(touched=now))
    return found
