"""A database is in use while any process of a service has it, on any machine; then it is not restored."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.cli.command import command
from tests.serving.service.backups import people
from tests.serving.service.harness import FakeClock, Process, inline, stocked
from tests.serving.service.machines import machine, with_the_key_of
from tests.serving.service.restoring import all_of_it, asked, flags, opened

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases import in_use
from quietshelf.serving.service.settings import ServiceSettings


def test_a_database_in_use_is_refused_until_its_process_is_gone(database: str, tmp_path: Path) -> None:
    """With the folder of the running service and with one of its own; a process that was killed has let go."""
    process = Process(database, tmp_path, QUIETSHELF_WORKERS="1")
    process.start()
    other = with_the_key_of(tmp_path / "secrets", tmp_path / "other")
    try:
        with process.client() as client:
            stocked(client)
            people(client, 3)
        before = all_of_it(database, tmp_path / "secrets")
        for secrets in (tmp_path / "secrets", other):
            found = command(*flags(database, secrets), "--yes")
            assert found.returncode == 2
            assert "restore needs a database that no service is using (stop `quietshelf serve` first)" in found.stderr
        assert ("SELECT pg_terminate_backend(" in found.stderr) == database.startswith("postgresql")
        assert all_of_it(database, tmp_path / "secrets") == before
    finally:
        process.kill()
    found = command(*flags(database, other), "--yes")
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("3 visitors left out")


def test_every_process_of_a_service_counts(database: str, tmp_path: Path) -> None:
    """While one of two has the database, it is in use; a look at it by other commands is no use."""
    both = [machine(database, tmp_path / "secrets", FakeClock()) for _ in range(2)]
    for each in both:
        each.prepare()
    (tmp_path / "secrets" / "epoch.json").unlink()
    both[0].store.close()
    assert "no service is using" in str(asked(database, tmp_path / "secrets", "--yes").exception)
    both[1].store.close()
    reader = opened(database, tmp_path / "secrets")
    with reader.read() as connection:
        connection.execute(sa.select(schema.store)).one()
        assert asked(database, tmp_path / "secrets", "--yes").exit_code == 0
    reader.close()


def test_a_service_does_not_start_under_a_restore(tmp_path: Path) -> None:
    """Somebody may be looking at the cost."""
    settings = ServiceSettings(database=f"sqlite:///{tmp_path}/shop.db", secrets=str(tmp_path / "secrets"))
    service = machine(settings.database, tmp_path / "secrets", FakeClock())
    with in_use.alone(settings), pytest.raises(ValueError, match="must not be under restore"):
        service.prepare()
    service.prepare()
    service.store.close()


def test_a_mistyped_database_does_not_take_the_epoch_file_of_a_running_service(tmp_path: Path) -> None:
    """The folder is in use, though that database is not; nothing is made in the wrong place."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client)
        people(client, 3)
        before = kept(tmp_path)
        found = asked(f"sqlite:///{tmp_path}/shpo.db", tmp_path / "secrets", "--yes")
        assert "no service is using" in str(found.exception)
        assert kept(tmp_path) == before


def kept(folder: Path) -> list[str]:
    """Every file below it, without the one that an atomic write of the epoch file replaces it by at that moment."""
    return sorted(path.name for path in folder.rglob("*") if not path.name.startswith("epoch.json."))
