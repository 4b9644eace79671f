"""Another key, a full disk, a database that goes and comes back: safe, and said."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from tests.serving.service.backups import visitors
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, Process, inline, offered, stocked
from tests.serving.service.leasing import came, two_processes, visits

from quietshelf.curation.batches import LEASE_SECONDS
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import schema


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


def test_a_locked_shelf_keeps_no_process_from_reporting(postgres: Any, tmp_path: Path) -> None:
    """A stopped process holds a shelf with leases that have ended: the other says that it is alive all the same.

    Else nobody would wait for it any more, and once the lock is gone, neither of them could release.
    """
    with two_processes(fresh_postgres(postgres), tmp_path) as (stopped, service, clock):
        came(stopped, *visits(clock, 1))
        clock.time += LEASE_SECONDS
        election = service.releasing._election
        assert election is not None
        mine = sa.select(schema.witnesses.c.until).where(schema.witnesses.c.process == election.name)
        with stopped.store.write() as locking:
            shelf_row(locking, "teas", lock=True)
            before = locking.execute(mine).scalar_one()
            service.leasing.next_end = service.schedule.look_at = 0.0
            with pytest.raises(OperationalError, match="lock timeout"):
                service._chores()
            assert locking.execute(mine).scalar_one() == before + LEASE_SECONDS


def test_a_release_that_fails_is_not_tried_again_in_the_same_turn(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a release that goes on failing would keep a core busy, and fill the log."""
    with two_processes(database, tmp_path) as (service, _, clock):
        came(service, *visits(clock, FIRST))
        clock.time += WINDOW + LEASE_SECONDS
        monkeypatch.setattr(service.releasing, "release", _unable)
        service.beside.start()
        try:
            while not service.beside.busy("release"):
                service._chores()
            while not service.beside._asked["release"][0].done:
                time.sleep(0.001)
            with pytest.raises(OSError, match="no room"):
                service._chores()
            assert not service.beside.busy("release")
            service._chores()
            assert service.beside.busy("release")
        finally:
            service.beside.stop()


def _unable() -> bool:
    raise OSError("no room")
