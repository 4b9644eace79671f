"""Persons come, windows end, and a copy of the database is put back in its place."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from tests.serving.service.harness import WINDOW, FakeClock, offered

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.queries import shelf_rows
from quietshelf.serving.service.releases import verify


def visitors(client: Any, clock: FakeClock, count: int) -> dict[str, Any]:
    """So many, each a little later; the last offer."""
    offer: dict[str, Any] = {}
    for _ in range(count):
        clock.time += 1.0
        offer = offered(client).json()
    return offer


def people(client: Any, count: int, *, name: str = "teas", prefix: str = "person") -> None:
    """So many visitors, each another person."""
    for number in range(count):
        assert offered(client, name, person=f"{prefix} {number}").status_code == 200


def released(client: Any, clock: FakeClock, *, name: str = "teas") -> int:
    """Wait for the window's end; the number of releases once the writer has looked thrice with nothing under way."""
    clock.time += WINDOW + 1
    idle, releasing, beside = 0, client.service.releasing, client.service.beside
    while idle < 3:
        client.service.schedule.look_at = 0.0
        assert client.get("/readyz").status_code == 200
        while beside.busy("release") or beside.busy("check"):
            time.sleep(0.001)
        idle = 0 if releasing.busy or releasing.finished else idle + 1
    return int(client.get(f"/v1/shelves/{name}").json()["releases"])


def copied(folder: Path) -> None:
    """A backup of a database that nobody has open."""
    shutil.copy(folder / "shop.db", folder / "backup.db")


def snapshot(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as a standby holds it that lags."""
    with store.read() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in schema.metadata.sorted_tables
        }


def put_back_live(store: Store, rows: dict[str, list[dict[str, Any]]]) -> None:
    """The standby takes over: under the running service, the database is what it was."""
    with store.write() as connection:
        if not store.sqlite:  # whoever writes meanwhile waits: a standby has none of it
            names = ", ".join(table.name for table in schema.metadata.sorted_tables)
            connection.execute(sa.text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))
        for table in schema.metadata.sorted_tables:
            connection.execute(sa.delete(table))
            if rows[table.name]:
                connection.execute(sa.insert(table), rows[table.name])


def put_back(folder: Path) -> None:
    """The backup in the database's place."""
    for leftover in folder.glob("shop.db*"):
        leftover.unlink()
    if (folder / "backup.db").exists():
        shutil.copy(folder / "backup.db", folder / "shop.db")


def promise(client: Any, name: str = "teas") -> dict[str, Any]:
    """What is promised."""
    found: dict[str, Any] = client.get(f"/v1/shelves/{name}/privacy").json()
    return found


def faultless(client: Any) -> bool:
    """Whether every ledger is what was published."""
    with client.service.store.read() as connection:
        return not any(verify.verify(connection, row) for row in shelf_rows(connection))


def failing(*_: Any) -> None:
    """A full disk."""
    raise OSError(28, "no space left")
