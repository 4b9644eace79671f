"""Two real processes on one PostgreSQL under load: killed, stopped and restarted, they lose nothing acknowledged."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.harness import Process, answered, offered, stocked
from tests.serving.service.load import Load, check, watched
from tests.serving.service.machines import with_the_key_of

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases.losses import BURNT

WAIT = 180.0
"""Seconds until something has to have happened: a lost releaser is waited for half a minute, then another batch has to
fill, on a machine that other tests use as well."""


@pytest.fixture
def replicas(postgres: Any, tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    """Two real processes with folders of their own, the first of which releases; both know what is announced."""
    database = fresh_postgres(postgres)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (Process(database, tmp_path / name) for name in ("a", "b"))
    try:
        first.start()
        with first.client() as client:
            stocked(client, window=0.5)
            assert offered(client, person="first").status_code == 200
        with_the_key_of(tmp_path / "a" / "secrets", tmp_path / "b" / "secrets")
        second.key = first.key
        second.start()
        yield first, second
    finally:
        for each in (first, second):
            each.end()


def test_the_releaser_is_killed_in_a_release_under_load(replicas: tuple[Process, Process]) -> None:
    """The other machine takes over by itself, and at most the announced batch is lost."""
    first, second = replicas
    refused: list[int] = []
    stop = threading.Event()
    shoppers = [threading.Thread(target=_shop, args=(second, n, stop, refused)) for n in range(3)]
    engine = sa.create_engine(first.database.replace("postgresql://", "postgresql+psycopg://"))
    try:
        _until(lambda: _count(engine, schema.witnesses) == 2)
        for each in shoppers:
            each.start()
        _until(lambda: _count(engine, schema.announcements) > 0, pause=0.001)
        first.kill()
        made = _count(engine, schema.releases)
        _until(lambda: _count(engine, schema.releases) >= made + 2)
    finally:
        stop.set()
        engine.dispose()
        for each in shoppers:
            each.join()
    with second.client() as client:
        found = client.get("/v1/shelves/teas/privacy").json()
        assert client.get("/readyz").json()["releases_here"]
    assert refused == []
    assert found["unit"] == "person"
    assert sum(event["detail"] == BURNT for event in found["events"]) <= 1
    assert {event["detail"] for event in found["events"]} <= {"", BURNT}


def test_a_releaser_that_was_stopped_comes_back_and_releases_nothing_twice(replicas: tuple[Process, Process]) -> None:
    """It slept through its lease under load; the other has taken over, and all that was acknowledged is there."""
    first, second = replicas
    load = Load(first, second)
    with watched(first) as engine:
        _until(lambda: _count(engine, schema.witnesses) == 2)
        with load.running():
            _until(lambda: _count(engine, schema.releases) > 0)
            os.kill(first.pid, signal.SIGSTOP)
            try:
                made = _count(engine, schema.releases)
                _until(lambda: _count(engine, schema.releases) >= made + 1)
            finally:
                os.kill(first.pid, signal.SIGCONT)
            _until(lambda: httpx.get(first.url + "/readyz", timeout=20).status_code == 200)
        check(engine, load)
    with second.client() as client:
        events = client.get("/v1/shelves/teas/privacy").json()["events"]
    assert len({event["batch"] for event in events}) == len(events)


def test_a_rolling_restart_under_load_loses_nothing(replicas: tuple[Process, Process]) -> None:
    """Each in turn, while the other serves; a release that was announced may be burnt, and the promise stays."""
    load = Load(*replicas)
    with watched(replicas[0]) as engine:
        _until(lambda: _count(engine, schema.witnesses) == 2)
        with load.running():
            for each in replicas:
                each.stop()
                each.start()
        check(engine, load)
    with replicas[0].client() as client:
        assert client.get("/v1/shelves/teas/privacy").json()["unit"] == "person"


def _shop(process: Process, number: int, stop: threading.Event, refused: list[int]) -> None:
    with process.client() as client:
        visitors = 0
        while not stop.is_set():
            reply: httpx.Response = offered(client, person=f"{number}-{visitors}")
            visitors += 1
            if reply.status_code != 200:
                refused.append(reply.status_code)
                continue
            said = answered(client, reply.json()["offer"], None).status_code
            if said not in (204, 409, 410):
                refused.append(said)


def _count(engine: sa.Engine, table: sa.Table) -> int:
    with engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def _until(holds: Any, *, seconds: float = WAIT, pause: float = 0.05) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(pause)
