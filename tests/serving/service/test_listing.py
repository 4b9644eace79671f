"""Long replies are made in parts, by one thread: readers of everything keep no visitor waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.service.harness import FIRST, FakeClock, inline, offered, service_of, stocked

from quietshelf.serving.service import queries
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.http import app

WINDOW = 5.0


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """A shelf with two releases."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock, request_seconds=1.0) as found:
        stocked(found, window=WINDOW, max_batch=FIRST)
        for number in (1, 2):
            for _ in range(FIRST):
                assert offered(found).status_code == 200
            clock.time += WINDOW + 1.0
            while found.get("/v1/shelves/teas").json()["releases"] < number:
                time.sleep(0.01)
        yield found


def stored(client: httpx.Client) -> list[dict[str, Any]]:
    with service_of(client).store.read() as connection:
        return queries.releases(connection, shelf_row(connection, "teas"))


def test_releases_come_in_parts_from_one_thread(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is what the store holds, and may take longer than a request: its parts are what has a limit."""
    expected, threads, real = stored(client), set[str](), queries.release

    def slow(*given: Any) -> dict[str, Any]:
        threads.add(threading.current_thread().name)
        time.sleep(0.7)
        return real(*given)

    monkeypatch.setattr(queries, "release", slow)
    found = client.get("/v1/shelves/teas/releases")
    assert found.headers["content-type"] == "application/json"
    assert "content-length" not in found.headers
    assert found.json() == {"releases": expected}
    assert [each["release"] for each in expected] == [1, 2]
    assert threads == {"quietshelf-listing_0"}


def test_a_shelf_without_releases_has_an_empty_list(client: httpx.Client) -> None:
    """And one that never was is refused as such."""
    stocked(client, "other")
    assert client.get("/v1/shelves/other/releases").json() == {"releases": []}
    assert client.get("/v1/shelves/nowhere/releases").status_code == 404


def test_few_requests_read_at_once(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for their turn."""
    reading, most, lock = 0, 0, threading.Lock()

    def slow(*_: Any) -> list[Any]:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        time.sleep(0.05)
        with lock:
            reading -= 1
        return []

    monkeypatch.setattr(queries, "shelf_rows", slow)
    with ThreadPoolExecutor(3 * app.READERS) as pool:
        found = list(pool.map(lambda _: client.get("/v1/shelves").status_code, range(3 * app.READERS)))
    assert set(found) == {200}
    assert most == app.READERS
