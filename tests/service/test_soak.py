"""For months, in small: visitors come at a steady pace, batches are released, and memory stays where it was."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest
from tests.service.harness import Process, answered, offered, stocked
from tests.studies.size import FULL, keep

SECONDS, PACE, SAMPLES = (900, 20.0, 90) if FULL else (9, 20.0, 9)
"""How long, visitors a second (a few per cent of a core), and how often memory is read."""


def held(pid: int) -> float:
    """MiB of the process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.study
def test_memory_stays_flat_while_visitors_come_and_batches_go(tmp_path: Path) -> None:
    """The median of the last third is that of the middle third, to 5 % and 4 MiB; every visitor has a slot."""
    process = Process(f"sqlite:///{tmp_path}/shop.db", tmp_path)
    process.start()
    try:
        with process.client() as client:
            stocked(client, window=2.0)
            began, visitors = time.monotonic(), 0
            memory: list[tuple[float, float]] = []
            while (now := time.monotonic() - began) < SECONDS:
                if now >= len(memory) * SECONDS / SAMPLES:
                    memory.append((round(now, 1), round(held(process.pid), 2)))
                offer = offered(client, retry=f"visit {visitors}", person=f"person {visitors}").json()
                answered(client, offer["offer"], offer["items"][visitors % 3])
                visitors += 1
                time.sleep(max(0.0, began + visitors / PACE - time.monotonic()))
            shelf = client.get("/v1/shelves/teas").json()
    finally:
        process.stop()
    third = len(memory) // 3
    middle, last = (statistics.median(size for _, size in part) for part in (memory[third:-third], memory[-third:]))
    keep(f"soak-{SECONDS}", seconds=SECONDS, visitors=visitors, releases=shelf["releases"],
         middle_third_mebibytes=middle, last_third_mebibytes=last, seconds_and_mebibytes=memory)  # fmt: skip
    assert shelf["arrivals"] == visitors
    assert shelf["releases"] >= 1
    assert last <= 1.05 * middle + 4.0
