"""Restored backups, full disks, a database that goes and comes back: safe, and said."""

from __future__ import annotations

import json
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.service.conftest import fresh_postgres
from tests.service.harness import WINDOW, FakeClock, Process, answered, inline, offered, stocked
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.service import verify
from quietshelf.service.service import Service
from quietshelf.service.settings import Settings
from quietshelf.service.views import shelf_row

FIRST = 18


def where(folder: Path) -> list[str]:
    """The flags of a command on this shop."""
    return ["--database", f"sqlite:///{folder}/shop.db", "--secrets", str(folder / "secrets")]


def visitors(client: Any, clock: FakeClock, count: int) -> dict[str, Any]:
    """So many, each a little later; the last offer."""
    offer: dict[str, Any] = {}
    for _ in range(count):
        clock.time += 1.0
        offer = offered(client).json()
    return offer


def test_a_restored_backup_drops_its_open_batches_and_says_so(tmp_path: Path) -> None:
    """Its visitors may have been released since; releases it forgot enter its ledger; no batch number is used twice."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        visitors(client, clock, 10)
    shutil.copy(tmp_path / "shop.db", tmp_path / "backup.db")
    with inline(database, tmp_path, clock=clock) as client:
        visitors(client, clock, 60)
        lost = client.get("/v1/shelves/teas").json()["releases"]
        assert lost >= 1
        late = visitors(client, clock, 1)
    for leftover in tmp_path.glob("shop.db*"):
        leftover.unlink()
    shutil.copy(tmp_path / "backup.db", tmp_path / "shop.db")
    early = CliRunner().invoke(app, ["ledger", *where(tmp_path)])  # it agrees with itself: not enough
    assert early.exit_code == 1
    assert f"not verified: shelf teas: {lost} releases are missing, so this is a backup" in early.stdout
    with inline(database, tmp_path, clock=clock) as client:
        found = client.get("/v1/shelves/teas/privacy").json()
        assert found["releases"] == 0
        assert len(found["events"]) == 2 * lost + 1  # and one that stands for what nobody remembers
        assert "10 visitors of batches that were not released were left out" in found["notes"][0]
        assert client.get("/readyz").json()["visitors_left_out"] == 10
        assert client.get("/readyz").json()["epoch"] == 1
        assert answered(client, late["offer"], None).status_code == 409
        batch = int(visitors(client, clock, 1)["offer"].split(".")[1])
        assert batch > int(late["offer"].split(".")[1])
        visitors(client, clock, 60)
        assert client.get("/v1/shelves/teas").json()["releases"] >= 1
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert verify.verify(connection, shelf_row(connection, "teas")) == []
    with inline(database, tmp_path, clock=clock) as client:  # the next start finds nothing odd
        assert client.get("/readyz").json()["epoch"] == 1


def test_the_restore_command_and_the_ledger_command(tmp_path: Path) -> None:
    """Without its epoch file a used database does not start until it is said to be a backup; the ledger is verified."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        visitors(client, clock, FIRST + 15)
    report = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert report.exit_code == 0
    assert "joint differential privacy is promised with rho = 4" in report.stdout
    assert "batch 0: score, sensitivity 2.0" in report.stdout
    assert "to one visit the dearest batch counts: rho" in report.stdout
    assert "\n  verified\n" in report.stdout
    (tmp_path / "secrets" / "epoch.json").unlink()
    unknown = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert unknown.exit_code == 1
    assert "not verified: the epoch file must be the one of this database" in unknown.stdout
    service = Service(Settings(database=database, secrets=str(tmp_path / "secrets")))
    with pytest.raises(ValueError, match="if this is a backup, run quietshelf restore"):
        service.start()
    service.store.close()
    dropped = CliRunner().invoke(app, ["restore", *where(tmp_path), "--json"])
    assert json.loads(dropped.stdout) == {"visitors": 15, "lost_releases": 0}
    with inline(database, tmp_path, clock=clock) as client:
        assert offered(client).status_code == 200
        with client.service.store.write() as connection:  # type: ignore[attr-defined]
            connection.exec_driver_sql("DELETE FROM events WHERE number = 1")
    wrong = CliRunner().invoke(app, ["ledger", *where(tmp_path), "--json"])
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["verified"] is False


def test_the_ledger_command_makes_nothing_that_it_could_then_find_clean(tmp_path: Path) -> None:
    """A mistyped path is refused; a database made on the spot would have promised nothing, and be verified."""
    missing = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert isinstance(missing.exception, ValueError)
    assert list(tmp_path.iterdir()) == []
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path):
        pass
    empty = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert empty.exit_code == 0
    assert "no shelf was ever made here" in empty.stdout


def test_another_key_file_is_refused(tmp_path: Path) -> None:
    """Hashes made with one key mean nothing with another."""
    database = f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path):
        pass
    (tmp_path / "secrets" / "key").write_bytes(b"x" * 32)
    with (
        pytest.raises(ValueError, match="the key file must be the one this database was made with"),
        inline(database, tmp_path),
    ):
        pass


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """Writes fail with 503 while there is no room, nothing acknowledged is lost, and all goes on when there is."""
    process = Process(f"sqlite:///{tmp_path}/shop.db", tmp_path)
    process.start()
    try:
        with process.client() as client:
            stocked(client)
            kept = [offered(client, retry=str(n)).json() for n in range(5)]
            size = max(path.stat().st_size for path in tmp_path.glob("shop.db*"))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            refused = None
            for n in range(5, 200):
                refused = offered(client, retry=str(n))
                if refused.status_code != 200:
                    break
                kept.append(refused.json())
            assert refused is not None
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:quietshelf:problem:unavailable"
            assert client.get("/healthz").status_code == 200
            free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, free)
            for n, offer in enumerate(kept):
                again = offered(client, retry=str(n))
                assert again.json() == offer
            assert client.get("/v1/shelves/teas").json()["arrivals"] == len(kept)
    finally:
        process.stop()


def test_a_database_that_goes_and_comes_back(postgres: Any, tmp_path: Path) -> None:
    """Every connection is cut, then refused, then allowed: 503 in between, and the same offers afterwards."""
    database = fresh_postgres(postgres)
    name = database.partition("?")[0].rpartition("/")[2]
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        first = offered(client, retry="one").json()
        postgres.psql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false;")
        cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}';"  # noqa: S608 - our name
        postgres.psql(cut)
        assert offered(client).status_code == 503
        assert client.get("/readyz").status_code == 503
        postgres.psql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true;")
        for _ in range(100):
            if client.get("/readyz").status_code == 200:
                break
            time.sleep(0.05)
        assert offered(client, retry="one").json() == first
        visitors(client, clock, int(FIRST + WINDOW + 3))
        assert client.get("/v1/shelves/teas").json()["releases"] == 1
