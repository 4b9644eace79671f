"""Uploads of items, as steps of writes: staged line by line, taken in once complete, shown by one change of a version.

Until it is complete an upload is nowhere but in ``staged``; one that breaks off is forgotten. When it is complete it
gets a version far above the shelf's own. Its items have that version, some hundred in one transaction, and nobody sees
them until the shelf's version is set to it. Changes made meanwhile have versions between, and are seen at once.
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
"""Items in one transaction: visitors wait no longer than for it."""
AHEAD = 2**32
"""How far above the shelf's own the version of an upload is."""
STALE_SECONDS = 600.0
"""An upload that has not gone on for so long has broken off."""
LEFT_SECONDS = 30.0
"""A complete upload that nobody has gone on with for so long is taken in by whoever sees it."""
ORPHANS = 2000
"""Lines of broken uploads that are deleted at once."""
_uploads, _staged = schema.uploads, schema.staged
STAGED = Keyed(_staged, ("upload", "id"))


class Line(NamedTuple):
    """One item of an upload: its line, its id, and the JSON that came."""

    line: int
    id: str
    body: str


def begin(connection: Connection, name: str, now: float) -> str:
    """A new upload to a shelf; its id."""
    upload, shelf = secrets.token_hex(8), shelf_row(connection, name)["shelf"]
    connection.execute(sa.insert(_uploads), {"upload": upload, "shelf": shelf, "touched": now})
    return upload


def stage(connection: Connection, upload: str, lines: Sequence[Line], now: float) -> None:
    """Keep some lines; `Invalid` for an id that came before."""
    _touch(connection, upload, now)
    ids = {each.id: each.line for each in lines}
    for again in STAGED.rows(connection, [(upload, name) for name in ids]):
        name = again["id"]
        raise Invalid(f"items must be named once each, got {name!r} in lines {again['line']} and {ids[name]}")
    insert_rows(connection, _staged, [{"upload": upload, **each._asdict()} for each in lines])


def complete(connection: Connection, upload: str, now: float) -> bool:
    """From here on the upload is taken in, whatever happens; False while another one is on that shelf."""
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
    """Make items of the next lines, unseen; after the last one show them all. None if all are shown."""
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
    """Put what still may be put: an item may have been retired, or its group be gone, since it was looked at."""
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
    """Forget an upload; its lines are deleted later."""
    connection.execute(sa.delete(_uploads).where(_uploads.c.upload == upload))


def waiting(connection: Connection) -> bool:
    """Whether there is anything to tidy."""
    return any(connection.execute(sa.select(table.c.upload).limit(1)).first() for table in (_uploads, _staged))


def tidy(connection: Connection, now: float) -> list[str]:
    """Forget uploads that broke off, and some of their lines; complete ones that nobody takes in any more."""
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
    """An upload, locked: another process may be taking it in."""
    return sa.select(_uploads).where(_uploads.c.upload == upload).with_for_update()


def _touch(connection: Connection, upload: str, now: float) -> Row:
    found = one(connection, _of(upload))
    if found is None:
        raise Conflict(
            "the upload must continue without long pauses, and its shelf must still exist; nothing of it is kept"
        )
    connection.execute(sa.update(_uploads).where(_uploads.c.upload == upload).values(touched=now))
    return found
