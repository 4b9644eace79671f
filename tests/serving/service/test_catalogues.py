"""A change of items costs what it changes, and items are listed a page at a time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from tests.serving.service.harness import SHELF, inline, offered, service_of, stocked
from tests.serving.service.statements import Statements

from quietshelf.serving.service.catalogue import catalogues, preloading
from quietshelf.serving.service.catalogue.catalogues import ShelfItems, follow
from quietshelf.serving.service.catalogue.views import look, shelf_row
from quietshelf.serving.service.database import schema

COUNT = 60


@pytest.fixture
def client(database: str, tmp_path: Path) -> Iterator[httpx.Client]:
    with inline(database, tmp_path) as found:
        yield found


def many(client: httpx.Client, count: int = COUNT, **settings: Any) -> None:
    """A shelf of that many items."""
    assert client.put("/v1/shelves/teas", json={**SHELF, **settings}).status_code == 201
    items = [{"id": f"item {n}", "features": [float(n), 1.0]} for n in range(count)]
    assert put(client, *items).json() == {"added": count, "changed": 0}


def put(client: httpx.Client, *items: dict[str, Any]) -> httpx.Response:
    return client.put("/v1/shelves/teas/items", json={"items": items})


def test_one_changed_item_is_read_alone(client: httpx.Client) -> None:
    """Neither the write nor the next offer reads the items that did not change."""
    many(client)
    assert offered(client).status_code == 200
    rows = Statements(client)
    assert put(client, {"id": "item 7", "revenue": 5.0}).json() == {"added": 0, "changed": 1}
    assert client.post("/v1/shelves/teas/items/retire", json={"items": ["item 9"]}).json() == {"retired": 1}
    assert offered(client).status_code == 200
    assert rows.of_all_items() == []
    with service_of(client).store.read() as connection:
        follow(connection, shelf_row(connection, "teas"), {}, None)
    assert rows.of_all_items()  # the look above reads them all: it would have been seen
    view = service_of(client).following.views["teas"]
    assert view.stock.revenue[7] == 5.0
    assert view.stock.retired[9]


def test_a_catalogue_that_follows_equals_one_read_anew(client: httpx.Client) -> None:
    """After any changes (features, revenue, groups, ranks, new and retired items), to the last bit."""
    many(client, 5, limits={"a": 2, "b": 1})
    rng = np.random.default_rng(3)
    service = service_of(client)
    before: ShelfItems | None = None
    for step in range(25):
        changes = [
            {"id": f"item {n}"}
            | ({"features": rng.normal(size=2).tolist()} if rng.random() < 0.5 or n > 40 else {})
            | ({"revenue": float(rng.random())} if rng.random() < 0.5 else {})
            | ({"group": str(rng.choice(["a", "b"]))} if rng.random() < 0.5 else {})
            | ({"rank": [None, 3.0][rng.integers(2)]} if rng.random() < 0.3 else {})
            | ({"available": bool(rng.integers(2))} if rng.random() < 0.3 else {})
            for n in rng.choice(5, 2, replace=False)
        ]
        assert put(client, *changes, {"id": f"new {step}", "features": [step, -1.0]}).status_code == 200
        if step % 3 == 0:
            client.post("/v1/shelves/teas/items/retire", json={"items": [f"new {step}"]})
        with service.store.read() as connection:
            row = shelf_row(connection, "teas")
            limits = {"a": 2, "b": 1}
            before, anew = follow(connection, row, limits, before), follow(connection, row, limits, None)
        assert (before.ids, before.numbers, before.version) == (anew.ids, anew.numbers, anew.version)
        for name in ("catalogue", "revenue", "available", "retired", "groups", "limits", "ranks"):
            mine, other = getattr(before.stock, name), getattr(anew.stock, name)
            assert (mine is None) == (other is None)
            assert mine is None or np.array_equal(mine, other)


def test_many_changes_are_read_beside_the_writer(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors see the items as they were until the thread that reads them is through."""
    many(client)
    assert offered(client).status_code == 200
    monkeypatch.setattr(catalogues, "_MANY", catalogues._MANY.offset(3))
    service = service_of(client)
    with service.store.write() as connection:  # as another process would
        connection.execute(sa.update(schema.items).values(revenue=9.0, version=schema.items.c.version + 1))
        connection.execute(sa.update(schema.shelves).values(stock_version=schema.shelves.c.stock_version + 1))
    for _ in range(200):
        assert offered(client).status_code == 200
        if service.following.views["teas"].stock.revenue[0] == 9.0:
            break
    assert (service.following.views["teas"].stock.revenue == 9.0).all()
    assert service.following.catalogues._thread._threads  # it was not the writer


