"""The restore command on a database, and all that it could change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.serving.service.backups import snapshot
from typer.testing import CliRunner, Result

from quietshelf.cli import app
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.settings import ServiceSettings

Rows = dict[str, list[dict[str, Any]]]


def flags(database: str, secrets: Path) -> list[str]:
    """A restore of this database with these secrets."""
    return ["restore", "--database", database, "--secrets", str(secrets)]


def asked(database: str, secrets: Path, *more: str) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(app, [*flags(database, secrets), *more])


def opened(database: str, secrets: Path) -> Store:
    return Store(ServiceSettings(database=database).url, Vault(secrets))


def all_of_it(database: str, secrets: Path) -> tuple[Rows, int | None, bytes]:
    """Every row but who is alive, the last number that PostgreSQL gave to a shelf, and the epoch file."""
    store, number = opened(database, secrets), None
    if not store.sqlite:
        with store.read() as connection:
            query = "SELECT pg_sequence_last_value(pg_get_serial_sequence('shelves', 'shelf')::regclass)"
            number = connection.exec_driver_sql(query).scalar()
    rows = {name: found for name, found in snapshot(store).items() if name not in ("releaser", "witnesses")}
    store.close()
    file = secrets / "epoch.json"
    return rows, number, file.read_bytes() if file.exists() else b""
