"""How a shelf stands at this moment: one state, and a sentence. Reads settings, arrivals, open batches and the clock.

Of an open batch only its size, how many have come, and when: who came is public, what they did is not read here.
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
"""A release is late if it is not there so many seconds, and two polls, after it was due."""
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
    """Batches that are not released, oldest first, by shelf: how full, and since when."""
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
    """The state of a shelf and what it means."""
    late = overdue(batches, now=now, poll=poll)
    name, words = _state(row, batches, refuses=refuses, items=items, late=late)
    return {"state": name, "title": STATES[name], "words": words, "late_seconds": late, "batch": _batch(batches, now)}


def lateness(batches: list[Row], now: float) -> float:
    """For how many seconds a release has been due at most; zero if none is."""
    due = (now - each["full_at"] - each["window"] - each["lag"] for each in batches if each["full_at"] is not None)
    return max(0.0, max(due, default=0.0))


def overdue(batches: list[Row], *, now: float, poll: float) -> float | None:
    """The same if it is late; None if not."""
    worst = lateness(batches, now)
    return worst if worst > GRACE + 2 * poll else None


def _state(row: Row, batches: list[Row], *, refuses: bool, items: int, late: float | None) -> tuple[str, str]:
    settings = json.loads(row["config"])
    if row["deleted"] is not None:
        return "deleted", "Deleted. Data of visitors in no release is deleted; the releases and the promise remain."
    if late is not None:
        return "late", (
            f"A release was due {lapse(late)} ago and is missing: the releaser is not running, or cannot write. "
            "Offers continue from the last release, and nothing is lost by waiting."
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
        return "gathering", f"Nothing is released before the first batch is full: {_filling(batches)}."
    return "learning", f"Offers are made from release {count(row['releases'])}. {_filling(batches).capitalize()}."


def _filling(batches: list[Row]) -> str:
    if not batches:
        return "the next batch opens with the next visitor"
    newest = batches[-1]
    if newest["full_at"] is not None:
        return "the last batch is full and waits for answers"
    return f"{count(newest['taken'])} of {count(newest['size'])} visitors have come"


def _batch(batches: list[Row], now: float) -> dict[str, Any] | None:
    """The batch that was opened last; when it may be released, once that is known."""
    if not batches:
        return None
    newest = batches[-1]
    full = newest["full_at"]
    due = None if full is None else full + newest["window"] + newest["lag"]
    return {
        "visitors": newest["taken"],
        "size": newest["size"],
        "window_seconds": newest["window"],
        "full": full is not None,
        "due": timestamp_or_none(due),
        "due_in_seconds": None if due is None else max(0.0, due - now),
    }
