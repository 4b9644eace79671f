"""Uploads are read while they arrive, shown when they are complete, and leave nothing behind when they break off."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from tests.serving.service.harness import ITEMS, SHELF, FakeClock, offered, service_of, stocked

from quietshelf.data.tables import Schema, number
from quietshelf.serving.service.catalogue import uploads
from quietshelf.serving.service.catalogue.catalogues import follow
from quietshelf.serving.service.catalogue.uploads import Line
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.prepared import insert_rows
from quietshelf.serving.service.http import uploading
from quietshelf.serving.service.problems import Conflict

COUNT = 1234
LINES = {"Content-Type": "application/x-ndjson"}
PATH = "/v1/shelves/teas/items"


def rows(count: int = COUNT, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"new {n}", "features": [float(n), 0.5], **more} for n in range(count)]


def lines(items: list[dict[str, Any]], size: int = 10_000) -> Iterator[bytes]:
    """The body in parts that end anywhere."""
    text = "\n".join(map(json.dumps, items)).encode()
    return (text[start : start + size] for start in range(0, len(text), size))


def left(client: httpx.Client) -> dict[str, int]:
    """How many rows are staged."""
    with service_of(client).store.read() as connection:
        found = [
            (table.name, connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
            for table in (schema.uploads, schema.staged)
        ]
    return {name: number for name, number in found if number}


def test_an_upload_adds_and_changes_all_at_once(client: httpx.Client) -> None:
    """New items and known ones, in parts that end anywhere; the next visitor sees them all."""
    stocked(client)
    assert offered(client).status_code == 200
    known = [{"id": item["id"], "revenue": 3.5} for item in ITEMS]
    reply = client.put(PATH, content=lines([*rows(), *known], 777), headers=LINES)
    assert reply.json() == {"added": COUNT, "changed": len(ITEMS)}
    assert offered(client).status_code == 200
    view = service_of(client).following.views["teas"]
    assert view.ids == (*(item["id"] for item in ITEMS), *(f"new {n}" for n in range(COUNT)))
    assert (view.stock.revenue[: len(ITEMS)] == 3.5).all()
    assert view.stock.catalogue is not None
    assert np.array_equal(view.stock.catalogue[len(ITEMS) :][:, 0], np.arange(COUNT))
    assert left(client) == {}


def test_large_bodies_take_the_same_way(client: httpx.Client) -> None:
    """Thousands of items in one JSON document are staged as well: no transaction holds them all."""
    stocked(client)
    reply = client.put(PATH, json={"items": rows()})
    assert reply.json() == {"added": COUNT, "changed": 0}
    refused = client.put(PATH, json={"items": [*rows(COUNT), {"id": "x", "features": [1.0]}]})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(f"line {COUNT + 1}: features must have length 2")


def test_parquet_is_a_product_table(client: httpx.Client) -> None:
    """Columns by the shelf's schema, or the fields of items where there is none."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    prices = Schema({"price": number(scale=2.0, centre=5.0)}, id="sku", revenue="margin")
    body = {**SHELF, "visitor_dim": None, "feature_map": "item", "schema": prices.to_dict()}
    assert client.put("/v1/shelves/teas", json=body).status_code == 201
    file = io.BytesIO()
    table = {"sku": [f"s{n}" for n in range(COUNT)], "price": np.arange(COUNT) * 0.5, "margin": [1.5] * COUNT}
    pq.write_table(pa.table(table), file)
    kind = {"Content-Type": "application/vnd.apache.parquet"}
    assert client.put(PATH, content=file.getvalue(), headers=kind).json() == {"added": COUNT, "changed": 0}
    last = client.get(PATH, params={"after": COUNT - 2}).json()["items"][0]
    assert (last["id"], last["revenue"], last["features"]) == ("s1233", 1.5, [(1233 * 0.5 - 5) / 2])
    assert client.put("/v1/shelves/plain", json=SHELF).status_code == 201
    file = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "features": [[1.0, 2.0], [3.0, 4.0]]}), file)
    plain = client.put("/v1/shelves/plain/items", content=file.getvalue(), headers=kind)
    assert plain.json() == {"added": 2, "changed": 0}
    refused = client.put(PATH, content=b"no such file", headers=kind)
    assert refused.status_code == 422
    assert "must be a Parquet file" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ('{"id": "x", "features": [1.0]}', "features must have length 2"),
        ('{"id": "x"', "Invalid JSON"),
        ('{"id": "new 3", "features": [1, 2]}', "got 'new 3' in lines 4 and"),
        ('{"id": "x", "features": [1, 2], "price": 3}', "there is no such field"),
        ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "Invalid JSON"),
    ],
)
def test_one_wrong_line_refuses_all(client: httpx.Client, wrong: str, words: str) -> None:
    """By its number and its rule; nothing is added, and nothing stays behind for long."""
    stocked(client)
    body = "\n".join([*map(json.dumps, rows()), wrong])
    refused = client.put(PATH, content=body.encode("latin-1"), headers=LINES)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith((f"line {COUNT + 1}: ", "items must be named once each"))
    assert words in refused.json()["detail"]
    assert len(client.get(PATH, params={"limit": 5000}).json()["items"]) == len(ITEMS)
    asyncio.run(uploading.tend(service_of(client)))
    assert left(client) == {}


