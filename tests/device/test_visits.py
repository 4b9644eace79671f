"""Visits whose offers and contributions are made on the device, over HTTP, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from tests.device.worlds import DEVICE_SHELF, device_of, key_of, on_device, problem, ticketed
from tests.serving.service.harness import FIRST, ITEMS, WINDOW, FakeClock, answered, inline, like, offered, stocked

from quietshelf.client import ticket
from quietshelf.curation.coins import Coins
from quietshelf.serving.service import old_rows
from quietshelf.serving.service.database import schema

ORDER = (schema.offers.c.shelf, schema.offers.c.batch, schema.offers.c.slot)
ZERO = {"score": [0.0] * 5, "rows": []}


@pytest.fixture
def client(database: str, tmp_path: Path, clock: FakeClock) -> Iterator[httpx.Client]:
    shared = Coins(bytes(32))  # so that shelves can be compared
    with inline(database, tmp_path, clock=clock, coins=lambda _: shared, origins="https://shop.example") as found:
        yield found


def rows_of(client: httpx.Client) -> list[dict[str, Any]]:
    with client.service.store.read() as connection:  # type: ignore[attr-defined]
        return [dict(row) for row in connection.execute(sa.select(schema.offers).order_by(*ORDER)).mappings()]


def test_a_device_learns_and_contributes_as_the_server_would(client: httpx.Client, clock: FakeClock) -> None:
    """The same visitors on two shelves, decided here and there, see the same items and leave the same contributions."""
    on_device(client)
    stocked(client, "server", on_no_answer="zero")
    rng = np.random.default_rng(1)
    for visit in range(FIRST):
        features = rng.normal(size=2).tolist()
        device = device_of(client, clock)
        shown = device.offer(features, exclude=["item 3"])
        item = [None, *shown][visit % (1 + len(shown))]
        device.choose(item)
        made = offered(client, "server", features=features, exclude=["item 3"]).json()
        assert made["items"] == list(shown)
        assert answered(client, made["offer"], item).status_code == 204
    kept = rows_of(client)
    mine, theirs = ([row["contribution"] for row in kept if row["shelf"] == shelf] for shelf in (1, 2))
    assert mine == theirs
    assert len(set(mine)) == FIRST
    clock.time += WINDOW
    assert client.get("/readyz").status_code == 200
    later = device_of(client, clock)
    later.offer([0.0, 0.0])
    assert later._slot["release"] == 1
    models = [later.verify(later.http.get(f"/v1/shelves/teas/models/{number}").json()) for number in (0, 1)]
    assert [model["release"] for model in models] == [0, 1]
    assert models[0]["theta"] != models[1]["theta"]


def test_what_is_stored_of_a_visit_is_its_contribution_alone(client: httpx.Client, clock: FakeClock) -> None:
    """The row of a slot holds no item, no feature and no choice, before the contribution and after it."""
    on_device(client)
    device = device_of(client, clock)
    shown = device.offer([12345.678, -8765.4321])
    [row] = rows_of(client)
    assert (row["items"], row["rows"], row["answer"], row["contribution"]) == ("null", b"", None, None)
    device.choose(shown[0])
    [row] = rows_of(client)
    assert (row["items"], row["rows"]) == ("null", None)
    assert len(row["contribution"]) == 8 * 5 * (1 + len(shown) + 1)


def test_a_ticket_takes_one_slot_and_answers_it_once(client: httpx.Client, clock: FakeClock) -> None:
    """Used again it gets the same slot; its first contribution stands, and nobody else's ticket can answer for it."""
    on_device(client)
    device, other = device_of(client, clock), device_of(client, clock)
    first, second = device.slot(), device.slot()
    assert first == second
    assert other.slot()["offer"] != first["offer"]
    path = f"/v1/offers/{first['offer']}/contribution"
    problem(other.http.post(path, json=ZERO), 404, "not-found")
    for _ in range(2):
        assert device.http.post(path, json=ZERO).status_code == 204
    problem(device.http.post(path, json={**ZERO, "score": [2.0**-10, 0, 0, 0, 0]}), 409, "answer-conflict")
    late = device_of(client, clock)
    offer = late.slot()["offer"]
    clock.time += WINDOW
    problem(late.http.post(f"/v1/offers/{offer}/contribution", json=ZERO), 409, "offer-expired")


def test_a_contribution_outlives_its_ticket_but_not_its_offer(client: httpx.Client, clock: FakeClock) -> None:
    """The ticket is for taking a slot; the answer counts until the offer expires."""
    on_device(client, window=5000.0)
    device = device_of(client, clock, seconds=60)
    offer = device.slot()["offer"]
    clock.time += 61
    problem(device.http.post("/v1/shelves/teas/slots", json={}), 401, "unauthorised")
    assert device.http.post(f"/v1/offers/{offer}/contribution", json=ZERO).status_code == 204


