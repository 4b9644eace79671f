"""Two processes that lease slots, and what comes to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.serving.service.harness import FakeClock, visit
from tests.serving.service.machines import machine, shop

from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.writer import Contended

BLOCK = 6


@contextmanager
def two_processes(database: str, folder: Path) -> Iterator[tuple[Service, Service, FakeClock]]:
    """Two processes that lease blocks of 6 slots of a batch of 18; the first leads."""
    clock = FakeClock()
    both = [machine(database, folder / "secrets", clock, poll_seconds=3600.0) for _ in range(2)]
    for each in both:
        each.prepare()
        each.leasing.block = lambda _, free: min(BLOCK, free)
    shop(both[0])
    yield both[0], both[1], clock
    for each in both:
        each.following.catalogues.close()
        each.store.close()


def came(service: Service, *requests: Any) -> list[Any]:
    """The replies to these requests, in one transaction, as the writer would; asked again if another was at it."""
    for _ in range(5):
        try:
            with service.store.write() as connection:
                replies = service.writing.place(connection, requests)
        except Contended:
            service.writing.settled(False, [])
            continue
        service.writing.settled(True, [])
        return replies
    raise AssertionError("asked again and again")


def slots(replies: list[Any]) -> list[tuple[int, int]]:
    """Batch and slot of each offer."""
    return [(int(batch), int(slot)) for _, batch, slot, _ in (each["offer"].split(".", 3) for each in replies)]


def visits(clock: FakeClock, count: int, **body: Any) -> list[Any]:
    return [visit("teas", clock.time, **body) for _ in range(count)]


def figures(service: Service) -> tuple[int, int]:
    """Arrivals and releases, as anybody may know them."""
    with service.store.read() as connection:
        row = shelf_row(connection, "teas")
    return row["arrivals"], row["releases"]
