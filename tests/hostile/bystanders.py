"""Shoppers in a process of their own: what an attack costs the attacker must not look like a stall of the service."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.hostile.shoppers import Shopper, shopping
from tests.serving.service.harness import Process

REMEMBERED = ("visits", "offers", "visitors", "chosen", "late", "wrong", "took", "behind")
FIRST_SERVED = 60.0
"""Seconds until each has been served, at most."""


@contextmanager
def bystanding(process: Process, clients: int, pause: float, first: int) -> Iterator[list[Shopper]]:
    """So many shoppers, who have all been served; what they remember is in the list once they have stopped."""
    found: list[Shopper] = []
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    place = process.port, process.key
    worker = spawn.Process(target=_shop, args=(there, *place, clients, pause, first), daemon=True)
    worker.start()
    there.close()  # else nobody would be told that it has ended
    try:
        assert here.recv() == "served", "bystanders are not served"
        yield found
    finally:
        here.send("stop")
        for number, remembered in enumerate(here.recv(), start=first):
            found.append(Shopper(process, number, threading.Event(), pause, **remembered))
        worker.join()


def _shop(there: Connection[Any, Any], port: int, key: str, clients: int, pause: float, first: int) -> None:
    process = Process("", Path())
    process.port, process.key = port, key
    with shopping(process, clients, pause, first) as shoppers:
        until = time.monotonic() + FIRST_SERVED
        while not all(each.took for each in shoppers) and time.monotonic() < until:
            time.sleep(0.05)
        there.send("served" if all(each.took for each in shoppers) else "waited in vain")
        there.recv()
    there.send([{name: getattr(each, name) for name in REMEMBERED} for each in shoppers])
