"""Whoever has no valid key costs next to nothing, learns nothing, and a revoked key stays revoked."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.serving.service.harness import inline, like, offered, service_of, stocked, with_key
from tests.serving.service.statements import Statements

from quietshelf.serving.service import health
from quietshelf.serving.service.access import keyring, keys
from quietshelf.serving.service.access.keyring import Keyring
from quietshelf.serving.service.health import Probe
from quietshelf.serving.service.problems import TooManyFailures, Unauthorised, Unavailable


def a_key() -> keys.Key:
    return keys.Key("abc", "x", keys._hash("right"), frozenset({"read"}), None)


class Time:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def looked(ring: Keyring, *found: keys.Key, times: int = 2) -> None:
    """The database is looked at, so often."""
    for _ in range(times):
        await asyncio.sleep(0)
        ring.update({each.id: each for each in found}, 0.0)
        await asyncio.sleep(0.01)


def test_unknown_ids_and_wrong_secrets_take_the_same_way() -> None:
    """Both wait for the same looks at the keys, and neither asks for one."""

    async def looks(header: str) -> int:
        ring = Keyring(1.0)
        ring.update({"abc": a_key()}, 0.0)
        asking = asyncio.ensure_future(ring.find(header))
        count = 0
        while not asking.done():
            await looked(ring, a_key(), times=1)
            count += 1
        with pytest.raises(Unauthorised):
            asking.result()
        return count

    assert asyncio.run(looks("Bearer qs_abc_wrong")) == asyncio.run(looks("Bearer qs_other_wrong"))


def test_a_key_made_elsewhere_works_after_the_next_look() -> None:
    """Its first request waits for it, even if a look was under way when the key was made."""

    async def run() -> str:
        ring = Keyring(1.0)
        ring.update({}, 0.0)
        asking = asyncio.ensure_future(ring.find("Bearer qs_abc_right"))
        await looked(ring, times=1)
        await looked(ring, a_key(), times=1)
        return (await asking).id

    assert asyncio.run(run()) == "abc"


def test_failures_are_limited_by_address_and_valid_keys_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many in a minute an address is refused without a look, and held; a minute later it is over."""
    monkeypatch.setattr(keyring, "PATIENCE", 0.0)
    held, sleep = list[float](), asyncio.sleep

    async def noted(seconds: float) -> None:
        held.append(seconds)
        await sleep(0)

    monkeypatch.setattr(keyring.asyncio, "sleep", noted)  # type: ignore[attr-defined]  # what it imports
    monkeypatch.setattr(keyring, "ADDRESSES", 50)

    async def run() -> None:
        clock = Time()
        ring = Keyring(1.0, clock)
        ring.update({"abc": a_key()}, 0.0)
        for _ in range(keyring.FAILURES):
            with pytest.raises(Unauthorised):
                await ring.find("Bearer qs_no_no", "1.2.3.4")
        assert held == []
        with pytest.raises(TooManyFailures):
            await ring.find("Bearer qs_no_no", "1.2.3.4")
        assert held == [keyring.HELD]
        with pytest.raises(Unauthorised):
            await ring.find("Bearer qs_no_no", "5.6.7.8")
        assert (await ring.find("Bearer qs_abc_right", "1.2.3.4")).id == "abc"
        clock.now += keyring.MINUTE
        ring.update({"abc": a_key()}, 0.0)
        with pytest.raises(Unauthorised):
            await ring.find("Bearer qs_no_no", "1.2.3.4")
        for n in range(200):
            with pytest.raises(Unauthorised):
                await ring.find("Bearer qs_no_no", f"many {n}")
        assert len(ring._failed) == 50

    asyncio.run(run())


def test_keys_that_cannot_be_read_are_not_believed() -> None:
    """Neither before the first look nor long after the last: one may have been revoked."""

    async def run() -> None:
        clock = Time()
        ring = Keyring(1.0, clock)
        with pytest.raises(Unavailable):
            await ring.find("Bearer qs_abc_right")
        ring.update({"abc": a_key()}, 0.0)
        clock.now += keyring.STALE_SECONDS - 1
        assert (await ring.find("Bearer qs_abc_right")).id == "abc"
        clock.now += 2
        with pytest.raises(Unavailable):
            await ring.find("Bearer qs_abc_right")

    asyncio.run(run())


def test_a_revoked_key_stops_where_secrets_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the chores do besides may fail for ever: keys are looked at all the same."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        seller = with_key(client, "offer")
        assert offered(seller).status_code == 200

        def unwritable(*_: Any, **__: Any) -> None:
            raise PermissionError("secrets")

        service = service_of(client)
        monkeypatch.setattr(service.releasing, "check_memory", unwritable)
        identity = seller.headers["Authorization"].split("_")[1]
        with service.store.write() as connection:
            keys.revoke(connection, identity, 1.0)
        for _ in range(200):
            service.writing.opened = True
            if offered(seller).status_code == 401:
                break
        assert offered(seller).status_code == 401
        for _ in range(100):
            service.writing.opened = True
            if client.get("/readyz").json()["chores_fail"]:
                return
            time.sleep(0.05)
        raise AssertionError("nothing says that chores fail")


def test_an_unknown_key_asks_nothing_of_the_database(tmp_path: Path) -> None:
    """And of the writer neither."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, poll_seconds=0.5) as client:
        stocked(client)
        service = service_of(client)
        asked = sum(service.writer._asked.values())
        for stranger in (like(client, "Bearer qs_none_of-these"), like(client, client.headers["Authorization"][:-2])):
            assert offered(stranger).status_code == 401
        assert sum(service.writer._asked.values()) == asked


def test_many_probes_are_one_write(tmp_path: Path) -> None:
    """`/readyz` writes for good, once in a while, however many ask; a store that cannot be written is not ready."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, poll_seconds=60.0) as client:
        rows, bare = Statements(client), like(client, None)
        client.app.state.readiness.seconds = 600.0  # type: ignore[attr-defined]
        for _ in range(20):
            assert bare.get("/readyz").status_code == 200
        assert len([text for text in rows.statements if text.startswith("INSERT INTO sessions")]) == 1
        assert bare.get("/healthz").status_code == 200


def test_probes_beyond_some_wait_for_the_next_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of connections get one answer a second each, and visitors the turns between."""
    now, waited, asked = [100.0], list[float](), list[int]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    async def ask() -> dict[str, Any]:
        asked.append(1)
        return {}

    async def run() -> None:
        probe = Probe(ask)
        for _ in range(health.AGAIN + 1):
            await probe.answer()
        assert (waited, asked) == ([], [1])
        await probe.answer()
        assert (waited, asked) == ([health.SECONDS], [1, 1])

    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(run())


def test_a_store_that_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    """Though it can be read."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        assert client.get("/readyz").status_code == 200
        with service_of(client).store.write() as connection:
            refuse = "CREATE TRIGGER full BEFORE INSERT ON sessions BEGIN SELECT RAISE(ABORT, 'full'); END"
            connection.exec_driver_sql(refuse)
        assert client.get("/readyz").status_code >= 500
