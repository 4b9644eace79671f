"""What an attack on shelves for devices found, each as it was found: nobody's wait, guess or greed reaches others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.device.test_visits import ZERO, rows_of
from tests.device.worlds import device_of, key_of, on_device, problem, ticketed
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, inline, service_of

from quietshelf.client import ticket
from quietshelf.curation import device as on
from quietshelf.serving.service.catalogue import documents, views
from quietshelf.serving.service.database import learning, schema


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[httpx.Client]:
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as found:
        yield found


@pytest.mark.parametrize("waits", [False, True])
def test_when_a_ticket_expires_depends_on_nobody_who_waits(client: httpx.Client, clock: FakeClock, waits: bool) -> None:
    """Whether somebody's contribution waits for a late release or not, another's ticket is over when it is over."""
    on_device(client)
    late = ticketed(client, ticket(key_of(client), shelf="teas", now=clock.time, seconds=2))
    device_of(client, clock).slot()
    waiting = service_of(client).inbox.stamp() if waits else None
    clock.time += 3
    problem(late.post("/v1/shelves/teas/slots", json={}), 401, "unauthorised")
    problem(late.get("/v1/shelves/teas/models/0"), 401, "unauthorised")
    if waiting is not None:
        service_of(client).inbox.settle(waiting)


def test_a_visit_that_does_not_count_leaves_nothing_to_guess_from(client: httpx.Client, clock: FakeClock) -> None:
    """Of one contribution to two such slots two different numbers are kept, and the same again is known as the same."""
    on_device(client)
    devices = [device_of(client, clock, person="customer 17") for _ in range(3)]
    for device in devices:
        path = f"/v1/offers/{device.slot()['offer']}/contribution"
        for _ in range(2):
            assert device.http.post(path, json=ZERO).status_code == 204
    _, *rest = rows_of(client)
    assert [row["contribution"] for row in rest] == [None, None]
    assert len({row["answer"] for row in rest}) == len(rest)


def released_twice(client: httpx.Client, clock: FakeClock) -> Any:
    """A device of a shelf with two releases, and its slot."""
    on_device(client)
    for batch in (FIRST, 25):
        for _ in range(batch):
            device_of(client, clock).slot()
        clock.time += WINDOW
        assert client.get("/readyz").status_code == 200
    device = device_of(client, clock)
    assert device.slot()["release"] == 2
    return device


def test_an_earlier_release_is_one_row(client: httpx.Client, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a document costs that document, however many releases there were."""
    device = released_twice(client, clock)
    read: list[int] = []
    real = learning.release_rows

    def counted(connection: sa.Connection, shelf: int, most: int | None = None, *, after: int = 0) -> list[Any]:
        rows = real(connection, shelf, most, after=after)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(learning, "release_rows", counted)
    found = [device.verify(device.http.get(f"/v1/shelves/teas/models/{number}").json()) for number in (0, 1, 2)]
    assert [each["release"] for each in found] == [0, 1, 2]
    assert sum(read) == 1


def test_a_document_that_many_ask_for_is_made_once(
    client: httpx.Client, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those who ask for others meanwhile wait: one at a time is made."""
    device = released_twice(client, clock)
    made, at_work, together = [], threading.Semaphore(1), []
    real = on.model_document

    def counted(*given: Any) -> dict[str, Any]:
        together.append(at_work.acquire(blocking=False))
        threading.Event().wait(0.05)
        made.append(given)
        if together[-1]:
            at_work.release()
        return real(*given)

    monkeypatch.setattr(documents, "model_document", counted)

    def ask(number: int) -> int:
        return httpx.get(
            f"{device.http.base_url}/v1/shelves/teas/models/{number}", headers=device.http.headers, timeout=30
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, [0, 1, 2] * 8)) == {200}
    assert len(made) == 3
    assert all(together)


def test_a_catalogue_is_kept_under_the_version_that_it_is_of(
    client: httpx.Client, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items that change while a document is made change neither what it holds nor what it says it is."""
    on_device(client)
    device = device_of(client, clock)
    slot = device.slot()
    real = views.shelf_row

    def changing(connection: sa.Connection, name: str) -> Any:
        row = real(connection, name)
        monkeypatch.setattr(documents, "shelf_row", real)
        with service_of(client).store.write() as other:
            newer = {"stock_version": schema.shelves.c.stock_version + 1}
            other.execute(sa.update(schema.shelves).values(newer))
            other.execute(sa.update(schema.items).values(revenue=7.0, version=row["stock_version"] + 1))
        return row

    monkeypatch.setattr(documents, "shelf_row", changing)
    reply = device.http.get(f"/v1/shelves/teas/catalogues/{slot['catalogue']}?edition={slot['edition']}")
    kept = device.verify(reply.json())
    named = kept["version"] == slot["catalogue"]
    assert ("immutable" in reply.headers["cache-control"]) == named
    assert (7.0 in kept["revenue"]) != named
