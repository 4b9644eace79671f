"""Scenarios of size: large batches, changes of large catalogues, several workers."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
from benchmarks.service_load import stock
from benchmarks.service_load_client import load
from tests.hostile.arena import SECONDS, WINDOW, Arena, scenario
from tests.hostile.clients import LARGE
from tests.hostile.faults import GRACE
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.harness import Process
from tests.studies.size import FULL

CROWD = 20_000 if FULL else 400
"""Visitors of the large batch."""


@scenario(2, f"a batch of {CROWD:,} visitors is released")
def large_batch(arena: Arena) -> dict[str, Any]:
    """Nobody waits for it, and it is not held in memory at once."""
    with arena.client as client:
        stock(arena.process.port, arena.process.key, window=WINDOW, conversion=10.4 / CROWD)

        def figures() -> dict[str, Any]:
            return dict(client.get("/v1/shelves/load-0").json())

        while not figures()["releases"] and figures()["arrivals"] < 2 * CROWD:
            load([arena.process.port], arena.process.key, seconds=1.0, connections=8, prefix="load")
        took = arena.wait(lambda: figures()["releases"] > 0, "the batch is released", WINDOW + GRACE)
        size = client.get("/v1/shelves/load-0/releases").json()["releases"][0]["visitors"]
    return {"visitors_in_the_batch": size, "seconds_until_released": round(took, 1)}


@scenario(4, "an item of the large shelf changes several times a second")
def changes(arena: Arena) -> dict[str, Any]:
    """A change costs what it changes."""
    made, began = 0, time.monotonic()
    with arena.client as client:
        while time.monotonic() < began + SECONDS:
            item = {"id": f"item-{made % 100}", "revenue": 1.0 + made % 7}
            reply = client.put(f"/v1/shelves/{LARGE}/items", json={"items": [item]})
            assert reply.json() == {"added": 0, "changed": 1}, reply.text
            offer = client.post(f"/v1/shelves/{LARGE}/offers", json={})
            assert offer.status_code in (200, 503), offer.text
            made += 1
            time.sleep(0.2)
    return {"changes": made}


@scenario(8, "two workers, whose counters are read again and again", postgres=True)
def two_workers(arena: Arena) -> dict[str, Any]:
    """A counter never runs backwards, whoever of them is asked."""
    folder = arena.folder / "two workers"
    folder.mkdir()
    process = Process(fresh_postgres(arena.postgres), folder, QUIETSHELF_WORKERS="2")
    process.start()
    try:
        headers = {"Authorization": f"Bearer {process.key}"}
        seen, backwards = 0.0, 0
        for _ in range(50):  # a connection each, so that both are asked
            text = httpx.get(f"{process.url}/metrics", headers=headers, timeout=30).text
            total = sum(map(float, re.findall(r"^quietshelf_requests_total\{.*\} (.*)$", text, re.MULTILINE)))
            backwards, seen = backwards + (total < seen), total
        assert not backwards, f"counters ran backwards {backwards} times of 50"
    finally:
        process.stop()
    return {"looks": 50, "requests_counted": seen}
