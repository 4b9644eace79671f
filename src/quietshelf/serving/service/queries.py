"""What the scope ``read`` may see: promises, ledgers, releases and items. All of it is public."""

from __future__ import annotations

import json
import math
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation import arms
from quietshelf.curation.ledger_unit import addressed
from quietshelf.privacy.accounting import Ledger, together
from quietshelf.serving.service.catalogue import described
from quietshelf.serving.service.catalogue.catalogues import visible
from quietshelf.serving.service.catalogue.views import public_in, settings_in, shelf_row
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.timestamps import timestamp, timestamp_or_none
from quietshelf.serving.service.problems import NotFound

PAGE, LARGEST_PAGE = 1000, 10_000
"""Items per reply, by default and at most."""
RESTORED = (
    "A backup was restored. Releases made after it may be missing here; each visit is in one release at most, and "
    "persons may have been counted again."
)


def shelf_rows(connection: Connection) -> list[Row]:
    """Every shelf, oldest first, including deleted ones."""
    query = schema.COUNTED.order_by(schema.shelves.c.shelf)
    return [dict(row) for row in connection.execute(query).mappings()]


def last_time(connection: Connection) -> float:
    """The latest time of any living shelf."""
    table = schema.shelves
    found = connection.execute(sa.select(sa.func.max(table.c.last_time)).where(table.c.deleted.is_(None))).scalar()
    return 0.0 if found is None else float(found)


def late(connection: Connection, now: float) -> dict[int, float]:
    """How many seconds each overdue release is late, by shelf."""
    table = schema.batches
    due = sa.func.min(table.c.full_at + table.c.window + table.c.lag)
    query = sa.select(table.c.shelf, due).where(table.c.full_at.isnot(None)).group_by(table.c.shelf)
    return {shelf: now - first for shelf, first in connection.execute(query) if first < now}


def summary(row: Row) -> dict[str, Any]:
    """A shelf's settings and main figures."""
    return {
        "shelf": row["name"],
        "number": row["shelf"],
        "created": timestamp(row["created"]),
        "deleted": timestamp_or_none(row["deleted"]),
        "arrivals": row["arrivals"],
        "releases": row["releases"],
        "settings": json.loads(row["config"]),
        "notes": json.loads(row["notes"]),
    }


def shelf(connection: Connection, row: Row) -> dict[str, Any]:
    """The summary of a shelf, with the names of theta's coordinates."""
    return {**summary(row), "names": described.names_in(connection, row)}


def promise(connection: Connection, row: Row, delta: float) -> dict[str, Any]:
    """The promise in words and numbers, and the ledger behind it."""
    made = ledger_of(connection, row).promise(delta=delta).to_dict()
    return {**summary(row), **made}


def ledger_of(connection: Connection, row: Row, *, published: bool = True) -> Ledger:
    """The ledger of a shelf, and whether its promise is per person or per visit; a restore may have lost entries.

    ``published`` leaves out releases that wait for their time of publication.
    """
    config = settings_in(row).learning()
    return addressed(
        learning.ledger(connection, row["shelf"], config, published=published),
        arrivals=row["arrivals"],
        anonymous=row["anonymous"],
        history_incomplete=RESTORED if row["history_incomplete"] else None,
        rho_per_release=config.rho_per_release,
        log=public_in(row).log,
    )


def latest_row(connection: Connection, name: str) -> Row:
    """The living shelf of that name, or else the last deleted one, whose ledger remains."""
    try:
        return shelf_row(connection, name)
    except NotFound:
        gone = [row for row in shelf_rows(connection) if row["name"] == name]
        if not gone:
            raise
        return gone[-1]


def everything(connection: Connection, delta: float) -> dict[str, Any]:
    """The promises of all shelves, deleted ones included, and their sum."""
    rows = shelf_rows(connection)
    total = together(*(ledger_of(connection, row) for row in rows))
    listed = [promise(connection, row, delta) for row in rows]
    return {"rho": figure(total), "shelves": listed}


def figure(value: float) -> float | str:
    """A number as strict JSON can hold it, with infinity as a word."""
    return "infinity" if math.isinf(value) else value


def releases(connection: Connection, row: Row) -> list[dict[str, Any]]:
    """Every release: its time, its visitors, its noise, and the estimate it led to."""
    rows = learning.release_rows(connection, row["shelf"], row["releases"])
    names = names_of(connection, row, rows[0]) if rows else []
    return [release(each, names) for each in rows]


def names_of(connection: Connection, row: Row, release: Row) -> list[str]:
    """The names of the coordinates of a shelf's releases."""
    return described.names_in(connection, row, len(release["theta"]) // 8)


def release(each: Row, names: list[str]) -> dict[str, Any]:
    """One release, from its row."""
    return {
        "release": each["number"],
        "batch": each["batch"],
        "visitors": each["size"],
        "released": timestamp(each["released_at"]),
        "noise": {"score": each["score_scale"], "information": each["information_scale"]},
        "score": learning.unpacked(each["score"], -1).tolist(),
        "theta": learning.unpacked(each["theta"], -1).tolist(),
        "names": names,
        "precision": learning.unpacked(each["precision"], len(each["theta"]) // 8, -1).tolist(),
    }


def comparison(connection: Connection, row: Row) -> dict[str, Any]:
    """The learned policy against the present ranking, from releases alone, and whether offers fell back to it."""
    settings = settings_in(row)
    found = arms.comparison(settings, learning.learner(connection, row, settings))
    shares = {"learned_share": settings.learned_share, "comparison": settings.comparison, "guard": settings.guard}
    return {**shares, **found.to_dict()}


def items(connection: Connection, row: Row, *, after: int = -1, most: int = PAGE) -> list[dict[str, Any]]:
    """Items with numbers above ``after``, in order, including retired ones."""
    plain = ("number", "id", "revenue", "available", "retired", "group", "rank")
    table, seen = schema.items, visible(connection, row["shelf"])
    place = (table.c.shelf == row["shelf"], table.c.number > after, table.c.number < seen)
    query = sa.select(table).where(*place).order_by(table.c.number).limit(most)
    return [
        {**{name: each[name] for name in plain}, "features": learning.unpacked(each["features"], -1).tolist()}
        for each in connection.execute(query).mappings()
    ]


def items_page(connection: Connection, row: Row, *, after: int, most: int) -> dict[str, Any]:
    """One page of items, and the number after which the next begins; null at the end."""
    found = items(connection, row, after=after, most=most + 1)
    rest = found[most - 1]["number"] if len(found) > most else None
    return {"items": found[:most], "next": rest}
