"""Several workers, machines, and shelves of one name: one releaser, one time, one look, nothing mixed up."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import httpx
import pytest
import sqlalchemy as sa
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.harness import (
    FIRST,
    WINDOW,
    FakeClock,
    Process,
    answered,
    inline,
    offered,
    stocked,
)  # fmt: skip
from tests.serving.service.machines import machine, shop, visitors, with_the_key_of

from quietshelf.serving.service import queries
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import SteadyClock, Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.http import app
from quietshelf.serving.service.releases import verify
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings


def test_a_database_on_sqlite_has_one_epoch_file(tmp_path: Path) -> None:
    """Else neither file would know every release, and a restored backup could be released again."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    first = machine(database, tmp_path / "a", clock)
    first.prepare()
    shop(first)
    visitors(first, FIRST)
    second = machine(database, with_the_key_of(tmp_path / "a", tmp_path / "b"), clock)
    with pytest.raises(ValueError, match="epoch file must belong to this database"):
        second.prepare()
    shutil.copy(tmp_path / "a" / "epoch.json", tmp_path / "b" / "epoch.json")
    second.prepare()
    clock.time += WINDOW
    assert first.releasing.release()
    visitors(second, 2 * FIRST)
    clock.time += WINDOW
    assert not second.releasing.release()
    assert first.releasing.release()
    again = machine(database, tmp_path / "b", clock)
    again.prepare()
    assert again.releasing.elsewhere
    for each in (first, second, again):
        each.store.close()


def test_a_machine_that_may_not_release_needs_the_key_alone(database: str, tmp_path: Path) -> None:
    """It serves, writes no epoch file, and leaves full batches to the one that may."""
    clock = FakeClock()
    first = machine(database, tmp_path / "a", clock)
    first.prepare()
    shop(first)
    other = with_the_key_of(tmp_path / "a", tmp_path / "b")
    second = machine(database, other, clock, releaser=False)
    second.prepare()
    visitors(second, FIRST)
    clock.time += WINDOW
    second._chores()
    second._chores()
    assert not (other / "epoch.json").exists()
    with first.store.read() as connection:
        assert connection.execute(sa.select(schema.shelves.c.releases)).scalar_one() == 0
    assert first.releasing.release()
    first.store.close()
    second.store.close()


def test_a_view_is_kept_only_of_what_was_committed(tmp_path: Path) -> None:
    """A first offer that is rolled back has frozen nothing."""
    service = machine(f"sqlite:///{tmp_path}/shop.db", tmp_path / "secrets", FakeClock())
    service.prepare()
    shop(service)
    with pytest.raises(RuntimeError, match="cut off"):
        visitors(service, 1, then=RuntimeError("cut off"))
    service.writing.settled(False, [])
    assert not service.following.views
    visitors(service, 1)
    assert not service.following.views
    service.writing.settled(True, [])
    assert service.following.views["teas"].learner is not None
    service.store.close()


def test_a_look_is_of_one_moment(database: str, tmp_path: Path) -> None:
    """What is committed meanwhile is not in it: promises and releases always fit together."""
    service = machine(database, tmp_path / "secrets", FakeClock())
    service.prepare()
    shop(service)
    with service.store.read() as connection:
        before = queries.shelf_rows(connection)[0]["arrivals"]
        visitors(service, 3)
        assert queries.shelf_rows(connection)[0]["arrivals"] == before == 0
    service.store.close()


def test_workers_share_the_clock_that_serve_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker that starts after the wall clock was set has the time of the others."""
    monkeypatch.setenv("QUIETSHELF_DATABASE", f"sqlite:///{tmp_path}/shop.db")
    monkeypatch.setenv("QUIETSHELF_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setenv(app.CLOCK, repr(SteadyClock().offset + 3600))
    monkeypatch.setattr(app, "SWITCH_SECONDS", 5e-3)
    service: Service = app.from_environment().state.service
    with service.store.write() as connection:
        assert service.store.now(connection) - time.time() == pytest.approx(3600, abs=60)
    service.store.close()


def test_shelves_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """A deleted shelf and its namesake have numbers of their own, in promises and figures."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        for _ in range(2):
            stocked(client)
            offered(client)
            client.delete("/v1/shelves/teas")
        stocked(client)
        found = client.get("/v1/privacy").json()["shelves"]
        assert [(each["shelf"], each["number"], each["deleted"] is None) for each in found] == [
            ("teas", 1, False), ("teas", 2, False), ("teas", 3, True)
        ]  # fmt: skip
        text = client.get("/metrics").text
        counted = [line for line in text.splitlines() if line.startswith("quietshelf_arrivals_total")]
        assert counted == [f'quietshelf_arrivals_total{{number="{n}",shelf="teas"}} {1.0 * (n < 3)}' for n in (1, 2, 3)]


def test_two_worker_processes_serve_one_shelf_and_count_as_one(postgres: Any, tmp_path: Path) -> None:
    """Offers by one and answers by the other: every visitor has a slot, every batch one release, all of it verified.

    Whichever of them is asked for metrics meanwhile, no counter runs backwards, and in the end each has counted all.
    """
    database = fresh_postgres(postgres)
    process = Process(database, tmp_path, QUIETSHELF_WORKERS="2")
    process.start()
    try:
        with process.client() as client:
            stocked(client, window=1.0)
        threads = [threading.Thread(target=_shop_for, args=(process, 8)) for _ in range(4)]
        for thread in threads:
            thread.start()
        seen = [_offers_counted(process)]
        while any(thread.is_alive() for thread in threads):
            seen.append(_offers_counted(process))
            time.sleep(0.02)
        assert seen == sorted(seen)
        assert {_offers_counted(process) for _ in range(20)} == {32.0}
        with process.client() as client:
            assert client.get("/v1/shelves/teas").json()["arrivals"] == 32
            until = time.monotonic() + 30
            while client.get("/v1/shelves/teas").json()["releases"] < 1 and time.monotonic() < until:
                time.sleep(0.1)
    finally:
        process.stop()
    store = Store(ServiceSettings(database=database).url, Vault(tmp_path / "secrets"))
    with store.read() as connection:
        (row,) = queries.shelf_rows(connection)
        assert row["releases"] >= 1
        assert verify.verify(connection, row) == []
        slots = connection.execute(sa.select(sa.func.count()).select_from(schema.offers)).scalar_one()
        sizes = connection.execute(sa.select(sa.func.sum(schema.releases.c.size))).scalar_one()
        assert slots + sizes == 32
    store.close()


def _offers_counted(process: Process) -> float:
    """How many offers one of the workers says were made; on a connection of its own, so that any may be asked."""
    request = Request(f"{process.url}/metrics", headers={"Authorization": f"Bearer {process.key}"})  # noqa: S310 - ours
    with urlopen(request, timeout=20) as reply:  # noqa: S310 - as above
        text = reply.read().decode()
    name = 'quietshelf_requests_total{route="/v1/shelves/{shelf}/offers",status="200"}'
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def _shop_for(process: Process, count: int) -> None:
    """Each visitor on a connection of its own, so that both workers get some."""
    for _ in range(count):
        with process.client() as client:
            offer = offered(client).json()
        with process.client() as client:
            reply: httpx.Response = answered(client, offer["offer"], None)
            assert reply.status_code in (204, 409)
