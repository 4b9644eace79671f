"""Exact counts of what visitors of open batches chose: outside the promise, for ``admin`` only, not to be published.

Reads raw data: what was shown to and chosen by visitors who are not released yet. Rows of released visitors are gone.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.answers import ERASED
from quietshelf.model.types import NOTHING
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.timestamps import timestamp, timestamp_or_none
from quietshelf.serving.service.pages.views import Room

WARNING = "outside the promise: do not publish"
TOP = 50


def counts(room: Room, connection: Connection, row: Row) -> dict[str, Any]:
    """Exact sums over people: no noise, no ledger entry, no guarantee."""
    shown, chosen, answered, offers = _tally(connection, row)
    earned = _revenue(connection, row)
    lines = [
        {"item": item, "shown": shown[item], "chosen": chosen[item], "revenue": chosen[item] * earned.get(item, 0.0)}
        for item, _ in sorted(shown.items(), key=lambda pair: (-chosen[pair[0]], -pair[1], pair[0]))
    ]
    return {
        "page": "counts",
        "warning": WARNING,
        "now": timestamp(room.service.time.now(connection)),
        "shelf": row["name"],
        "deleted": timestamp_or_none(row["deleted"]),
        "offers": offers,
        "answered": answered,
        "chose_something": sum(chosen.values()),
        "revenue": sum(line["revenue"] for line in lines),
        "items": lines[:TOP],
        "more_items": max(0, len(lines) - TOP),
    }


def _tally(connection: Connection, row: Row) -> tuple[Counter[str], Counter[str], int, int]:
    table = schema.offers
    shown: Counter[str] = Counter()
    chosen: Counter[str] = Counter()
    answered = offers = 0
    query = sa.select(table.c["items"], table.c.answer).where(table.c.shelf == row["shelf"])
    for text, answer in connection.execute(query):
        items = json.loads(text) or []  # the service does not know what a device has shown
        shown.update(items)
        offers += 1
        answered += answer not in (None, ERASED)
        if items and answer not in (None, ERASED, NOTHING):
            chosen[items[answer]] += 1
    return shown, chosen, answered, offers


def _revenue(connection: Connection, row: Row) -> dict[str, float]:
    table = schema.items
    query = sa.select(table.c.id, table.c.revenue).where(table.c.shelf == row["shelf"])
    return {row.id: row.revenue for row in connection.execute(query)}
