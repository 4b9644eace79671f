"""Time on receipt: what a request means is fixed when it comes in, however long it waits behind others (R4, R5)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.noiseless import Noiseless
from tests.serving.service.backups import failing
from tests.serving.service.harness import FIRST, ITEMS, WINDOW, FakeClock, answered, inline, offered, stocked

from quietshelf.model.types import FloatArray
from quietshelf.serving.service.catalogue import items
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.visitors.inbox import Inbox


@contextmanager
def busy(client: httpx.Client) -> Iterator[Callable[[Callable[[], httpx.Response]], threading.Thread]]:
    """A writer that does nothing until the end of this block; requests are sent one by one, and wait in the queue."""
    service: Any = client.service  # type: ignore[attr-defined]
    free, real = threading.Event(), service.writer._chores

    def held() -> float:
        free.wait()
        return float(real())

    service.writer._chores = held
    time.sleep(0.4)  # until the writer has come round to it
    threads: list[threading.Thread] = []

    def send(request: Callable[[], httpx.Response]) -> threading.Thread:
        waiting = len(service.inbox._open)
        thread = threading.Thread(target=request)
        thread.start()
        threads.append(thread)
        for _ in range(500):
            if len(service.inbox._open) > waiting:
                return thread
            time.sleep(0.01)
        raise AssertionError("the request was not received")

    try:
        yield send
    finally:
        free.set()
        for thread in threads:
            thread.join()


def test_lateness_release_and_published_time_follow_the_time_of_receipt(database: str, tmp_path: Path) -> None:
    """Behind a machine that is far too late: an answer in time counts, an arrival sees what was due when it came."""
    clock, found = FakeClock(), dict[str, httpx.Response]()
    with inline(database, tmp_path, clock=clock, source=Noiseless()) as client:
        stocked(client)
        offers = [offered(client).json() for _ in range(FIRST)]
        due, last = clock.time + WINDOW, offers[-1]

        def keep(name: str, request: Callable[[], httpx.Response]) -> Callable[[], httpx.Response]:
            return lambda: found.setdefault(name, request())

        with busy(client) as send:
            clock.time = due - 0.2
            send(keep("in time", lambda: answered(client, last["offer"], last["items"][0])))
            clock.time = due - 0.1
            send(keep("before", lambda: offered(client)))
            clock.time = due
            send(keep("late", lambda: answered(client, offers[-2]["offer"], None)))
            send(keep("after", lambda: offered(client)))
            clock.time = due + 1000.0
        assert found["in time"].status_code == 204
        assert found["late"].status_code == 409
        assert (found["before"].json()["release"], found["after"].json()["release"]) == (0, 1)
        (release,) = client.get("/v1/shelves/teas/releases").json()["releases"]
        assert release["released"] == timestamp(due)
        assert any(release["score"])  # the answer in time is in it


def test_an_arrival_is_served_from_the_last_release_if_the_due_one_cannot_be_made(tmp_path: Path) -> None:
    """A release that fails is not waited for twice: the offer says which release it used."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        stocked(client)
        for _ in range(FIRST):
            offered(client)
        vault = client.service.vault  # type: ignore[attr-defined]
        real, vault.note = vault.note, failing
        clock.time += WINDOW
        assert [offered(client).json()["release"] for _ in range(3)] == [0, 0, 0]
        vault.note = real
        for _ in range(100):
            if client.get("/v1/shelves/teas").json()["releases"]:
                break
            time.sleep(0.05)
        assert offered(client).json()["release"] == 1


def test_a_refused_or_cut_off_request_holds_no_release_back(tmp_path: Path) -> None:
    """Every stamp is settled, whatever becomes of its request; time goes on."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        stocked(client)
        inbox = client.service.inbox  # type: ignore[attr-defined]
        offered(client, features=[1.0])
        client.post("/v1/shelves/teas/offers", content="{", headers={"Content-Type": "application/json"})
        client.post("/v1/offers/nobody/choice", json={"item": None})
        client.post("/v1/shelves/none/offers", json={"features": [0.1, 0.2]})
        offered(client)
        assert not inbox._open
        clock.time += 5.0
        assert inbox.time() == clock.time


@pytest.mark.parametrize(("received", "order"), [(-0.1, ["change", "draw"]), (0.0, ["draw", "change"])])
def test_a_change_of_the_shop_keeps_its_place_among_releases(
    database: str, tmp_path: Path, received: float, order: list[str]
) -> None:
    """Before a release that is due later, after one that was due: else an answer that a release waits for decides."""
    clock, found = FakeClock(), list[str]()

    class Noted(Noiseless):
        def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
            found.append("draw")
            return super().draw(scale, size)

    with inline(database, tmp_path, clock=clock, source=Noted()) as client:
        stocked(client)
        for _ in range(FIRST):
            offered(client)
        real, due = items.retire, clock.time + WINDOW

        def retire(*args: Any) -> Any:
            found.append("change")
            return real(*args)

        with pytest.MonkeyPatch.context() as patch, busy(client) as send:
            patch.setattr(items, "retire", retire)
            clock.time = due + received
            send(lambda: client.post("/v1/shelves/teas/items/retire", json={"items": [ITEMS[0]["id"]]})).join(0.1)
            service: Any = client.service  # type: ignore[attr-defined]
            service.schedule.due = service.schedule.publication = None  # it is not known here that one is due
            service.schedule.look_at = time.monotonic() + 600.0
            clock.time = due + 1.0
        assert offered(client).json()["release"] == 1
    assert list(dict.fromkeys(found)) == order


def test_time_is_that_of_the_oldest_request_which_is_not_settled() -> None:
    """And never goes back, even if the clock does."""
    clock = FakeClock(100.0)
    inbox = Inbox(clock.now)
    first = inbox.stamp()
    clock.time = 101.0
    second = inbox.stamp()
    assert (first.time, second.time, inbox.time()) == (100.0, 101.0, 100.0)
    inbox.settle(first)
    inbox.settle(first)
    clock.time = 90.0
    assert inbox.time() == 101.0
    assert inbox.stamp().time == 101.0
    inbox.settle(second)
