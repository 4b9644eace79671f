"""Offers and answers over HTTP, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from tests.serving.service.harness import ITEMS, SHELF, WINDOW, FakeClock, answered, inline, offered, problem, stocked

from quietshelf.serving.service.database import schema


def test_an_offer_is_made_answered_and_then_fixed(client: httpx.Client, clock: FakeClock) -> None:
    """The same answer again is fine; another, a late one, a forged and an unknown offer are refused by type."""
    stocked(client)
    offer = offered(client).json()
    assert len(offer["items"]) == 3
    assert set(offer["items"]) <= {item["id"] for item in ITEMS}
    assert offer["release"] == 0
    assert offer["expires"].endswith("Z")
    assert "one of the items shown" in problem(answered(client, offer["offer"], "nothing of ours"), 422, "invalid")
    for _ in range(2):
        assert answered(client, offer["offer"], offer["items"][0]).status_code == 204
    problem(answered(client, offer["offer"], None), 409, "answer-conflict")
    forged = offer["offer"][:-1] + ("B" if offer["offer"].endswith("A") else "A")
    problem(answered(client, forged, None), 404, "not-found")
    problem(answered(client, "0.0.0.x", None), 404, "not-found")
    late = offered(client).json()
    clock.time += WINDOW
    for item in (None, late["items"][0], "nothing of ours"):
        problem(answered(client, late["offer"], item), 409, "offer-expired")


def test_a_retry_gets_the_stored_offer_and_takes_no_slot(client: httpx.Client) -> None:
    """One key, one visitor; the key with another request is refused."""
    stocked(client)
    first = offered(client, retry="one").json()
    assert offered(client, retry="one").json() == first
    assert offered(client, retry="two").json() != first
    problem(offered(client, retry="one", features=[9.0, 9.0]), 422, "key-reused")
    assert client.get("/v1/shelves/teas").json()["arrivals"] == 2


def test_offers_respect_what_is_asked(client: httpx.Client) -> None:
    """Candidates, required, excluded items, capacity, groups."""
    stocked(client, limits={"red": 1})
    one, two, three = "item 1", "item 2", "item 3"
    assert sorted(offered(client, candidates=[one, two]).json()["items"]) == [one, two]
    assert three in offered(client, required=[three]).json()["items"]
    assert not {one, two} & set(offered(client, exclude=[one, two]).json()["items"])
    assert len(offered(client, capacity=1).json()["items"]) == 1
    red = {"items": [{"id": item["id"], "group": "red"} for item in ITEMS[:4]]}
    assert client.put("/v1/shelves/teas/items", json=red).json() == {"added": 0, "changed": 4}
    shown = offered(client, candidates=[item["id"] for item in ITEMS[:5]]).json()["items"]
    assert sum(item in {each["id"] for each in ITEMS[:4]} for item in shown) == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"features": [1.0]}, "features must have length 2, got length=1"),
    ({"features": ["x", 1.0]}, "body.features.0"),
    ({"candidates": ["nobody"]}, "candidates must name items of the shelf, got 'nobody'"),
    ({"required": ["item 1"], "exclude": ["item 1"]}, "required items must be available, got 'item 1'"),
    ({"required": ["item 1", "item 1"]}, "required must name each item at most once"),
    ({"required": [f"item {n}" for n in range(4)]}, "required must name at most capacity=3 items"),
    ({"capacity": 4}, "capacity must be at most the shelf's capacity=3, got capacity=4"),
    ({"colour": "red"}, "body.colour"),
    ({"person": ""}, "body.person"),
]


def test_an_invalid_request_is_not_a_visitor(client: httpx.Client) -> None:
    """It is refused by rule and value, and no slot is taken."""
    stocked(client)
    offered(client)
    for change, message in WRONG:
        assert message in problem(offered(client, **change), 422, "invalid")
    text = '{"features": [NaN, 1]}'
    reply = client.post("/v1/shelves/teas/offers", content=text, headers={"Content-Type": "application/json"})
    assert "finite" in problem(reply, 422, "invalid")
    assert client.get("/v1/shelves/teas").json()["arrivals"] == 1
    problem(offered(client, "nowhere"), 404, "not-found")


def test_items_come_change_and_go(client: httpx.Client) -> None:
    """New ones can be shown, retired and unavailable ones cannot; a mistake in one refuses all."""
    stocked(client)
    offered(client)
    many = {"items": [{"id": f"extra {n}", "features": [1.0, 1.0], "available": n == 0} for n in range(3000)]}
    assert client.put("/v1/shelves/teas/items", json=many).json() == {"added": 3000, "changed": 0}
    assert "extra 0" in offered(client, required=["extra 0"]).json()["items"]
    assert "extra 1" in problem(offered(client, required=["extra 1"]), 422, "invalid")
    assert client.post("/v1/shelves/teas/items/retire", json={"items": ["extra 0"]}).json() == {"retired": 1}
    problem(offered(client, required=["extra 0"]), 422, "invalid")
    bad = {"items": [{"id": "fine", "features": [0.0, 0.0]}, {"id": "short", "features": [0.0]}]}
    assert "length 2" in problem(client.put("/v1/shelves/teas/items", json=bad), 422, "invalid")
    again = {"items": [{"id": "extra 0", "revenue": 2.0}]}
    assert "retired" in problem(client.put("/v1/shelves/teas/items", json=again), 422, "invalid")
    assert len(client.get("/v1/shelves/teas/items", params={"limit": 5000}).json()["items"]) == len(ITEMS) + 3000


def test_what_alters_the_guarantee_is_fixed_by_the_first_offer(client: httpx.Client) -> None:
    """Before it everything may change; after it capacity and limits may, and the refusal says why."""
    stocked(client)
    changed = {"rho": 1.0, "capacity": 2, "feature_map": "concat", "visitor_dim": 2, "window": WINDOW}
    assert client.put("/v1/shelves/teas", json=changed).json() == {"shelf": "teas", "created": False}
    offered(client)
    assert client.put("/v1/shelves/teas", json={**changed, "capacity": 1}).status_code == 200
    assert len(offered(client).json()["items"]) == 1
    reply = client.put("/v1/shelves/teas", json={**changed, "rho": 2.0, "visits": 2})
    assert "rho, visits must stay as at the first offer" in problem(reply, 409, "frozen")
    assert reply.json()["fields"] == ["rho", "visits"]


def test_policies_that_are_not_private_must_be_asked_for_explicitly(client: httpx.Client) -> None:
    """Uniform needs private: false; what is not served is refused."""
    base = {"rho": 1.0, "capacity": 2, "visitor_dim": 2, "window": 5}
    assert "private must be false" in problem(
        client.put("/v1/shelves/u", json={**base, "policy": "uniform"}), 422, "invalid"
    )
    assert client.put("/v1/shelves/u", json={**base, "policy": "uniform", "private": False}).status_code == 201
    assert "policy must be one of" in problem(
        client.put("/v1/shelves/g", json={**base, "policy": "greedy"}), 422, "invalid"
    )
    problem(client.put("/v1/shelves/q", json={**base, "private": False}), 422, "invalid")
    problem(offered(client, "u"), 409, "no-items")


def test_a_person_counts_as_often_as_allowed_and_can_be_erased(client: httpx.Client) -> None:
    """Persons are stored as keyed hashes; erased offers take no answer; nobody anonymous where visits count."""
    stocked(client, visits=2)
    problem(offered(client), 422, "invalid")
    first = offered(client, person="anna").json()
    offered(client, person="anna")
    service = client.service  # type: ignore[attr-defined]
    with service.store.read() as connection:
        rows = connection.exec_driver_sql("SELECT rows, person FROM offers ORDER BY slot").all()
        assert [row[0] is not None for row in rows] == [True, False]
        assert "anna" not in str(connection.exec_driver_sql("SELECT * FROM persons").all())
    assert client.post("/v1/shelves/teas/erasures", json={"person": "anna"}).json() == {"erased": 2}
    problem(answered(client, first["offer"], None), 409, "offer-erased")
    with service.store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM offers WHERE rows IS NOT NULL").scalar() == 0


def test_a_deleted_shelf_leaves_its_ledger(client: httpx.Client) -> None:
    """Name and visitors are gone; the promise can still be read, and a new shelf's promise adds to it."""
    stocked(client)
    offered(client)
    assert client.delete("/v1/shelves/teas").status_code == 204
    problem(offered(client), 404, "not-found")
    assert client.get("/v1/shelves/teas/privacy").json()["deleted"] is not None
    stocked(client)
    assert [shelf["deleted"] is None for shelf in client.get("/v1/privacy").json()["shelves"]] == [False, True]


