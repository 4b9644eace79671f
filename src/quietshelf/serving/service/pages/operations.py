"""The operations page: requests, errors, latencies and the releaser, from this process's counters and open batches.

As everywhere, answers are neither counted nor timed.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.__about__ import __version__
from quietshelf.serving.service import queries
from quietshelf.serving.service.access import admin_log, keys
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.timestamps import timestamp, timestamp_or_none
from quietshelf.serving.service.pages import status, traffic
from quietshelf.serving.service.pages.views import Room
from quietshelf.serving.service.releases.steps import publications

LATEST = 20
"""Entries of the admin log that the page shows."""


def operations(room: Room, connection: Connection) -> dict[str, Any]:
    """The figures of the operations page."""
    service = room.service
    now, due = service.time.now(connection), publications(connection).next
    store = connection.execute(sa.select(schema.store)).one()
    routes = traffic.routes(service.metrics)
    return {
        "page": "operations",
        "now": timestamp(now),
        "version": __version__,
        "requests": sum(each["requests"] for each in routes),
        "refused": sum(each["refused"] for each in routes),
        "failed": sum(each["failed"] for each in routes),
        "routes": routes,
        "offers": room.activity.offers(now),
        "lateness": room.activity.lateness(now),
        "releaser": {
            "next_due": timestamp_or_none(due),
            "late": _late(room, connection, now),
        },
        "store": {
            "kind": "SQLite" if service.store.sqlite else "PostgreSQL",
            "restores": store.epoch,
            "visitors_left_out": store.dropped,
            "clock_moved_seconds": round(service.store.clock_drift, 1),
        },
    }


def admins(room: Room, connection: Connection) -> dict[str, Any]:
    """Keys and the latest admin log entries, which include erasures: for admins only."""
    now = room.service.store.now(connection)
    return {"keys": keys.listed(connection, now), **admin_log.entries(connection, most=LATEST)}


def _late(room: Room, connection: Connection, now: float) -> list[dict[str, Any]]:
    """Shelves whose release is overdue."""
    names = {row["shelf"]: row["name"] for row in queries.shelf_rows(connection)}
    poll = room.service.settings.poll_seconds
    found = [
        (names.get(shelf, "?"), status.overdue(batches, now=now, poll=poll))
        for shelf, batches in status.open_batches(connection).items()
    ]
    return [{"shelf": name, "late_seconds": late} for name, late in found if late is not None]
