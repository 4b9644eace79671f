"""Databases for many short runs: prepared once, emptied before each."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine
from tests.serving.service.harness import restless

from quietshelf.curation.coins import Coins
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import EPOCH, KEY, Vault
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

COINS = Coins(b"the coins of both worlds")
SECRET = b"the key of both worlds, 32 bytes"


class Place:
    """A folder and a database; ``loop`` runs the handlers."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self._secrets, self._template = folder / "secrets", folder / "template.db"
        self._file = None if url is not None else folder / "shop.db"
        self.url = f"sqlite:///{self._file}" if url is None else url
        self._secrets.mkdir(parents=True, mode=0o700)
        (self._secrets / KEY).write_bytes(SECRET)
        made = self._store(f"sqlite:///{self._template}" if url is None else self.url)
        made.migrate()
        with made.read() as connection:
            self._first = {
                table: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
                for table in (schema.store, schema.releaser)
            }
        made.close()
        self._engines: tuple[Engine, Engine] | None = None

    def service(
        self, *, poll_seconds: float, group_limit: int, release_seconds: float = 0.0, **injected: Any
    ) -> Service:
        """A process that does nothing by itself; its tables are there already."""
        settings = ServiceSettings(
            database=self.url,
            secrets=str(self._secrets),
            poll_seconds=poll_seconds,
            group_limit=group_limit,
            release_seconds=release_seconds,
        )
        service = restless(Service(settings, **injected))
        service.store.migrate = lambda: None  # type: ignore[method-assign]
        self._engines = self._engines or (service.store._writer, service.store._reader)
        service.store._writer, service.store._reader = self._engines  # they know every statement by now
        return service

    def empty(self) -> None:
        """As it was when nobody had come."""
        (self._secrets / EPOCH).unlink(missing_ok=True)
        if self._file is None:
            self._truncate()
            return
        for name in ("-wal", "-shm", ""):
            self._file.with_name(self._file.name + name).unlink(missing_ok=True)
        shutil.copy(self._template, self._file)

    def close(self) -> None:
        """The end."""
        self.loop.close()

    def _truncate(self) -> None:
        names = ", ".join(table.name for table in schema.metadata.sorted_tables)
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            connection.execute(sa.text(f"TRUNCATE {names} RESTART IDENTITY"))
            for table, rows in self._first.items():
                connection.execute(sa.insert(table), rows)
        engine.dispose()

    def _store(self, url: str) -> Store:
        return Store(ServiceSettings(database=url).url, Vault(self._secrets))


Maker = Callable[[], Place]
