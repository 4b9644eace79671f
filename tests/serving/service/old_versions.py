"""Databases of earlier versions."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

import quietshelf.serving.service
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.settings import ServiceSettings

FOLDER = Path(__file__).parents[2] / "migrations"
REVISIONS = {1: "0003", 2: "0004"}
OPEN = {1: 59, 2: 46}
"""Visitors of `teas` who were not released."""


def put_down(version: int, database: str, folder: Path) -> dict[str, Any]:
    """The old database, its tables as they were then, and its secrets; what the old version said of it."""
    written = FOLDER / f"version_{version}"
    shutil.copytree(written / "secrets", folder / "secrets")
    kept: dict[str, Any] = json.loads((written / "database.json").read_text())
    store, config = Store(ServiceSettings(database=database).url, Vault(folder / "secrets")), Config()
    config.set_main_option("script_location", str(Path(quietshelf.serving.service.__file__).parent / "migrations"))
    with store.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, REVISIONS[version])
        then = sa.MetaData()
        then.reflect(connection)
        for name, rows in kept["tables"].items():
            if rows:
                connection.execute(sa.insert(then.tables[name]), [_plain(row) for row in rows])
        if not store.sqlite:
            connection.execute(sa.text("SELECT setval(pg_get_serial_sequence('shelves', 'shelf'), 3)"))
    store.close()
    return kept


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: base64.b64decode(value["bytes"]) if isinstance(value, dict) else value for name, value in row.items()}