def test_nonces_of_offers_are_not_numbers_of_slots(client: httpx.Client) -> None:
    """The same slot of another shelf has another nonce: an id cannot be told from where its offer stands."""
    for name in ("one", "other"):
        stocked(client, name)
        for _ in range(3):
            offered(client, name)
    with client.service.store.read() as connection:  # type: ignore[attr-defined]
        nonces = connection.exec_driver_sql("SELECT nonce FROM offers").scalars().all()
    assert len({bytes(each) for each in nonces}) == len(nonces) == 6


def test_erasure_takes_back_an_answer_that_was_given(client: httpx.Client) -> None:
    """Neither features nor contribution nor items of the person are left; who answered left no features."""
    stocked(client)
    for person in ("anna", "bert"):
        offer = offered(client, person=person).json()
        assert answered(client, offer["offer"], offer["items"][0]).status_code == 204
    assert client.post("/v1/shelves/teas/erasures", json={"person": "anna"}).json() == {"erased": 1}
    with client.service.store.read() as connection:  # type: ignore[attr-defined]
        query = "SELECT rows, contribution, items FROM offers ORDER BY slot"
        (rows, contribution, items), other = connection.exec_driver_sql(query).all()
    assert (rows, contribution, items) == (None, None, "[]")
    assert other[0] is None
    assert other[1] is not None


