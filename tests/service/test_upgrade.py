"""A database written by the first version goes on under this one: tests/migrations/version_1 holds it."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from tests.service.backups import faultless, released
from tests.service.harness import FakeClock, answered, inline, like, offered

import quietshelf.service
from quietshelf.service.settings import Settings
from quietshelf.service.store import Store
from quietshelf.service.vault import Vault

WRITTEN = Path(__file__).parent.parent / "migrations" / "version_1"


def put_down(database: str, folder: Path) -> dict[str, Any]:
    """The old database, its tables as they were then, and its secrets; what the old version said of it."""
    shutil.copytree(WRITTEN / "secrets", folder / "secrets")
    kept: dict[str, Any] = json.loads((WRITTEN / "database.json").read_text())
    store, config = Store(Settings(database=database).url, Vault(folder / "secrets")), Config()
    config.set_main_option("script_location", str(Path(quietshelf.service.__file__).parent / "migrations"))
    with store.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
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


def test_a_database_of_the_first_version_is_carried_over(database: str, tmp_path: Path) -> None:
    """Releases, promises, open batches, persons and keys: nothing is lost, and learning goes on."""
    kept = put_down(database, tmp_path)
    clock = FakeClock(kept["time"])
    with inline(database, tmp_path, clock=clock) as client:
        assert client.get("/v1/shelves/teas/releases").json() == kept["releases"]
        for name, before in kept["privacy"].items():
            now = client.get(f"/v1/shelves/{name}/privacy").json()
            same = ("rho", "epsilon", "unit", "visits", "budget", "arrivals", "releases", "deleted", "notes", "words")
            assert {key: now[key] for key in same} == {key: before[key] for key in same}
            assert len(now["events"]) == len(before["events"])
        settings = client.get("/v1/shelves/teas").json()["settings"]
        assert (settings["on_no_answer"], settings["visitor_dim"]) == ("zero", 2)
        assert client.get("/readyz").json()["visitors_left_out"] == 0
        shop = like(client, f"Bearer {kept['key']}")  # its scope was called learn
        last = kept["last_offer"]
        assert answered(shop, last["offer"], last["items"][0]).status_code in (204, 409)
        fresh = offered(shop, person="somebody new").json()
        assert answered(shop, fresh["offer"], None).status_code == 204
        before = client.get("/v1/shelves/teas").json()["releases"]
        assert released(client, clock) > before
        assert faultless(client)
    with inline(database, tmp_path, clock=clock) as client:  # and the next start finds nothing odd
        assert client.get("/readyz").json()["epoch"] == 0
