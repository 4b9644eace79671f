"""When a batch is released, what stays of it, and who may do it."""

from __future__ import annotations

import struct
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.serving.service.backups import faultless, released
from tests.serving.service.filling import figures, fill
from tests.serving.service.harness import (
    FIRST,
    SHELF,
    WINDOW,
    FakeClock,
    answered,
    inline,
    offered,
    released_by,
    stocked,
)

from quietshelf.privacy.accounting import BudgetExceeded
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import SteadyClock
from quietshelf.serving.service.releases import verify
from quietshelf.serving.service.releases.losses import BURNT
from quietshelf.serving.service.releases.steps import CHANGED, Outcome


def wait_for(client: httpx.Client, releases: int) -> None:
    """Until so many releases are made; they come by themselves."""
    for _ in range(200):
        if figures(client)[1] >= releases:
            return
        time.sleep(0.05)
    raise AssertionError("no release")


def test_a_batch_is_released_one_window_after_its_last_slot_and_not_before(database: str, tmp_path: Path) -> None:
    """However early every answer is in; then raw data are gone, and any answer meets 409."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        offers = fill(client)
        for _ in range(3):
            clock.time += 0.33 * WINDOW
            assert offered(client).json()["release"] == 0
        assert figures(client) == (FIRST + 3, 0)
        clock.time += 0.011 * WINDOW
        assert offered(client).json()["release"] == 1
        for item in (offers[0]["items"][0], None, "whatever"):
            reply = answered(client, offers[0]["offer"], item)
            assert (reply.status_code, reply.json()["type"]) == (409, "urn:quietshelf:problem:offer-expired")
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            left = connection.execute(sa.select(schema.offers.c.batch)).scalars().all()
            assert left == [1, 1, 1, 1]


def test_a_release_comes_by_itself_when_nobody_does(tmp_path: Path, database: str) -> None:
    """The clock alone is enough."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        fill(client)
        clock.time += WINDOW
        wait_for(client, 1)


def test_a_retry_after_the_release_is_refused_and_takes_no_slot(tmp_path: Path, database: str) -> None:
    """One key is one visitor, for a day at least; what the request said is forgotten with the batch."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        offered(client, retry="mine")
        fill(client, FIRST - 1)
        clock.time += WINDOW
        wait_for(client, 1)
        reply = offered(client, retry="mine")
        assert (reply.status_code, reply.json()["type"]) == (409, "urn:quietshelf:problem:offer-expired")
        assert figures(client)[0] == FIRST


def test_sqlite_forgets_raw_contributions_for_good(tmp_path: Path) -> None:
    """After a release neither the file nor its log holds the bytes that were in it before."""
    clock, path = FakeClock(), tmp_path / "shop.db"
    with inline(f"sqlite:///{path}", tmp_path, clock=clock) as client:
        stocked(client)
        [offered(client, features=[3.25, -7.5]) for _ in range(FIRST)]
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            raw = bytes(connection.execute(sa.select(schema.offers.c.rows).limit(1)).scalar_one())
        files = [path, path.with_name("shop.db-wal")]
        assert any(raw in file.read_bytes() for file in files)
        clock.time += WINDOW
        wait_for(client, 1)
        for _ in range(100):
            if not any(raw in file.read_bytes() for file in files):
                return
            time.sleep(0.05)
        raise AssertionError("raw contributions are still on the disk")


def test_what_is_erased_or_deleted_leaves_the_log_file(tmp_path: Path) -> None:
    """Features of an erased visitor, then of a deleted shelf, are in no file of the database."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock(), poll_seconds=1000.0) as client:
        stocked(client)

        def held(value: float) -> bool:
            for _ in range(3):
                assert client.get("/readyz").status_code == 200
            return any(struct.pack("d", value) in path.read_bytes() for path in tmp_path.glob("shop.db*"))

        def gone(value: float) -> bool:  # what empties the log file works beside those who ask
            return any(not held(value) for _ in range(100))

        offered(client, features=[0.123456789012345, 0.0], person="eve")
        assert held(0.123456789012345)
        assert client.post("/v1/shelves/teas/erasures", json={"person": "eve"}).status_code == 200
        assert gone(0.123456789012345)
        offered(client, features=[0.234567890123456, 0.0], person="eva")
        assert held(0.234567890123456)
        assert client.delete("/v1/shelves/teas").status_code == 204
        assert gone(0.234567890123456)


def test_many_releasers_release_a_batch_once(database: str, tmp_path: Path) -> None:
    """Eight releasers at the same due batch: one release, one event; who comes too late is refused."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock, poll_seconds=3600.0) as client:
        stocked(client)
        fill(client)
        service = client.service  # type: ignore[attr-defined]
        clock.time += WINDOW
        found: list[Any] = []

        def race() -> None:
            try:
                found.append(released_by(service, clock.time))
            except ValueError as error:
                found.append(error)

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert all(each is None or isinstance(each, Outcome) or str(each).startswith(CHANGED) for each in found)
        assert figures(client) == (FIRST, 1)
        assert len(client.get("/v1/shelves/teas/privacy").json()["events"]) == 1


def test_a_refused_budget_releases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger's refusal leaves no release, no event and no raw data."""
    clock = FakeClock()

    def refuse(*_: Any) -> Learner:
        raise BudgetExceeded("rho must stay within the budget")

    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        stocked(client)
        fill(client)
        monkeypatch.setattr(Learner, "charge", refuse)
        clock.time += WINDOW
        offered(client)
        assert figures(client) == (FIRST + 1, 0)
        assert client.get("/v1/shelves/teas/privacy").json()["events"] == []
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert connection.execute(sa.select(schema.offers.c.batch)).scalars().all() == [1]


