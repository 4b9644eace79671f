"""The longest wait of a request while a batch of 2,000,000 visitors is released, and the memory that this takes.

One process without HTTP. Offers, answers and reads run one after the other, at the shelf being released and at another
one, from some seconds before the large batch is due until some after its release is published, while its visitors are
being deleted. The waits before it is due are those of the machine and its disk. A page is made durable over and over
beside them, to show the disk's share, and everything is repeated with the database in memory. The batch is written in
SQL as copies of two visits, one answered and one not, each with an Idempotency-Key; then the database rests, as it
would while that many visitors come.
`python -m benchmarks.service_release [visitors [coordinates]] [SQLite] [PostgreSQL] [disk] [memory]`
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks import table
from benchmarks.service_load import fsync_ms, postgres
from quietshelf.curation.batches import lag
from quietshelf.serving.service import queries
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.http import app
from quietshelf.serving.service.models import ItemBody, OfferBody, ShelfBody
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

VISITORS, ITEMS, DIM, CAPACITY, WINDOW = 2_000_000, 200, 8, 5, 1e9
NAMES = ("large", "other")
IN_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
ADMIN = Key("id", "benchmark", "", frozenset({"admin"}), None)
BEFORE, WARM = 20.0, 5.0
"""Seconds of visits before the batch is due, and how many of them are warm-up."""
AFTER = 30.0
"""Seconds of visits after its release is published."""
ANYBODY = OfferBody.model_validate({})
PAUSE, SELDOM = 0.005, 0.1
"""Seconds between two requests of one kind, and between two pages made durable."""


def main(visitors: int = VISITORS, dim: int = DIM) -> None:
    """Print a table per database; the command line overrides the arguments."""
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    size, dim = numbers[0] if numbers else visitors, numbers[1] if numbers[1:] else dim
    databases, places = (_wanted(*each) for each in (("SQLite", "PostgreSQL"), ("disk", "memory")))
    sys.setswitchinterval(app.SWITCH_SECONDS)  # as `quietshelf serve` does
    app.warm()
    load = os.getloadavg()[0]
    print(f"{size:,} visitors, d={dim}, K={CAPACITY}; load average {load:.1f}; fsync of 4 KiB: {fsync_ms():.2f} ms")
    for database, place in product(databases, places):
        with ExitStack() as running:
            folder = running.enter_context(tempfile.TemporaryDirectory(dir=IN_MEMORY if place == "memory" else None))
            url = f"sqlite:///{folder}/shop.db"
            if database == "PostgreSQL":
                url = running.enter_context(postgres(folder))
            _measured(f"{database}, {place}", url, Path(folder), size, dim)


def _wanted(*names: str) -> list[str]:
    """The names on the command line; all of them if there are none."""
    return [name for name in names if name in sys.argv[1:]] or list(names)


def _measured(name: str, database: str, folder: Path, size: int, dim: int) -> None:
    settings = ServiceSettings(database=database, secrets=str(folder / "secrets"), log_level="error")
    asyncio.run(_filled(settings, size, dim))
    service = Service(settings)
    service.start()
    began = time.monotonic()
    before, waits = asyncio.run(_visited(service, folder))
    lasted = time.monotonic() - began - BEFORE - AFTER
    service.stop()
    rows = [
        [
            kind,
            f"{len(each):,}",
            f"{1e3 * np.median(each):.1f}",
            f"{1e3 * np.quantile(each, 0.999):.1f}",
            f"{1e3 * max(each):.0f}",
        ]
        for kind, each in waits.items()
    ]
    head = ["requests beside it", "how many", "median ms", "99.9 %", "longest"]
    table(f"{name}: a batch of {size:,}, published {lasted:.0f} s after it was due", head, rows)
    print(f"  peak memory {_memory():.0f} MB, {_memory() - before:.0f} MB more than before it was due")


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _filled(settings: ServiceSettings, size: int, dim: int) -> None:
    """Two shelves, one of them with a full batch of this size."""
    service = Service(settings)
    service.start()
    rng = np.random.default_rng(3)
    for name in NAMES:
        body = {"rho": 1.0, "capacity": CAPACITY, "window": WINDOW if name == "large" else 5.0, "feature_map": "item"}
        await service.put_shelf(name, ShelfBody.model_validate(body))
        listed = [
            {"id": f"{number}", "features": row} for number, row in enumerate(rng.normal(size=(ITEMS, dim)).tolist())
        ]
        await service.put_items(name, [ItemBody.model_validate(each) for each in listed])
        service.following.catch_up(name)
    offers = [await service.offer("large", ANYBODY, f"key {number}") for number in range(2)]
    await service.choose(offers[0]["offer"], offers[0]["items"][0], ADMIN)
    await asyncio.to_thread(_copied, service, size, dim)
    await asyncio.to_thread(_rested, service)
    service.stop()


def _copied(service: Service, size: int, dim: int) -> None:
    with service.store.write() as connection:
        if not service.store.sqlite:
            connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        have = 2
        while have < size:
            more = min(have, size - have)
            for columns, names in (
                ("nonce, made, release, items, rows, answer, contribution, person", "offers"),
                ("fingerprint, made", "retries"),
            ):
                key = "" if names == "offers" else "key, "
                new = "" if names == "offers" else f"key || '{have}', "
                text = f"INSERT INTO {names} (shelf, batch, slot, {key}{columns}) SELECT shelf, batch, slot + {have}, {new}{columns} FROM {names} WHERE batch = 0 AND shelf = 1 AND slot < {more}"  # noqa: S608, E501 - our own names
                connection.execute(sa.text(text))
            have += more
        full = {"size": size, "taken": size, "full_at": time.time() + 1e6, "latest": time.time()}
        full["lag"] = lag(service.settings.release_seconds, size, dim)
        connection.execute(sa.update(schema.batches).where(schema.batches.c.shelf == 1).values(full))
        connection.execute(sa.update(schema.shelves).where(schema.shelves.c.shelf == 1).values(arrivals=size))


def _rested(service: Service) -> None:
    """Do what a database does in the hours while visitors come, rather than during the release."""
    with service.store.rehearse() as connection:
        driver: Any = connection.connection.driver_connection
        if service.store.sqlite:
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        else:
            driver.autocommit = True
            for each in ("SET statement_timeout = 0", "VACUUM (ANALYZE) offers, retries", "CHECKPOINT"):
                driver.execute(each)
            driver.autocommit = False
    os.sync()


def _becomes_due(connection: Any, service: Service) -> None:
    table = schema.batches
    full = service.time.now(connection) - WINDOW + BEFORE
    connection.execute(sa.update(table).where(table.c.shelf == 1, table.c.batch == 0).values(full_at=full))


async def _visited(service: Service, folder: Path) -> tuple[float, dict[str, list[float]]]:
    """Memory before the batch is due, and the time of each request by kind, until the batch is gone."""
    waits: dict[str, list[float]] = {}
    over, phase = asyncio.Event(), [""]
    await service.write(lambda connection: _becomes_due(connection, service))

    async def timed(kind: str, asked: Awaitable[Any]) -> Any:
        began = time.monotonic()
        found = await asked
        if phase[0]:
            waits.setdefault(f"{kind}, {phase[0]}", []).append(time.monotonic() - began)
        return found

    async def visit(name: str) -> None:
        offer = await timed(f"offer at {name} shelf", service.offer(name, ANYBODY, f"{time.monotonic()}"))
        await timed(f"answer at {name} shelf", service.choose(offer["offer"], None, ADMIN))

    async def read(name: str) -> None:
        await timed("read", asyncio.to_thread(_read, service, name))

    async def synced() -> None:
        await timed("fsync of 4 KiB", asyncio.to_thread(_synced, folder / "page"))

    async def many(ask: Callable[[], Awaitable[Any]], pause: float = PAUSE) -> None:
        while not over.is_set():
            await ask()
            await asyncio.sleep(pause)

    tasks = [asyncio.create_task(many(partial(visit, name))) for name in NAMES]
    tasks.append(asyncio.create_task(many(partial(read, "large"))))
    tasks.append(asyncio.create_task(many(synced, SELDOM)))
    await asyncio.sleep(WARM)
    phase[0] = "before"
    await asyncio.sleep(BEFORE - WARM)
    phase[0], memory = "meanwhile", _memory()
    while not await asyncio.to_thread(_published, service):
        await asyncio.sleep(1.0)
    await asyncio.sleep(AFTER)
    over.set()
    await asyncio.gather(*tasks)
    return memory, dict(sorted(waits.items()))


def _read(service: Service, name: str) -> Any:
    with service.store.read() as connection:
        return queries.promise(connection, queries.latest_row(connection, name), 1e-6)


def _synced(path: Path) -> None:
    with path.open("wb") as file:
        file.write(os.urandom(4096))
        file.flush()
        os.fsync(file.fileno())


def _published(service: Service) -> bool:
    """Whether the release is published."""
    with service.store.read() as connection:
        return bool(queries.latest_row(connection, "large")["releases"])


if __name__ == "__main__":
    main()
