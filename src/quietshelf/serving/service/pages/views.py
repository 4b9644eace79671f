"""The content of each page as plain data, which the template renders and the JSON twin returns.

Each function says what it reads. None reads visitors' raw data; only `counts` does, for ``admin``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.privacy.accounting import Event
from quietshelf.privacy.accounting.figures import added_up
from quietshelf.serving.service import queries
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.timestamps import timestamp, timestamp_or_none
from quietshelf.serving.service.pages import status
from quietshelf.serving.service.pages.activity import Activity
from quietshelf.serving.service.pages.budget_summary import BudgetSummaries, published_since
from quietshelf.serving.service.pages.insights import Insights
from quietshelf.serving.service.service import Service

SHOWN_SETTINGS = (
    "rho", "visits", "window", "on_no_answer", "policy", "private", "capacity", "limits", "feature_map", "intercept",
    "visitor_dim", "visitor_scale",
)  # fmt: skip


@dataclass(frozen=True)
class Room:
    """State that the pages share: the service, and caches of what is slow to compute."""

    service: Service
    activity: Activity
    insights: Insights
    budgets: BudgetSummaries

    @classmethod
    def of(cls, service: Service) -> Room:
        """Create it for one process."""
        return cls(service, Activity(service.store, service.metrics), Insights(), BudgetSummaries())


def overview(room: Room, connection: Connection, only: str | None) -> dict[str, Any]:
    """All shelves, or the only one a key may see. Reads settings, ledgers, item counts, arrivals, open batches."""
    now = room.service.time.now(connection)
    batches, items = status.open_batches(connection), status.items_on_offer(connection)
    rows = [row for row in queries.shelf_rows(connection) if only in (None, row["name"])]
    shelves = [_line(room, connection, row, batches.get(row["shelf"], []), items, now) for row in rows]
    total = queries.figure(added_up(float(each["promise"]["rho"]) for each in shelves)) if len(rows) > 1 else None
    return {
        "page": "overview",
        "now": timestamp(now),
        "living": [each for each in shelves if each["deleted"] is None],
        "deleted": [each for each in shelves if each["deleted"] is not None],
        "together": total,
        "late": sum(each["status"]["state"] == "late" for each in shelves),
    }


def shelf(room: Room, connection: Connection, row: Row) -> dict[str, Any]:
    """One shelf. Reads settings, items, releases, ledger, arrivals, open batches."""
    now = room.service.time.now(connection)
    batches, items = status.open_batches(connection), status.items_on_offer(connection)
    line = _line(room, connection, row, batches.get(row["shelf"], []), items, now)
    settings = json.loads(row["config"])
    since = published_since(connection, row)
    return {
        "page": "shelf",
        "now": timestamp(now),
        **line,
        **room.insights.of(connection, row),
        "left_out": left_out(row, batches.get(row["shelf"], [])),
        "notes": json.loads(row["notes"]),
        "settings": {name: settings[name] for name in SHOWN_SETTINGS},
        "contributions": settings.get("contributions", "server"),
        "statement_public_since": timestamp_or_none(since),
    }


def statement(room: Room, connection: Connection, row: Row) -> dict[str, Any]:
    """The privacy statement. Reads only the ledger, the times of releases, and the settings."""
    since = published_since(connection, row)
    settings = json.loads(row["config"])
    dated = {each["batch"]: each for each in learning.release_rows(connection, row["shelf"], row["releases"])}
    ledger = queries.ledger_of(connection, row)
    return {
        "page": "statement",
        "now": timestamp(room.service.time.now(connection)),
        "shelf": row["name"],
        "operator": room.service.settings.operator,
        "contact": room.service.settings.contact,
        "created": timestamp(row["created"]),
        "deleted": timestamp_or_none(row["deleted"]),
        "promise": room.budgets.of(connection, row),
        "window_seconds": settings["window"],
        "on_no_answer": settings["on_no_answer"],
        "contributions": settings.get("contributions", "server"),
        "events": [_event(event, dated) for event in ledger.events],
        "notes": json.loads(row["notes"]),
        "public_since": timestamp_or_none(since),
    }


def left_out(row: Row, batches: list[Row]) -> int:
    """How many batches were neither released nor are open: refused by the ledger, or dropped by a restore."""
    return 0 if row["deleted"] is not None else max(0, int(row["opened"]) + 1 - len(batches) - int(row["releases"]))


def publish(room: Room, connection: Connection, name: str, public: bool) -> None:
    """Make a shelf's privacy statement public, or require a key for it."""
    table, shelf = schema.published, queries.latest_row(connection, name)["shelf"]
    connection.execute(sa.delete(table).where(table.c.shelf == shelf))
    if public:
        connection.execute(sa.insert(table), {"shelf": shelf, "since": room.service.store.now(connection)})


def _line(
    room: Room, connection: Connection, row: Row, batches: list[Row], items: dict[int, int], now: float
) -> dict[str, Any]:
    """A shelf's main figures."""
    promise = room.budgets.of(connection, row)
    settings = json.loads(row["config"])
    state = status.status(
        row, batches, refuses=promise["refuses"], items=items.get(row["shelf"], 0), now=now,
        poll=room.service.settings.poll_seconds,
    )  # fmt: skip
    return {
        "shelf": row["name"],
        "created": timestamp(row["created"]),
        "deleted": timestamp_or_none(row["deleted"]),
        "policy": settings["policy"],
        "status": state,
        "promise": promise,
        "arrivals": row["arrivals"],
        "per_minute": [] if row["deleted"] is not None else room.activity.per_minute(row["shelf"], now),
        "arrivals_per_minute": None if row["deleted"] is not None else room.activity.recent(row["shelf"], now),
        "release_count": row["releases"],
        "last_release": _last_release(connection, row),
    }


def _last_release(connection: Connection, row: Row) -> str | None:
    table = schema.releases
    query = sa.select(sa.func.max(table.c.released_at)).where(
        table.c.shelf == row["shelf"], table.c.number <= row["releases"]
    )
    return timestamp_or_none(connection.execute(query).scalar())


def _event(event: Event, dated: dict[Any, Row]) -> dict[str, Any]:
    """A ledger entry, with the time and number of visitors of its release, if known."""
    of = dated.get(event.batch)
    given = event.to_dict()
    if event.cost_alone:
        given |= {"sensitivity": None, "noise": None}
    return {
        "what": event.name,
        "batch": event.batch,
        "released": None if of is None else timestamp(of["released_at"]),
        "visitors": None if of is None else of["size"],
        **{name: given[name] for name in ("sensitivity", "noise", "rho", "assumption", "detail")},
    }
