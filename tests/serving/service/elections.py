"""Two machines that elect who releases, and what each of them knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from tests.serving.service.cut_short import Counting
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, visit
from tests.serving.service.machines import machine, shop, with_the_key_of

from quietshelf.serving.service import queries
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.releases import verify
from quietshelf.serving.service.service import Service


@contextmanager
def two_machines(database: str, folder: Path, clock: FakeClock) -> Iterator[tuple[Service, Service]]:
    first = machine(database, folder / "a", clock, source=Counting())
    first.prepare()
    shop(first)
    people(first, 1, "early")
    second = machine(database, with_the_key_of(folder / "a", folder / "b"), clock, source=Counting())
    second.prepare()
    clock.time += 1.0
    first.releasing.stay()
    second.releasing.stay()
    yield first, second
    first.store.close()
    second.store.close()


def people(service: Service, count: int, prefix: str) -> None:
    now = service.store.local_now(0.0)
    with service.store.write() as connection:
        service.writing.place(connection, [visit("teas", now, person=f"{prefix} {n}") for n in range(count)])
    service.writing.settled(True, [])


def full(pair: tuple[Service, Service], clock: FakeClock) -> None:
    """The first batch is full, one more visitor has come, its window has passed, and both machines live."""
    people(pair[1], FIRST, "person")
    clock.time += WINDOW
    for each in pair:
        each.releasing.stay()


def ledger(service: Service) -> list[tuple[int, str]]:
    """Batch and detail of every event, of a ledger that is in order."""
    with service.store.read() as connection:
        row = queries.latest_row(connection, "teas")
        assert verify.verify(connection, row) == []
        return [(int(event.batch), event.detail) for event in learning.stored_events(connection, row["shelf"])]


def unit(service: Service) -> str:
    with service.store.read() as connection:
        return queries.ledger_of(connection, queries.latest_row(connection, "teas")).promise().unit


def waiting(service: Service) -> int:
    """Visitors of batches that are not released."""
    with service.store.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(schema.offers)).scalar_one())
