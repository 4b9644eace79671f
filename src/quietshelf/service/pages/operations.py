"""Operations: requests, errors, latencies, the releaser. Reads counters of this process and open batches.

Answers are neither counted nor timed, here as everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.__about__ import __version__
from quietshelf.service import admin_log, keys, queries, schema
from quietshelf.service.metrics import Metrics
from quietshelf.service.pages import standing
from quietshelf.service.pages.views import Room
from quietshelf.service.releaser import next_publication
from quietshelf.service.timestamps import timestamp, timestamp_or_none

LATEST = 20
"""Entries of the log of admins that are shown."""
QUANTILES = {"half_within": 0.5, "most_within": 0.95, "nearly_all_within": 0.99}


def operations(room: Room, connection: Connection) -> dict[str, Any]:
    """How the service runs."""
    service = room.service
    now, due = service.now(connection), next_publication(connection)
    store = connection.execute(sa.select(schema.store)).one()
    routes = requests(service.metrics)
    return {
        "page": "operations",
        "now": timestamp(now),
        "version": __version__,
        "requests": sum(each["requests"] for each in routes),
        "refused": sum(each["refused"] for each in routes),
        "failed": sum(each["failed"] for each in routes),
        "routes": routes,
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
    """Keys, and what admins did last: for admins alone, for erasures are among it."""
    now = room.service.store.now(connection)
    return {"keys": keys.listed(connection, now), **admin_log.entries(connection, most=LATEST)}


def requests(metrics: Metrics) -> list[dict[str, Any]]:
    """Each route: how often asked, refused (4xx), failed (5xx), and within what time it answered."""
    counted: dict[str, dict[str, int]] = defaultdict(lambda: {"requests": 0, "refused": 0, "failed": 0})
    for sample in _samples(metrics.requests, "_total"):
        line, kind = counted[sample.labels["route"]], sample.labels["status"][:1]
        line["requests"] += int(sample.value)
        line["refused"] += int(sample.value) * (kind == "4")
        line["failed"] += int(sample.value) * (kind == "5")
    buckets: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample in _samples(metrics.latency, "_bucket"):
        buckets[sample.labels["route"]].append((float(sample.labels["le"]), sample.value))
    return [
        {"route": route, **line, **{name: within(buckets[route], share) for name, share in QUANTILES.items()}}
        for route, line in sorted(counted.items(), key=lambda pair: -pair[1]["requests"])
    ]


def within(buckets: list[tuple[float, float]], share: float) -> float | None:
    """The least limit within which so large a share was answered; None beyond the last one.

    >>> within([(0.01, 90.0), (0.02, 100.0), (float("inf"), 100.0)], 0.95)
    0.02
    """
    ordered = sorted(buckets)
    goal = share * ordered[-1][1] if ordered else 0.0
    reached = [limit for limit, seen in ordered if seen >= goal and limit != float("inf")]
    return reached[0] if reached and goal > 0 else None


def _samples(metric: Any, ending: str) -> list[Any]:
    return [sample for family in metric.collect() for sample in family.samples if sample.name.endswith(ending)]


def _late(room: Room, connection: Connection, now: float) -> list[dict[str, Any]]:
    """Shelves whose release should have been made by now."""
    names = {row["shelf"]: row["name"] for row in queries.shelf_rows(connection)}
    poll = room.service.settings.poll_seconds
    found = [
        (names.get(shelf, "?"), standing.overdue(batches, now=now, poll=poll))
        for shelf, batches in standing.open_batches(connection).items()
    ]
    return [{"shelf": name, "late_seconds": late} for name, late in found if late is not None]