def test_mistakes_are_told_ten_at_most(client: httpx.Client) -> None:
    """However many lines are wrong, and however wrong each is."""
    stocked(client)
    bad = json.dumps({"id": "x", "features": ["no"] * 5000})
    refused = client.put(PATH, content="\n".join([bad] * 400).encode(), headers=LINES).json()
    assert [each["line"] for each in refused["errors"]] == list(range(1, 11))
    assert client.put(PATH, content=b"\n\n", headers=LINES).status_code == 422
    long = client.put(PATH, content=b"x" * 1_100_000, headers=LINES)
    assert (long.status_code, "line 1" in long.json()["detail"]) == (413, True)


def test_an_upload_that_breaks_off_is_not_seen(client: httpx.Client, clock: FakeClock) -> None:
    """Neither while it stops, nor afterwards: whoever looks next forgets it, in pieces."""
    stocked(client)

    def cut() -> Iterator[bytes]:
        yield from list(lines(rows()))[:-1]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        client.put(PATH, content=cut(), headers=LINES)
    with service_of(client).store.write() as connection:  # a process that ended at the same point
        upload = uploads.begin(connection, "teas", clock.time)
        uploads.stage(connection, upload, [uploads.Line(1, "x", '{"id": "x", "features": [0, 0]}')], clock.time)
    clock.time += uploads.STALE_SECONDS + 1
    for _ in range(100):
        asyncio.run(uploading.tend(service_of(client)))
        if left(client) == {}:
            break
    assert left(client) == {}
    assert client.get(PATH).json()["items"][-1]["id"] == ITEMS[-1]["id"]


def test_a_complete_upload_survives_its_process(client: httpx.Client, clock: FakeClock) -> None:
    """Until it is taken in nobody sees it; whoever looks next finishes it, and changes made meanwhile stay."""
    stocked(client)
    assert offered(client).status_code == 200
    service = service_of(client)
    given = [*rows(700), {"id": "item 0", "revenue": 7.0}]
    with service.store.write() as connection:
        upload = uploads.begin(connection, "teas", clock.time)
        staged = [uploads.Line(n, each["id"], json.dumps(each)) for n, each in enumerate(given, start=1)]
        uploads.stage(connection, upload, staged, clock.time)
        assert uploads.complete(connection, upload, clock.time)
    with service.store.write() as connection:
        assert uploads.take_in(connection, upload, clock.time) == {"added": uploads.CHUNK, "changed": 0, "skipped": 0}
    assert client.put(PATH, json={"items": [{"id": "late", "features": [1.0, 1.0]}]}).json()["added"] == 1
    assert client.put(PATH, json={"items": [{"id": "item 1", "revenue": 4.0}]}).json()["changed"] == 1
    assert offered(client).status_code == 200
    view = service.following.views["teas"]
    assert (len(view.ids), view.stock.revenue[1]) == (len(ITEMS), 4.0)
    assert len(client.get(PATH).json()["items"]) == len(ITEMS)
    with service.store.read() as connection:  # a process that has just started
        assert len(follow(connection, shelf_row(connection, "teas"), {}, None).ids) == len(ITEMS)
    clock.time += uploads.LEFT_SECONDS + 1
    asyncio.run(uploading.tend(service))
    assert offered(client).status_code == 200
    view = service.following.views["teas"]
    assert len(view.ids) == len(ITEMS) + 701
    assert view.stock.revenue[:2].tolist() == [7.0, 4.0]
    assert set(view.ids) == {item["id"] for item in ITEMS} | {f"new {n}" for n in range(700)} | {"late"}
    assert left(client) == {}


