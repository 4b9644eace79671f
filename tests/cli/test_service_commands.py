"""Commands of the service on places that are wrong: one line that says what to do, and nothing made."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cli.command import command

from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault


@pytest.mark.parametrize("words", [["ledger"], ["restore"], ["keys", "list"], ["keys", "create", "--scope", "read"]])
def test_a_mistyped_database_is_refused_and_not_made(words: list[str], tmp_path: Path) -> None:
    """A new and empty ledger would say that nothing was ever promised."""
    where = ["--database", f"sqlite:///{tmp_path}/shpo.db", "--secrets", str(tmp_path / "secrets")]
    found = command(*words, *where)
    assert found.returncode == 2
    assert found.stdout == ""
    assert "database must be one that a service has used" in found.stderr
    assert f"`quietshelf {words[0]} {words[1] + ' ' if words[0] == 'keys' else ''}--help`" in found.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["ledger"], ["restore"], ["keys", "list"]])
def test_a_mistyped_secrets_folder_is_refused_and_not_made(words: list[str], tmp_path: Path) -> None:
    """Nor is a key put into a folder that has an epoch file and no key: it would not be this database's."""
    database = f"sqlite:///{tmp_path}/shop.db"
    store = Store(database, Vault(tmp_path / "secrets"))
    store.migrate()
    store.close()
    (tmp_path / "keyless").mkdir()
    (tmp_path / "keyless" / "epoch.json").write_text("{}")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for folder in ("secerts", "keyless"):
        found = command(*words, "--database", database, "--secrets", str(tmp_path / folder))
        assert found.returncode == 2
        assert "secrets must hold the key file (name its folder with --secrets)" in found.stderr
        assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("database", ["sqlite:////no/such/folder/x.db", "postgresql://u:hidden@127.0.0.1:1/shop"])
def test_a_database_that_cannot_be_opened_is_told_in_a_line(database: str, tmp_path: Path) -> None:
    """No traceback, and no password."""
    found = command("serve", "--database", database, "--secrets", str(tmp_path / "secrets"), "--port", str(free()))
    assert found.returncode == 2
    assert "database must be one that can be opened and written" in found.stderr
    assert "Traceback" not in found.stderr
    assert "hidden" not in found.stderr


def test_a_taken_port_is_refused_before_a_key_is_shown(tmp_path: Path) -> None:
    """The key is shown once, so not by a service that cannot start."""
    where = ["--database", f"sqlite:///{tmp_path}/shop.db", "--secrets", str(tmp_path / "secrets")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = command("serve", *where, "--port", str(taken.getsockname()[1]))
    assert found.returncode == 2
    assert found.stdout == ""
    assert "host and port must be free to listen on" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broken_settings_file_is_named(tmp_path: Path) -> None:
    """With the place of the mistake."""
    (tmp_path / "shop.toml").write_text("port = \n")
    found = command("serve", "--config", str(tmp_path / "shop.toml"))
    assert found.returncode == 2
    assert "shop.toml: Invalid value (at line 1" in found.stderr


def free() -> int:
    """A free port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
