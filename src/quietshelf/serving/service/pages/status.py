"""The state of a shelf right now, with a sentence about it. Reads settings, arrivals, open batches and the clock.

Of an open batch it reads only size, arrivals and times, which are public; it never reads what visitors did.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.catalogue.shelves import NOT_PRIVATE
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.timestamps import timestamp_or_none
from quietshelf.serving.service.pages.wording import count, lapse

GRACE = 5.0
"""A release counts as late this many seconds, and two polls, after it was due."""
STATES = {
    "learning": "Learning",
    "gathering": "First batch",
    "new": "No visitors yet",
    "empty": "No items yet",
    "comparison": "Comparison",
    "late": "Release is late",
    "refused": "Budget spent",
    "deleted": "Deleted",
}


def open_batches(connection: Connection) -> dict[int, list[Row]]:
    """Unreleased batches by shelf, oldest first: how full each is, and since when."""
    table = schema.batches
    columns = [table.c[name] for name in ("shelf", "size", "taken", "window", "full_at", "lag")]
    found: dict[int, list[Row]] = defaultdict(list)
    for row in connection.execute(sa.select(*columns).order_by(table.c.shelf, table.c.batch)).mappings():
        found[row["shelf"]].append(dict(row))
    return found


def items_on_offer(connection: Connection) -> dict[int, int]:
    """How many items each shelf may show."""
    table = schema.items
    wanted = sa.select(table.c.shelf, sa.func.count()).where(table.c.available, ~table.c.retired)
    return {row[0]: row[1] for row in connection.execute(wanted.group_by(table.c.shelf))}


def status(row: Row, batches: list[Row], *, refuses: bool, items: int, now: float, poll: float) -> dict[str, Any]:
    """The state of a shelf, and what it means."""
    late = overdue(batches, now=now, poll=poll)
    name, words = _state(row, batches, refuses=refuses, items=items, late=late, now=now)
    return {"state": name, "title": STATES[name], "words": words, "late_seconds": late, "batch": _batch(batches, now)}


def lateness(batches: list[Row], now: float) -> float:
    """How long the most overdue release has been due, in seconds; zero if none is."""
    due = (_due(each) for each in batches)
    return max(0.0, max((now - each for each in due if each is not None), default=0.0))


def overdue(batches: list[Row], *, now: float, poll: float) -> float | None:
    """The lateness of a release if it counts as late; None if not."""
    worst = lateness(batches, now)
    return worst if worst > GRACE + 2 * poll else None


def _state(
    row: Row, batches: list[Row], *, refuses: bool, items: int, late: float | None, now: float
) -> tuple[str, str]:
    settings = json.loads(row["config"])
    if row["deleted"] is not None:
        return "deleted", "Deleted. Data of visitors in no release is deleted; the releases and the promise remain."
    if late is not None:
        return "late", (
            f"A release was due {lapse(late)} ago and is missing: the releaser is not running, or cannot write. "
            "Offers continue from the last release, and waiting loses nothing."
        )
    if refuses:
        return "refused", (
            "The budget is spent: the ledger refuses every further release. Offers continue from the last release; "
            "nothing more is learned. A new shelf starts a new budget, and budgets add up."
        )
    if items == 0:
        return "empty", "There are no items to show. Add items before the first offer."
    if row["arrivals"] == 0:
        return "new", "Nobody has visited yet. The first offer fixes the settings that the promise rests on."
    if settings["policy"] in NOT_PRIVATE:
        return "comparison", "Shows items at random, for comparison. It is not what Quietshelf would show."
    if row["releases"] == 0:
        due = None if not batches else _due(batches[0])
        if due is not None:
            return "gathering", f"The first batch is full and waits for answers, for {lapse(max(0.0, due - now))} more."
        return "gathering", f"Nothing is released before the first batch is full: {_filling(batches)}."
    return "learning", f"Offers are made from release {count(row['releases'])}. {_filling(batches).capitalize()}."


def _filling(batches: list[Row]) -> str:
    if not batches:
        return "the next batch opens with the next visitor"
    newest = batches[-1]
    if newest["full_at"] is not None:
        return "the last batch is full and waits for answers"
    return f"{count(newest['taken'])} of {count(newest['size'])} visitors have come"


def _due(batch: Row) -> float | None:
    """When a batch may be released; None until it is full."""
    return None if batch["full_at"] is None else float(batch["full_at"] + batch["window"] + batch["lag"])


def _batch(batches: list[Row], now: float) -> dict[str, Any] | None:
    """The newest batch, and when it may be released, once that is known."""
    if not batches:
        return None
    newest = batches[-1]
    due = _due(newest)
    return {
        "visitors": newest["taken"],
        "size": newest["size"],
        "window_seconds": newest["window"],
        "full": due is not None,
        "due": timestamp_or_none(due),
        "due_in_seconds": None if due is None else max(0.0, due - now),
    }
