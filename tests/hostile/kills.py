"""kill -9 at random moments under load: nothing acknowledged is lost, nothing is counted or released twice."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.hostile.acknowledged import compared
from tests.hostile.shoppers import shopping
from tests.serving.service.harness import Process, stocked

CLIENTS = 4
PATIENCE = 60.0
"""Seconds that a release is waited for, beyond its window."""


def killed(database: str, folder: Path, kills: int, window: float = 12.0) -> dict[str, Any]:
    """Kill the real process so often, wait for a release, and compare; without noise, so that sums can be."""
    process = Process(database, folder, program="tests.serving.service.exact")
    process.start()
    with process.client() as client:
        stocked(client, window=window)
    rng, back = random.Random(7), []  # noqa: S311 - when to kill
    try:
        with shopping(process, CLIENTS) as shoppers:
            for _ in range(kills):
                time.sleep(rng.uniform(0.1, 0.8))
                process.kill()
                back.append(process.start())
            _released(process, window + PATIENCE)
        time.sleep(window / 4)
        process.stop()
    finally:
        process.end()
    found = compared(database, folder, shoppers, exact=True)
    ready = {"median": round(float(np.median(back)), 2), "most": round(max(back), 2)}
    return {"kills": kills, **found, "seconds_until_ready": ready}


def _released(process: Process, seconds: float) -> None:
    """Wait until there is a release, while visitors come."""
    until = time.monotonic() + seconds
    with process.client() as client:
        while client.get("/v1/shelves/teas").json()["releases"] == 0:
            assert time.monotonic() < until, "no release was made"
            time.sleep(0.1)