def test_a_failure_after_the_noise_is_drawn_burns_the_batch(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: nothing is published, the cost is entered, and the batch is never drawn again; the next one is released."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        fill(client)
        tried = threading.Event()

        def refuse(*_: Any, **__: Any) -> None:
            tried.set()
            raise OSError("no ledger entry can be written")

        with monkeypatch.context() as patch:
            patch.setattr("quietshelf.serving.service.database.learning.enter", refuse)
            clock.time += WINDOW
            assert tried.wait(30)
            assert figures(client) == (FIRST, 0)
            assert client.get("/v1/shelves/teas/releases").json() == {"releases": []}
        draws = []
        real = client.service.source.draw  # type: ignore[attr-defined]
        monkeypatch.setattr(client.service.source, "draw", lambda *given: draws.append(given) or real(*given))  # type: ignore[attr-defined, func-returns-value]
        for _ in range(100):
            if client.get("/readyz").json()["visitors_left_out"]:
                break
            time.sleep(0.05)
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST
        assert draws == []
        burnt = client.get("/v1/shelves/teas/privacy").json()
        assert [event["batch"] for event in burnt["events"]] == [0]
        assert {event["detail"] for event in burnt["events"]} == {BURNT}
        assert burnt["rho"] == pytest.approx(SHELF["rho"])
        fill(client, 2 * FIRST)
        clock.time += WINDOW
        wait_for(client, 1)
        assert len(draws) == 3  # one score, one information: its diagonal and the rest
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert verify.verify(connection, shelf_row(connection, "teas")) == []


def test_a_clock_that_is_set_back_moves_nothing_back(database: str, tmp_path: Path) -> None:
    """A shelf's time never runs backwards: slots and releases keep their order, and batches are still released."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        fill(client, FIRST - 1)
        clock.time -= 3600
        last = offered(client).json()
        assert answered(client, last["offer"], None).status_code == 204
        clock.time += 3600 + WINDOW / 2
        assert offered(client).json()["release"] == 0  # the last slot was taken when the one before it was
        releasing = client.service.releasing  # type: ignore[attr-defined]
        while releasing.elsewhere or not releasing._leads():  # its lease has ended by the clock, and is taken again
            time.sleep(0.01)
        clock.time += WINDOW / 2
        assert offered(client).json()["release"] == 1
        clock.time += 1e7  # and a jump ahead closes no batch that is not full
        assert offered(client).json()["release"] == 1
        assert figures(client) == (FIRST + 3, 1)


def test_steady_clock_ignores_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a process the wall clock may jump: time passes as before, and the jump is told."""
    clock, real = SteadyClock(), time.time
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    assert clock.now() - before < 60
    assert clock.drift > 80_000


def test_a_releaser_who_comes_early_finds_nothing_to_release(tmp_path: Path) -> None:
    """Full is not due; and a batch with a free slot is left alone, whatever its clock says."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock, poll_seconds=3600.0) as client:
        stocked(client)
        service = client.service  # type: ignore[attr-defined]
        fill(client, FIRST - 1)
        with service.store.write() as connection:
            connection.execute(sa.update(schema.batches).values(full_at=clock.time - 10 * WINDOW))
        assert released_by(service, clock.time) is None
        fill(client, 1)
        clock.time += 0.99 * WINDOW
        assert released_by(service, clock.time) is None
        assert figures(client) == (FIRST, 0)


def test_a_batch_whose_noise_would_cost_too_much_is_not_released(tmp_path: Path) -> None:
    """The stored ledger refuses by itself: with a tenth of its noise a batch leaves no release, entry or raw data."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        stocked(client)
        fill(client)
        service = client.service  # type: ignore[attr-defined]
        with service.store.write() as connection:
            connection.execute(sa.update(schema.batches).values(score_scale=schema.batches.c.score_scale / 10))
        clock.time += WINDOW
        offered(client)
        assert figures(client) == (FIRST + 1, 0)
        assert client.get("/v1/shelves/teas/privacy").json()["events"] == []
        with service.store.read() as connection:
            assert connection.execute(sa.select(schema.offers.c.batch)).scalars().all() == [1]


def test_another_capacity_later_leaves_the_prior_as_it_was(tmp_path: Path) -> None:
    """What releases taught rests on the capacity of the first offer, and can be computed again."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        stocked(client)
        fill(client)
        assert released(client, clock) == 1
        assert client.put("/v1/shelves/teas", json={**SHELF, "capacity": 1}).status_code == 200
        assert faultless(client)
        fill(client, 25)
        assert released(client, clock) == 2
        assert faultless(client)
