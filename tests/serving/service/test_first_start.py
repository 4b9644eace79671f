"""First starts and damaged secrets: one admin key in a file of its owner's, and nothing is replaced in silence."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.serving.service.harness import Process, inline, stocked
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.access.keyring import Keyring
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

TEXT = "qs_mine01_" + "s" * 43


def service(database: str, folder: Path) -> Service:
    return Service(ServiceSettings(database=database, secrets=str(folder / "secrets")))


def test_of_several_first_starts_one_makes_the_key(database: str, tmp_path: Path) -> None:
    """However they meet."""
    several = [service(database, tmp_path) for _ in range(4)]
    several[0].store.migrate()
    with ThreadPoolExecutor(4) as pool:
        made = [key for key in pool.map(lambda each: keys.first(each.store), several) if key is not None]
    assert len(made) == 1
    with several[0].store.read() as connection:
        assert len(keys.listed(connection, 0.0)) == 1
    for each in several:
        each.store.close()


def test_the_first_key_is_in_a_file_of_its_owner(tmp_path: Path) -> None:
    """And in nothing that the process writes: output ends in logs."""
    process = Process(f"sqlite:///{tmp_path}/shop.db", tmp_path)
    process.start()
    try:
        file = tmp_path / "secrets" / "admin-key"
        assert file.stat().st_mode & 0o777 == 0o600
        assert process.key.startswith("qs_")
        assert process.key not in (tmp_path / "log").read_text()
        with process.client() as client:
            stocked(client)
    finally:
        process.stop()


def test_the_first_key_may_be_a_secret_of_ones_own(tmp_path: Path) -> None:
    """It is stored as a hash like others, and written nowhere; one that is too short is refused."""
    with pytest.raises(ValueError, match="32 or more in its secret, got 6 and 5"):
        keys.first(_store(tmp_path), "qs_mine01_short")
    store = _store(tmp_path)
    assert keys.first(store, TEXT) == TEXT
    assert not store.vault.admin_key.exists()
    with store.read() as connection:
        ring = Keyring(1.0)
        ring.update(keys.valid(connection, 0.0), 0.0)
    assert asyncio.run(ring.find(f"Bearer {TEXT}")).has("admin")


def _store(folder: Path) -> Store:
    found = service(f"sqlite:///{folder}/shop.db", folder).store
    found.migrate()
    return found


@pytest.mark.parametrize("content", ["", "{", "[]", '{"identity": 3}', '{"shelves": {"1": 7}}'])
def test_a_damaged_epoch_file_is_told_as_such(tmp_path: Path, content: str) -> None:
    """By the service and by the command that restores, with what to do; nothing is changed."""
    database = f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path) as client:
        stocked(client)
    epoch = tmp_path / "secrets" / "epoch.json"
    epoch.write_text(content)
    refused = service(database, tmp_path)
    with pytest.raises(ValueError, match=r"the epoch file must be as the service wrote it .* got a damaged one: "):
        refused.prepare()
    refused.store.close()
    places = ["--database", database, "--secrets", str(tmp_path / "secrets")]
    told = CliRunner().invoke(app, ["restore", *places, "--json"])
    assert told.exit_code != 0
    assert "got a damaged one" in told.output + str(told.exception)
    assert epoch.read_text() == content


def test_a_missing_key_is_refused_and_not_replaced(tmp_path: Path) -> None:
    """A random one would be taken for the right one by whoever looks next."""
    database, key = f"sqlite:///{tmp_path}/shop.db", tmp_path / "secrets" / "key"
    with inline(database, tmp_path) as client:
        stocked(client)
    key.unlink()
    with pytest.raises(ValueError, match="secrets must hold the key file"):
        service(database, tmp_path)
    assert not key.exists()