def test_items_that_cannot_be_read_are_told_and_tried_again(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Visitors see the old ones for as long: a log that says nothing would let that last for ever."""
    many(client)
    assert offered(client).status_code == 200
    monkeypatch.setattr(catalogues, "_MANY", catalogues._MANY.offset(3))
    service, tried = service_of(client), list[int]()

    def fails(*_: Any) -> None:
        tried.append(1)
        raise OSError

    with monkeypatch.context() as broken:
        broken.setattr(service.following.catalogues, "read", fails)
        with service.store.write() as connection:
            connection.execute(sa.update(schema.items).values(revenue=9.0, version=schema.items.c.version + 1))
            connection.execute(sa.update(schema.shelves).values(stock_version=schema.shelves.c.stock_version + 1))
        while len(tried) < 2:
            assert offered(client).status_code == 200
    while service.following.views["teas"].stock.revenue[0] != 9.0:
        assert offered(client).status_code == 200
    assert '"where": "reading items", "error": "builtins.OSError"' in capsys.readouterr().err


def test_other_limits_are_read_beside_the_writer(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors of a shelf with many items are served under the limits of before until groups are read again."""
    many(client, limits={"a": 2})
    assert offered(client).status_code == 200
    monkeypatch.setattr(catalogues, "_MANY", catalogues._MANY.offset(3))
    assert client.put("/v1/shelves/teas", json={**SHELF, "limits": {"a": 1}}).status_code == 200
    service = service_of(client)
    for _ in range(200):
        assert offered(client).status_code == 200
        if service.following.views["teas"].catalogue.limits == {"a": 1}:
            break
    assert service.following.views["teas"].catalogue.limits == {"a": 1}
    assert service.following.views["teas"].catalogue.version >= 0


def test_the_first_visitor_after_a_start_finds_the_items(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many they are: the service is not ready before all shelves are read."""
    with inline(database, tmp_path) as client:
        many(client)
    monkeypatch.setattr(catalogues, "_MANY", catalogues._MANY.offset(3))
    go_on = threading.Event()
    monkeypatch.setattr(preloading, "look", lambda *given: go_on.wait(60) and look(*given))
    with inline(database, tmp_path, wait=False) as client:
        reply = client.get("/readyz")
        assert (reply.status_code, "being read" in reply.text) == (503, True)
        go_on.set()
        for _ in range(200):
            if client.get("/readyz").status_code == 200:
                break
            time.sleep(0.05)
        assert offered(client).status_code == 200


def test_settings_that_leave_groups_alone_keep_the_items(client: httpx.Client) -> None:
    """Another capacity does not read the catalogue again; other limits do."""
    stocked(client)
    assert offered(client).status_code == 200
    rows = Statements(client)
    assert client.put("/v1/shelves/teas", json={**SHELF, "capacity": 2}).status_code == 200
    assert len(offered(client).json()["items"]) <= 2
    assert rows.of_all_items() == []


def test_items_come_in_pages(client: httpx.Client) -> None:
    """Every item once, in order, whatever the size of a page; or all of them as lines."""
    many(client)
    seen, after = [], -1
    while after is not None:
        reply = client.get("/v1/shelves/teas/items", params={"after": after, "limit": 7}).json()
        assert len(reply["items"]) <= 7
        seen += [item["id"] for item in reply["items"]]
        after = reply["next"]
    assert seen == [f"item {n}" for n in range(COUNT)]
    reply = client.get("/v1/shelves/teas/items", headers={"Accept": "application/x-ndjson"})
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["id"] for line in reply.text.splitlines()] == seen
    assert client.get("/v1/shelves/teas/items", params={"limit": 10_001}).status_code == 422
    assert client.get("/v1/shelves/none/items", headers={"Accept": "application/x-ndjson"}).status_code == 404