def test_two_processes_that_take_in_one_upload_show_it_once(client: httpx.Client, clock: FakeClock) -> None:
    """The second waits for the first, and finds that there is nothing left: it sets back no version."""
    store = service_of(client).store
    if store.sqlite:
        pytest.skip("SQLite has one writer")
    stocked(client)
    with store.write() as connection:
        upload = uploads.begin(connection, "teas", clock.time)
        uploads.stage(connection, upload, [uploads.Line(1, "x", '{"id": "x", "features": [0, 0]}')], clock.time)
        assert uploads.complete(connection, upload, clock.time)
    found: list[Any] = []

    def second() -> None:
        with store.write() as connection:
            found.append(uploads.take_in(connection, upload, clock.time))

    thread = threading.Thread(target=second)
    with store.write() as connection:
        assert uploads.take_in(connection, upload, clock.time) == {"added": 1, "changed": 0, "skipped": 0}
        thread.start()
        thread.join(0.5)
    thread.join(20)
    assert found == [None]


def test_a_shelf_deleted_meanwhile_ends_its_uploads(client: httpx.Client, clock: FakeClock) -> None:
    """The next lines are refused, and nothing of it is kept."""
    stocked(client)
    with service_of(client).store.write() as connection:
        upload = uploads.begin(connection, "teas", clock.time)
    assert client.delete("/v1/shelves/teas").status_code == 204
    with service_of(client).store.write() as connection:
        assert uploads.take_in(connection, upload, clock.time) is None
        with pytest.raises(Conflict):
            uploads.complete(connection, upload, clock.time)
    assert client.put(PATH, content=b'{"id": "x"}', headers=LINES).status_code == 404


def test_a_look_for_ids_reads_their_rows_alone(client: httpx.Client) -> None:
    """In a table that is being filled, of which the database knows nothing yet, as in one of any size."""
    stocked(client)
    wanted = [("one", f"new {n}") for n in range(100)]
    with service_of(client).store.rehearse() as connection:
        work = []
        for numbers in (range(1_000), range(1_000, 10_000)):
            added = [Line(n, f"new {n}", "{}")._asdict() for n in numbers]
            insert_rows(connection, schema.staged, [{"upload": "one", **each} for each in added])
            work.append(work_of(connection, partial(uploads.STAGED.rows, connection, wanted)))
    assert work[1] <= 2 * work[0]


def work_of(connection: Connection, look: Callable[[], list[Any]]) -> int:
    """Rows that PostgreSQL reads for it, steps that SQLite takes; it finds a hundred rows."""
    read = sa.text("SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables")
    if connection.dialect.name == "postgresql":
        before = connection.execute(read).scalar_one()
        assert len(look()) == 100
        return int(connection.execute(read).scalar_one() - before)
    steps, driver = itertools.count(), connection.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(lambda: next(steps) and None, 1)
    try:
        assert len(look()) == 100
    finally:
        driver.set_progress_handler(None, 1)
    return next(steps)
