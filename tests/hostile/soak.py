"""For months, in small: visitors at a steady pace, items that change, releases, a restart, a log that is rotated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.hostile.acknowledged import compared
from tests.hostile.arena import memory
from tests.hostile.bounds import MEMORY_GROWTH, P99_GROWTH
from tests.hostile.shoppers import shopping
from tests.service.harness import ITEMS, Process, stocked

CLIENTS, SAMPLES, WINDOW = 16, 90, 5.0
ROTATED, RESTARTED, SETTLED = 0.2, 0.3, 0.4
"""Shares of the time after which the log is rotated, the database is started again, and figures are held to be flat."""


def soaked(database: str, folder: Path, *, seconds: float, pace: float, server: Any = None) -> dict[str, Any]:
    """Serve ``pace`` visitors per second for so long; ``server`` is that of the database, if it has one."""
    process = Process(database, folder)
    process.start()
    try:
        with process.client() as client:
            stocked(client, window=WINDOW)
        began = time.monotonic()
        with shopping(process, CLIENTS, CLIENTS / pace) as shoppers:
            held = _through(process, began, seconds, server)
        with process.client() as client:
            late = client.get("/readyz").json()["late_seconds"]
        process.stop()
    finally:
        process.end()
    times = sorted(each for shopper in shoppers for each in shopper.took)
    kept, lines = compared(database, folder, shoppers), process.log.read_text().splitlines()
    return {
        "seconds": round(seconds),
        "visitors_per_second_wanted": pace,
        "visitors_per_second": round(kept["offers_acknowledged"] / seconds, 1),
        **kept,
        "late_seconds_at_the_end": late,
        "p99_seconds": _halves(times, began, seconds, lambda part: float(np.percentile(part, 99))),
        "mebibytes": _halves(held, began, seconds, lambda part: float(np.median(part))),
        "longest_stall_seconds": round(max(took for _, took in times), 2),
        "lines_logged_after_the_rotation": len(lines),
        "lines_that_are_not_json": sum(not line.startswith("{") for line in lines),
    }


def flat(found: dict[str, Any]) -> list[str]:
    """Which bounds a soak broke."""
    broken = []
    for name, (factor, more) in (("p99_seconds", P99_GROWTH), ("mebibytes", MEMORY_GROWTH)):
        first, last = found[name]["first"], found[name]["last"]
        if last > factor * first + more:
            broken.append(f"{name}: {first:g} at first, {last:g} at last")
    lost = [
        name
        for name in ("offers_lost", "choices_lost_or_changed", "releases_lost", "lines_that_are_not_json")
        if found[name]
    ]
    return broken + lost


def _through(process: Process, began: float, seconds: float, server: Any) -> list[tuple[float, float]]:
    """Change items all the time, rotate the log, start the database again; memory, and when it was read."""
    held: list[tuple[float, float]] = []
    ahead: dict[float, Callable[[], None]] = {ROTATED: lambda: _rotate(process.log)}
    if server is not None:
        ahead[RESTARTED] = lambda: _again(server)
    changes = 0
    while (now := time.monotonic()) < began + seconds:
        for share in [share for share in ahead if now >= began + share * seconds]:
            ahead.pop(share)()
        held.append((now, memory(process.pid)))
        with process.client() as client:
            item = {"id": str(ITEMS[changes % len(ITEMS)]["id"]), "revenue": 1.0 + changes % 7}
            reply = client.put("/v1/shelves/teas/items", json={"items": [item]})
            assert reply.status_code in (200, 503), reply.text
        changes += 1
        time.sleep(max(0.0, now + seconds / SAMPLES - time.monotonic()))
    return held


def _rotate(log: Path) -> None:
    """As logrotate does with copytruncate."""
    log.with_suffix(".1").write_bytes(log.read_bytes())
    log.write_bytes(b"")


def _again(server: Any) -> None:
    server.stop()
    server.start()


def _halves(
    found: Sequence[tuple[float, float]], began: float, seconds: float, of: Callable[[list[float]], float]
) -> dict[str, float]:
    """A figure of both halves of the time after everything has settled."""
    start, end = began + SETTLED * seconds, began + seconds
    middle = (start + end) / 2
    parts = {"first": (start, middle), "last": (middle, end)}
    return {
        name: round(of([value for at, value in found if low <= at < high] or [0.0]), 4)
        for name, (low, high) in parts.items()
    }