def test_persons_are_capped_and_erased_as_elsewhere(client: httpx.Client, clock: FakeClock) -> None:
    """A second visit in the batch does not count, and is answered alike; an erased slot contributes zero."""
    on_device(client)
    first, again = (device_of(client, clock, person="customer 17") for _ in range(2))
    for device in (first, again):
        device.choose(device.offer([0.5, 0.5])[0])
        device.choose(device._shown[0])  # the same again is fine
        other = device.http.post(f"/v1/offers/{device._slot['offer']}/contribution", json=ZERO)
        problem(other, 409, "answer-conflict")  # whether the visit counts is told to nobody
    assert [row["contribution"] is None for row in rows_of(client)] == [False, True]
    assert client.post("/v1/shelves/teas/erasures", json={"person": "customer 17"}).json() == {"erased": 2}
    assert [row["contribution"] for row in rows_of(client)] == [None, None]
    problem(first.http.post(f"/v1/offers/{first._slot['offer']}/contribution", json=ZERO), 409, "offer-erased")


def test_each_mode_refuses_the_requests_of_the_other(client: httpx.Client, clock: FakeClock) -> None:
    """Features are refused where nobody should have them, and contributions where they are computed here."""
    on_device(client)
    stocked(client, "server")
    device, key = device_of(client, clock), key_of(client)
    problem(offered(client), 422, "invalid")
    offer = device.slot()["offer"]
    problem(answered(client, offer, None), 422, "invalid")
    elsewhere = ticketed(client, ticket(key, shelf="server", now=clock.time))
    problem(elsewhere.post("/v1/shelves/server/slots", json={}), 422, "invalid")
    problem(elsewhere.get("/v1/shelves/server/batches/0"), 422, "invalid")
    assert [row["answer"] for row in rows_of(client)] == [None]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"on_no_answer": "no-choice"}, "on_no_answer"),
        ({"comparison": 0.1, "most_revenue": 3.0}, "comparison"),
        ({"learned_share": 0.5}, "learned_share"),
        ({"limits": {"a": 1}}, "limits"),
        ({"policy": "uniform", "private": False}, "policy"),
        ({"capacity": 101}, "capacity"),
    ],
)
def test_settings_that_a_device_cannot_serve_are_refused(
    client: httpx.Client, given: dict[str, Any], rule: str
) -> None:
    """Each by its rule, when the shelf is put."""
    assert rule in problem(client.put("/v1/shelves/teas", json={**DEVICE_SHELF, **given}), 422, "invalid")


def test_a_ticket_opens_nothing_else(client: httpx.Client, clock: FakeClock) -> None:
    """Not the items, the promise, another shelf or an offer made here; a forged or late one opens nothing at all."""
    on_device(client)
    stocked(client, "server")
    key = key_of(client)
    device = device_of(client, clock)
    for path in ("/v1/shelves/teas", "/v1/shelves/teas/items", "/v1/shelves/teas/privacy", "/metrics", "/v1/privacy"):
        assert device.http.get(path).status_code == 403, path
    problem(device.http.post("/v1/shelves/server/slots", json={}), 404, "not-found")
    problem(device.http.post("/v1/shelves/teas/offers", json={"features": [0, 0]}), 403, "forbidden")
    problem(device.http.post("/v1/shelves/teas/erasures", json={"person": "x"}), 403, "forbidden")
    problem(client.post("/v1/shelves/teas/slots", json={}), 403, "forbidden")
    good = ticket(key, shelf="teas", now=clock.time)
    for text in (good[:-1], good + "A", "." + good, "x.y", ticket(key[:-1] + "!", shelf="teas", now=clock.time)):
        assert ticketed(client, text).post("/v1/shelves/teas/slots", json={}).status_code == 401, text
    for moment in (clock.time - 601, clock.time + 3600):
        late = ticketed(client, ticket(key, shelf="teas", now=moment))
        problem(late.post("/v1/shelves/teas/slots", json={}), 401, "unauthorised")


def test_documents_are_signed_cached_and_immutable(client: httpx.Client, clock: FakeClock) -> None:
    """The signature is over the very text; a second request with its tag gets nothing new; a new version is another."""
    from cryptography.exceptions import InvalidSignature

    on_device(client)
    device = device_of(client, clock)
    problem(device.http.get("/v1/shelves/teas/models/0"), 404, "not-found")
    slot = device.slot()
    for kind, number in (("models", 0), ("batches", 0), ("catalogues", slot["catalogue"])):
        path = f"/v1/shelves/teas/{kind}/{number}?edition={slot['edition']}"
        reply = device.http.get(path)
        assert "immutable" in reply.headers["cache-control"]
        device.verify(reply.json())
        with pytest.raises(InvalidSignature):
            device.verify({**reply.json(), "signed": reply.json()["signed"].replace("teas", "toys")})
        assert device.http.get(path, headers={"If-None-Match": reply.headers["etag"]}).status_code == 304
    client.put("/v1/shelves/teas/items", json={"items": [{**ITEMS[0], "features": [9.0, 9.0]}]})
    stale = device.http.get(f"/v1/shelves/teas/catalogues/{slot['catalogue']}?edition={slot['edition']}")
    assert stale.headers["cache-control"] == "no-store"
    assert int(device.verify(stale.json())["version"]) > int(slot["catalogue"])
    problem(device.http.get("/v1/shelves/teas/models/1"), 404, "not-found")