def test_an_id_with_another_nonce_is_no_answer(client: httpx.Client) -> None:
    """A right tag is not enough: the nonce must be that of the offer which has the slot now."""
    stocked(client)
    offer = offered(client).json()
    vault = client.service.vault  # type: ignore[attr-defined]
    ticket = vault.ticket(offer["offer"])
    problem(answered(client, vault.offer_id(ticket._replace(nonce=b"otherwise")), None), 409, "offer-expired")
    assert answered(client, offer["offer"], None).status_code == 204


def test_conversion_is_declared_once_and_sizes_the_first_batch(tmp_path: Path) -> None:
    """A share between 0 and 1, exclusive; the fewer choose, the more visitors a first batch needs."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        for wrong in (0.0, 1.0, -0.1, 3):
            assert client.put("/v1/shelves/teas", json={**SHELF, "conversion": wrong}).status_code == 422
        sizes = {None: 19, 0.5: 8, 0.03: 122}
        for number, (conversion, size) in enumerate(sizes.items()):
            stocked(client, f"shelf-{number}", conversion=conversion)
            offered(client, f"shelf-{number}")
            with client.service.store.read() as connection:  # type: ignore[attr-defined]
                where = schema.batches.c.shelf == number + 1
                assert connection.execute(sa.select(schema.batches.c.size).where(where)).scalar_one() == size
        later = client.put("/v1/shelves/shelf-0", json={**SHELF, "conversion": 0.5})
        assert (later.status_code, later.json()["fields"]) == (409, ["conversion"])
        assert client.get("/v1/shelves/shelf-2").json()["settings"]["conversion"] == 0.03
