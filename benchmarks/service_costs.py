"""The cost of an offer, an answer, a release and a person to the service: processor time, bytes on disk, bytes of log.

Runs in one process without HTTP and measures processor time, its own and PostgreSQL's, so that the figures hold on a
busy machine too. Visitors come in groups of 16 with a person id and an Idempotency-Key; every other one answers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks import table
from benchmarks.service_load import cpu, fsync_ms, postgres
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.models import ItemBody, OfferBody, ShelfBody
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors.answers import Choice
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.offers import OfferRequest

ITEMS, GROUP, VISITORS = 1000, 16, 4000
WINDOW = 1e6
Cost = tuple[float, float, float]
"""Microseconds here, microseconds in PostgreSQL, bytes of its log."""


class Clock:
    """A clock set by hand."""

    time = 1.8e9

    def now(self) -> float:
        """The time."""
        return self.time


def main(visitors: int = VISITORS) -> None:
    """Print a table for each database."""
    print(f"N={ITEMS}, d=16, K=10, {visitors} visitors in groups of {GROUP}; fsync of 4 KiB: {fsync_ms():.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        _costs("SQLite", f"sqlite:///{folder}/shop.db", Path(folder), visitors)
    with tempfile.TemporaryDirectory() as folder, postgres(folder) as url:
        _costs("PostgreSQL", url.replace("postgresql://", "postgresql+psycopg://"), Path(folder), visitors)


def _costs(name: str, database: str, folder: Path, visitors: int) -> None:
    clock = Clock()
    service = Service(
        ServiceSettings(database=database, secrets=str(folder / "secrets"), poll_seconds=1e6), clock=clock
    )
    service.prepare()
    _stock(service, visitors)
    meter = Meter(service)
    offers: list[dict[str, Any]] = []
    with meter.counting("offer", visitors):
        for first in range(0, visitors, GROUP):
            clock.time += GROUP / 1000.0
            offers += _written(service, service.writing.place, _requests(first, clock.time))
    with meter.counting("answer", visitors // 2):
        for first in range(0, visitors // 2, GROUP):
            chosen = [_choice(service, offer, clock.time) for offer in offers[first : first + GROUP]]
            _written(service, service.writing.take_choices, chosen)
    bytes_per = _sizes(service, folder, visitors)
    clock.time += 2 * WINDOW
    with meter.counting("release", visitors):
        service._chores()
        while service.cleaning._more:  # the rows that it leaves
            service.cleaning.run()
    rows = [[each, *(f"{value:,.0f}" for value in meter.per(each))] for each in ("offer", "answer", "release")]
    head = [f"{name}, per visitor", "µs here", "µs in PostgreSQL", "bytes of its log"]
    table(f"{name}: cost of an offer, an answer, and of a release per visitor in it", head, rows)
    print("  bytes on disk:", ", ".join(f"{what} {size:,.0f}" for what, size in bytes_per.items()))
    service.store.close()


def _written(service: Service, operation: Any, payloads: list[Any]) -> list[Any]:
    """Run an operation in one transaction and return its replies."""
    with service.store.write() as connection:
        replies = operation(connection, payloads)
    service.writing.settled(True, [])
    return list(replies)


class Meter:
    """Records the cost of each kind of work."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._per: dict[str, list[float]] = {}

    @contextmanager
    def counting(self, kind: str, count: int) -> Iterator[None]:
        """Measure ``count`` pieces of work of one kind."""
        before = self._now()
        yield
        self._per[kind] = list(np.subtract(self._now(), before) / count)

    def _now(self) -> Cost:
        """The cost so far."""
        here = time.process_time() * 1e6
        if self._service.store.sqlite:
            return here, 0.0, 0.0
        with self._service.store.read() as connection:
            log = connection.execute(sa.text("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")).scalar_one()
            name = {"name": "quietshelf%"}
            query = sa.text("SELECT pid FROM pg_stat_activity WHERE application_name LIKE :name")
            busy = sum(cpu(pid) for pid in connection.execute(query, name).scalars())
        return here, busy * 1e6, float(log)

    def per(self, kind: str) -> list[float]:
        """The cost of one piece of work."""
        return self._per[kind]


def _stock(service: Service, visitors: int) -> None:
    """A shelf whose first batch holds all visitors."""
    rows = np.random.default_rng(0).normal(size=(ITEMS, 3)).tolist()
    body = {"rho": 1.0, "capacity": 10, "feature_map": "full", "visitor_dim": 3, "window": WINDOW}
    with service.store.write() as connection:
        shelves.put(connection, "load", ShelfBody.model_validate({**body, "conversion": 10.4 / visitors}), 0.0)
        bodies = [ItemBody.model_validate({"id": f"item-{n}", "features": row}) for n, row in enumerate(rows)]
        items.put_items(connection, "load", bodies)


def _requests(first: int, now: float) -> list[OfferRequest]:
    rows = np.random.default_rng(first).normal(size=(GROUP, 3)).tolist()
    return [
        OfferRequest("load", _body(row, f"p{first + n}"), f"key {first + n}", Receipt(now))
        for n, row in enumerate(rows)
    ]


def _body(row: list[float], person: str) -> OfferBody:
    return OfferBody.model_validate({"features": row, "person": person})


def _choice(service: Service, offer: dict[str, Any], now: float) -> Choice:
    ticket = service.vault.ticket(offer["offer"])
    assert ticket is not None
    return Choice(ticket, offer["items"][0], Receipt(now))


def _sizes(service: Service, folder: Path, visitors: int) -> dict[str, float]:
    """Bytes per visitor; those of a person and of a used key remain after the release."""
    if service.store.sqlite:
        service.store.checkpoint()
        return {"per visitor who is not released, in all": os.path.getsize(folder / "shop.db") / visitors}
    kept = (schema.offers, schema.retries, schema.persons)
    query = "SELECT pg_total_relation_size('{}')"
    with service.store.read() as connection:
        sizes = [connection.execute(sa.text(query.format(each.name))).scalar_one() for each in kept]
    return {name: size / visitors for name, size in zip(("offer and answer", "key", "person"), sizes, strict=True)}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else VISITORS)