def test_no_document_is_kept_for_another_shelf_of_that_name(client: httpx.Client, clock: FakeClock) -> None:
    """Numbers begin again where a shelf is made anew; what browsers keep has another address, and another edition."""
    on_device(client)
    before = device_of(client, clock).slot()
    assert client.delete("/v1/shelves/teas").status_code == 204
    on_device(client, rho=1.0)
    device = device_of(client, clock)
    slot = device.slot()
    assert [slot[name] for name in ("release", "batch", "catalogue")] == [0, 0, before["catalogue"]]
    assert slot["edition"] != before["edition"]
    for path in (f"models/0?edition={before['edition']}", "models/0", "batches/0?edition=", "catalogues/1"):
        reply = device.http.get(f"/v1/shelves/teas/{path}")
        assert reply.headers["cache-control"] == "no-store", path
        assert device.verify(reply.json())["edition"] == slot["edition"]


def test_a_released_ticket_takes_no_other_slot_however_soon_keys_are_forgotten(
    database: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Tickets outlive a short ``retry_hours``: what they took is remembered for as long as any may be valid."""
    with inline(database, tmp_path, clock=clock, retry_hours=0.01) as client:
        on_device(client)
        first = device_of(client, clock, seconds=3600)
        first.slot()
        for _ in range(FIRST - 1):
            device_of(client, clock).slot()
        clock.time += WINDOW
        assert client.get("/readyz").status_code == 200
        assert device_of(client, clock).slot()["release"] == 1
        clock.time += 3600 - WINDOW - 1
        service = client.service  # type: ignore[attr-defined]
        with service.store.write() as connection:
            connection.execute(sa.update(schema.retries).values(fingerprint=None))  # as when rows are cleaned
            old_rows.forget(connection, service.settings, clock.time, old_rows.PIECE)
        problem(first.http.post("/v1/shelves/teas/slots", json={}), 409, "offer-expired")


def test_the_pages_say_what_is_held_and_what_is_not(client: httpx.Client, clock: FakeClock) -> None:
    """The shelf's page to its operator, the statement to visitors; counts of open batches know of no item."""
    on_device(client)
    stocked(client, "server")
    device = device_of(client, clock)
    device.choose(device.offer([0.1, 0.2])[0])
    html = {"Accept": "text/html"}
    page, statement = (client.get(path, headers=html).text for path in ("/shelves/teas", "/shelves/teas/privacy"))
    assert "You store no features, no items shown and no choices" in page
    assert "stay on your own device" in statement
    assert "receives your part without noise" in statement
    assert "on your own device" not in client.get("/shelves/server/privacy", headers=html).text
    counts = client.get("/shelves/teas/counts?format=json").json()
    assert (counts["offers"], counts["answered"], counts["items"]) == (1, 1, [])
    for path in ("/", "/shelves/teas", "/shelves/teas/privacy", "/shelves/teas/counts", "/operations"):
        assert device.http.get(f"{path}?format=json").status_code in (401, 403), path


def test_only_named_origins_may_read_replies(client: httpx.Client, clock: FakeClock) -> None:
    """CORS for what tickets allow, to the configured origin; nothing for another origin or another path."""
    on_device(client)
    device = device_of(client, clock)
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    bare = like(client, None)
    for origin, path, known in (
        ("https://shop.example", "/v1/shelves/teas/slots", True),
        ("https://evil.example", "/v1/shelves/teas/slots", False),
        ("null", "/v1/shelves/teas/slots", False),
        ("https://shop.example", "/v1/shelves/teas/offers", False),
    ):
        reply = bare.options(path, headers={"Origin": origin, **asks})
        assert reply.headers.get("access-control-allow-origin") == (origin if known else None)
        assert ("access-control-allow-headers" in reply.headers) == known
    reply = device.http.post("/v1/shelves/teas/slots", json={}, headers={"Origin": "https://shop.example"})
    assert reply.headers["access-control-allow-origin"] == "https://shop.example"
    assert "access-control-allow-credentials" not in reply.headers
    refused = bare.post("/v1/shelves/teas/slots", json={}, headers={"Origin": "https://shop.example"})
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (401, True)
