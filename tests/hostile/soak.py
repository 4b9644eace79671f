"""For months, in small: visitors at a steady pace, items that change, releases, a restart, a log that is rotated."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.hostile.acknowledged import BROKEN, compared
from tests.hostile.arena import memory
from tests.hostile.bounds import MEMORY_GROWTH, P99_GROWTH, PACE_KEPT
from tests.hostile.shoppers import shopping
from tests.serving.service.harness import ITEMS, Process, stocked

CLIENTS, MOST_SAMPLES = 48, 360
WINDOW, MOST_VISITORS = 20.0, 20_000
"""Seconds, but a quarter of the whole time at most; and visitors in a batch."""
ROTATED, RESTARTED, SETTLED = 0.2, 0.3, 0.4
"""Shares of the time after which the log is rotated, the database is started again, and figures are held to be flat."""
PARTS = 60
"""In how many parts of the time figures are told, so that anybody can see how they went."""


def soaked(database: str, folder: Path, *, seconds: float, pace: float, server: Any = None) -> dict[str, Any]:
    """Serve ``pace`` visitors per second for so long, without noise, so that every sum can be compared.

    Args:
        database: Its URL.
        folder: Of the secrets and the log.
        seconds: How long.
        pace: Visitors per second.
        server: That of the database, if it has one: it is started again.
    """
    process = Process(database, folder, program="tests.serving.service.exact")
    process.start()
    try:
        with process.client() as client:
            window = min(WINDOW, seconds / 4)
            stocked(client, window=window, max_batch=MOST_VISITORS)
        began = time.monotonic()
        with shopping(process, CLIENTS, CLIENTS / pace) as shoppers:
            held = _through(process, began, seconds, server)
        with process.client() as client:
            late = client.get("/readyz").json()["late_seconds"]
        process.stop()
    finally:
        process.end()
    times = sorted(each for shopper in shoppers for each in shopper.took)
    kept, lines = compared(database, folder, shoppers, exact=True), process.log.read_text().splitlines()
    return {
        "seconds": round(seconds),
        "visitors_per_second_wanted": pace,
        "visitors_per_second": round(kept["offers_acknowledged"] / seconds, 1),
        "seconds_behind_the_pace_at_the_end": round(max(shopper.behind for shopper in shoppers), 2),
        **kept,
        "late_seconds_at_the_end": late,
        "p99_seconds": _halves(times, began, seconds, _p99),
        "mebibytes": _halves(held, began, seconds, _median),
        "longest_stall_seconds": round(max(took for _, took in times), 2),
        "item_changes": len(held),
        "lines_logged_after_the_rotation": len(lines),
        "lines_that_are_not_json": sum(not line.startswith("{") for line in lines),
        "by_part": {
            "seconds_each": round(seconds / PARTS, 2),
            "requests": _parts(times, began, seconds, len),
            "p50_seconds": _parts(times, began, seconds, _median),
            "p99_seconds": _parts(times, began, seconds, _p99),
            "mebibytes": _parts(held, began, seconds, _median),
        },
    }


def flat(found: dict[str, Any]) -> list[str]:
    """Which bounds a soak broke."""
    broken = []
    for name, (factor, more) in (("p99_seconds", P99_GROWTH), ("mebibytes", MEMORY_GROWTH)):
        first, last = found[name]["first"], found[name]["last"]
        if last > factor * first + more:
            broken.append(f"{name}: {first:g} at first, {last:g} at last")
    made, wanted = found["visitors_per_second"], found["visitors_per_second_wanted"]
    if made < PACE_KEPT * wanted:
        broken.append(f"pace: {made:g} visitors per second, {wanted:g} wanted")
    return broken + [f"{name}: {found[name]}" for name in (*BROKEN, "lines_that_are_not_json") if found[name]]


def _through(process: Process, began: float, seconds: float, server: Any) -> list[tuple[float, float]]:
    """Change items all the time, rotate the log, start the database again; memory, and when it was read."""
    held: list[tuple[float, float]] = []
    ahead: dict[float, Callable[[], None]] = {ROTATED: lambda: _rotate(process.log)}
    if server is not None:
        ahead[RESTARTED] = lambda: _again(server)
    every = max(seconds / MOST_SAMPLES, 0.1)
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
        time.sleep(max(0.0, now + every - time.monotonic()))
    return held


def _rotate(log: Path) -> None:
    """As logrotate does with copytruncate."""
    log.with_suffix(".1").write_bytes(log.read_bytes())
    log.write_bytes(b"")


def _again(server: Any) -> None:
    server.stop()
    server.start()


Found = Sequence[tuple[float, float]]
"""Figures, and when each was taken."""


def _halves(found: Found, began: float, seconds: float, of: Callable[[list[float]], float]) -> dict[str, float]:
    """A figure of both halves of the time after everything has settled."""
    start, end = began + SETTLED * seconds, began + seconds
    middle = (start + end) / 2
    return {name: _between(found, *part, of) for name, part in (("first", (start, middle)), ("last", (middle, end)))}


def _parts(found: Found, began: float, seconds: float, of: Callable[[list[float]], float]) -> list[float]:
    """A figure of every part of the time."""
    edges = [began + seconds * part / PARTS for part in range(PARTS + 1)]
    return [_between(found, low, high, of) for low, high in itertools.pairwise(edges)]


def _between(found: Found, low: float, high: float, of: Callable[[list[float]], float]) -> float:
    return round(of([value for at, value in found if low <= at < high]), 4)


def _p99(values: list[float]) -> float:
    return float(np.percentile(values, 99)) if values else 0.0


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else 0.0
