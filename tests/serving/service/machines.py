"""Services as separate machines run them, on one database, and shops for them to serve."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.serving.service.harness import (
    ITEMS,
    SHELF,
    FakeClock,
    restless,
    visit,
)  # fmt: skip

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.models import ItemBody, ShelfBody
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings


def machine(
    database: str,
    folder: Path,
    clock: FakeClock,
    source: NoiseSource | None = None,
    coins: Callable[[int], Coins] | None = None,
    **options: Any,
) -> Service:
    """A service that does nothing by itself."""
    settings = ServiceSettings(database=database, secrets=str(folder), **{"release_seconds": 0.0, **options})
    return restless(Service(settings, clock=clock, source=source, coins=coins))


def visitors(service: Service, count: int, then: Exception | None = None) -> None:
    """So many, in one transaction, which ``then`` may spoil."""
    with service.store.write() as connection:
        service.writing.place(connection, [visit("teas", service.store.local_now(0.0)) for _ in range(count)])
        if then is not None:
            raise then


def shop(service: Service) -> None:
    with service.store.write() as connection:
        shelves.put(connection, "teas", ShelfBody.model_validate(SHELF), 0.0)
        items.put_items(connection, "teas", [ItemBody.model_validate(item) for item in ITEMS])


def with_the_key_of(folder: Path, other: Path) -> Path:
    """Another machine's secrets: the key, and no epoch file."""
    other.mkdir(mode=0o700)
    shutil.copy(folder / "key", other / "key")
    return other
