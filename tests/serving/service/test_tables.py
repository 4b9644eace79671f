"""A shelf from a product table, over HTTP, on both databases: its schema, its items, its visitors, its names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from tests.serving.service.harness import ITEMS, SHELF, FakeClock, answered, inline, offered, stocked

from quietshelf.data.tables import Schema, category, embedding, flag, ignore, log_number, number, service_items
from quietshelf.privacy.accounting import rho_of
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.models import ItemBody
from quietshelf.serving.service.visitors.offers import OfferTransaction

TEAS = Schema(
    {
        "price": number(scale=2, centre=5),
        "kind": category(["green", "black", "herbal"]),
        "vegan": flag(missing=True),
        "name": ignore(),
    },
    {"age": number(scale=15, centre=40), "early": flag()},
    id="sku",
    revenue="margin",
    available="in stock",
    group="shelf place",
)
GIVEN = {"rho": 4.0, "capacity": 3, "window": 10.0, "conversion": 0.21, "limits": {"top": 2, "low": 3}}
ROW = {"price": 7, "kind": "black", "vegan": "yes", "margin": 2.5, "in stock": True, "shelf place": "top", "name": "x"}
NAMES = ["intercept", "price", "kind=black", "kind=herbal", "vegan", "vegan missing"]


def put(client: httpx.Client, declared: Any = TEAS, **changes: Any) -> httpx.Response:
    """The shelf of teas."""
    given = declared.to_dict() if isinstance(declared, Schema) else declared
    return client.put("/v1/shelves/teas", json={**GIVEN, "schema": given, **changes})


def put_items(client: httpx.Client, *items: dict[str, Any]) -> httpx.Response:
    return client.put("/v1/shelves/teas/items", json={"items": items})


def ask(client: httpx.Client, retry: str | None = None, **body: Any) -> httpx.Response:
    headers = {} if retry is None else {"Idempotency-Key": retry}
    return client.post("/v1/shelves/teas/offers", json=body, headers=headers)


def refused(reply: httpx.Response, words: str, status: int = 422) -> None:
    """By that status, with those words."""
    assert reply.status_code == status, reply.text
    assert words in reply.json()["detail"]


def listed(client: httpx.Client) -> dict[str, Any]:
    return {item["id"]: item for item in client.get("/v1/shelves/teas/items").json()["items"]}


def test_a_schema_settles_the_settings_that_follow_from_it(client: httpx.Client) -> None:
    """Map, length and scales come from it; what the service tells is accepted again as no change."""
    assert put(client).status_code == 201
    told = client.get("/v1/shelves/teas").json()
    settings = told["settings"]
    assert Schema.from_dict(settings["schema"]) == TEAS
    assert (settings["feature_map"], settings["visitor_dim"], settings["visitor_scale"]) == ("full", 2, [1.0, 0.5])
    assert told["names"][:8] == [*NAMES, "age", "early"]
    assert told["names"][-1] == "early:vegan missing"
    assert put(client, **{name: value for name, value in settings.items() if name != "schema"}).status_code == 200
    assert put(client, visitor_scale=[1.0, 0.5], visitor_dim=2).json() == {"shelf": "teas", "created": False}
    nobody = Schema({"price": number(scale=2)})
    assert put(client, nobody).status_code == 200  # nothing is on it, and nobody has come
    told = client.get("/v1/shelves/teas").json()
    assert (told["settings"]["feature_map"], told["settings"]["visitor_dim"]) == ("item", 0)
    assert told["names"] == ["intercept", "price"]


@pytest.mark.parametrize(
    ("declared", "changes", "words"),
    [
        ({"version": 1, "items": {"a": {"kind": "money"}}}, {}, "a must be one of number, log_number"),
        ({"version": 2, "items": {}}, {}, "the version of a schema must be 1, got version=2"),
        ({"version": 1, "items": {}, "rows": 3}, {}, "got unknown=['rows']"),
        ({"version": 1, "items": {"a": {"kind": "number"}}}, {}, "a must have its scale written out"),
        ({"version": 1, "items": {"a": {"kind": "ignore"}}}, {}, "or item_effects be set, got items=['a']"),
        ({"version": 1, "items": {"a": {"kind": "embedding", "dim": 10**12}}}, {}, "dim must be between 1 and 10000"),
        ({"version": 1, "items": {"a": {"kind": "number", "scale": 10**400}}}, {}, "a: "),
        ({"version": 1, "items": {"a": {"kind": "category", "levels": [10**400, 1.5]}}}, {}, "a: "),
        ({"version": 1, "items": {"a": {"kind": "category", "levels": ["x"] * 3}}}, {}, "levels must be different"),
        ({"version": 1, "items": {"a": {"kind": "embedding", "dim": 600}}}, {}, "1 to 512 coordinates, got"),
        ({"version": 1, "items": {"a": {"kind": "flag"}}, "visitors": {"b": {"kind": "number"}}}, {}, "never measured"),
        (["price"], {}, "schema"),
        (TEAS, {"visitor_dim": 3}, "visitor_dim must be left out, or be that of the schema, 2, got visitor_dim=3"),
        (TEAS, {"visitor_scale": 1.0}, "be that of the schema, [1.0, 0.5], got visitor_scale=1.0"),
        (TEAS, {"visitor_scale": [1.0, 0.5, 1.0]}, "got visitor_scale=[1.0, 0.5, 1.0]"),
        (TEAS, {"visitor_scale": None}, "got visitor_scale=None"),
        (TEAS, {"feature_map": "sum"}, "feature_map"),
    ],
)  # fmt: skip
def test_a_wrong_schema_is_refused(tmp_path: Path, declared: Any, changes: dict[str, Any], words: str) -> None:
    """By rule and value, and no shelf is made."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        refused(put(client, declared, **changes), words)
        assert client.get("/v1/shelves").json() == {"shelves": []}


def test_attributes_become_what_the_schema_says(client: httpx.Client) -> None:
    """Features, revenue, availability and group; fields of their own win, of known items the rest stays."""
    put(client)
    one, two = {"id": "1", "attributes": ROW}, {"id": "2", "attributes": ROW, "revenue": 9.0, "available": False}
    assert put_items(client, one, two, {"id": "3", "attributes": {}}).json() == {"added": 3, "changed": 0}
    found = listed(client)
    assert found["1"]["features"] == [1.0, 1.0, 0.0, 1.0, 0.0]
    assert [found["1"][name] for name in ("revenue", "available", "group")] == [2.5, True, "top"]
    assert [found["2"][name] for name in ("revenue", "available", "group")] == [9.0, False, "top"]
    assert found["3"]["features"] == [0.0, 0.0, 0.0, 0.0, 1.0]  # all of it missing, each in its place
    assert [found["3"][name] for name in ("revenue", "available", "group")] == [1.0, True, None]
    assert put_items(client, {"id": "1", "attributes": {"kind": "herbal"}}).json() == {"added": 0, "changed": 1}
    assert listed(client)["1"] == {**found["1"], "features": [1.0, 0.0, 1.0, 1.0, 0.0]}
    assert put_items(client, {"id": "1", "attributes": {"in stock": "no", "price": None}}).status_code == 200
    assert listed(client)["1"] == {**found["1"], "features": [0.0, 0.0, 1.0, 1.0, 0.0], "available": False}
    assert put_items(client, {"id": "4", "features": [0.0, 0.0, 0.0, 0.0, 1.0]}).status_code == 200
    assert put_items(client, {"id": "5", "attributes": {"kind": "a level nobody declared"}}).status_code == 200
    assert listed(client)["5"]["features"][1:3] == [0.0, 0.0]  # as the first one, for there is no other=True


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"attributes": {"prise": 3}}, "name, margin, in stock, shelf place), got unknown=['prise'] for item='new'"),
        ({"attributes": {"price": "dear"}}, "price must be a finite number, got price='dear' for item='new'"),
        ({"attributes": {"price": True}}, "price must be a finite number, got price=True for item='new'"),
        ({"attributes": {"price": {"EUR": 3}}}, "items.1.attributes: price: must be text, a number, true"),
        ({"attributes": {"price": 10**400}}, "price must be a finite number"),
        ({"attributes": {"kind": 1.5}}, "kind must be text or a whole number, got kind=1.5 for item='new'"),
        ({"attributes": {"kind": ["green"]}}, "items.1.attributes: kind: must be text, a number"),
        ({"attributes": {"kind": [1]}}, "kind must be text or a whole number, got kind=[1]"),
        ({"attributes": {"vegan": "maybe"}}, "vegan must be true or false, yes or no, 1 or 0, got vegan='maybe'"),
        ({"attributes": {"margin": -1}}, "margin must be a finite number from 0 on, got margin=-1 for item='new'"),
        ({"attributes": {"in stock": 7}}, "in stock must be true or false"),
        ({"attributes": {"shelf place": "cellar"}}, "one of the shelf's limits, got group='cellar' for item='new'"),
        ({"attributes": ROW, "features": [1, 0, 0, 0, 0]}, "features or attributes, got both for item='new'"),
        ({"attributes": 3}, "attributes"),
        ({"features": [1.0]}, "features must have length 5 for every item, got 1 for 'new'"),
        ({}, "features must be given for a new item, or attributes under a schema"),
    ],
)  # fmt: skip
def test_a_wrong_item_is_refused_by_rule_value_and_id(tmp_path: Path, item: dict[str, Any], words: str) -> None:
    """And none of the items that came with it is put."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        put(client)
        refused(put_items(client, {"id": "good", "attributes": ROW}, {"id": "new", **item}), words)
        assert listed(client) == {}


def test_ids_are_named_once(client: httpx.Client) -> None:
    """Twice in one request, or as another type than text."""
    put(client)
    refused(put_items(client, *[{"id": "a", "attributes": ROW}] * 2), "items must be named once each, got 'a' again")
    refused(put_items(client, {"id": 17, "attributes": ROW}), "items.0.id")


def test_attributes_need_a_schema(client: httpx.Client) -> None:
    """Items and visitors of a plain shelf have features; an item without any is told how to learn popularity."""
    stocked(client)
    refused(put_items(client, {"id": "new", "attributes": {"a": 1}}), "attributes need a shelf with a schema")
    refused(put_items(client, {"id": "new"}), '"item_effects": 100, as many as there will ever be items, got none for')
    refused(ask(client, attributes={"a": 1}), "attributes need a shelf with a schema, got attributes={'a': 1}")


def test_attributes_and_features_are_the_same_visitor(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown to a visitor with attributes rests on the features that the schema makes of them."""
    put(client)
    put_items(client, *({"id": str(n), "attributes": {**ROW, "price": n}} for n in range(4)))
    seen: list[Any] = []
    arrive = OfferTransaction._arrive

    def watched(self: OfferTransaction, named: Any, context: Any, now: float) -> Any:
        seen.append(context.features.visitor.tolist())
        return arrive(self, named, context, now)

    monkeypatch.setattr(OfferTransaction, "_arrive", watched)
    bodies: list[dict[str, Any]] = [
        {"attributes": {"age": 55, "early": "yes"}}, {"features": [1.0, 1.0]}, {"attributes": {}},
    ]  # fmt: skip
    for body in bodies:
        assert ask(client, **body).status_code == 200
    assert seen == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"attributes": {"agee": 3}}, "must be among those declared (age, early), got unknown=['agee']"),
        ({"attributes": {"age": "old"}}, "age must be a finite number, got age='old'"),
        ({"attributes": {"age": 10**400}}, "age must be a finite number"),
        ({"attributes": {"early": 3}}, "early must be true or false"),
        ({"attributes": {"age": [1]}}, "age must be a finite number"),
        ({"attributes": [1]}, "attributes"),
        ({"attributes": {"age": 3}, "features": [1.0, 1.0]}, "features or attributes, got both"),
        ({"features": [1.0]}, "features must have length 2, got length=1"),
        ({}, "attributes of the visitor must be given (age, early), got none"),
    ],
)
def test_a_wrong_visitor_is_nobody(tmp_path: Path, body: dict[str, Any], words: str) -> None:
    """R1: refused by rule and value, and no slot is taken."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        put(client)
        put_items(client, *({"id": str(n), "attributes": {**ROW, "price": n}} for n in range(4)))
        refused(ask(client, **body), words)
        assert client.get("/v1/shelves/teas").json()["arrivals"] == 0


def test_half_a_character_is_refused_everywhere(tmp_path: Path) -> None:
    """JSON can write what no text holds; a name, a level or an attribute of it is never stored or hashed."""
    half, plain = "\\ud800", {"Content-Type": "application/json", "Idempotency-Key": "one"}
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:

        def sent(method: str, path: str, body: Any) -> httpx.Response:
            return client.request(method, path, content=json.dumps(body).replace("HALF", half), headers=plain)

        odd = Schema({"kind": category(["a", "HALF"])}).to_dict()
        refused(sent("PUT", "/v1/shelves/teas", {**GIVEN, "schema": odd}), "schema must be text that UTF-8 can hold")
        put(client, Schema({"kind": category(["a", "b"])}, {"kind of visitor": category(["a", "b"])}))
        items = {"items": [{"id": "1", "attributes": {"kind": "HALF"}}]}
        refused(sent("PUT", "/v1/shelves/teas/items", items), "attributes: kind: must be text that UTF-8 can hold")
        put_items(client, {"id": "1", "attributes": {"kind": "b"}})
        asked = {"attributes": {"kind of visitor": "HALF"}}
        refused(sent("POST", "/v1/shelves/teas/offers", asked), "must be text that UTF-8 can hold")


def test_a_retry_with_other_attributes_is_refused(client: httpx.Client) -> None:
    """The same attributes get the stored offer."""
    put(client)
    put_items(client, *({"id": str(n), "attributes": {**ROW, "price": n}} for n in range(4)))
    first = ask(client, "one", attributes={"age": 3}).json()
    assert ask(client, "one", attributes={"age": 3}).json() == first
    refused(ask(client, "one", attributes={"age": 4}), "must come with the same request")
    assert client.get("/v1/shelves/teas").json()["arrivals"] == 1


def test_requests_without_attributes_have_the_fingerprint_they_had(client: httpx.Client) -> None:
    """A key that was used before there were attributes still gets its offer."""
    stocked(client)
    offered(client, retry="one", person="anna")
    service = client.service  # type: ignore[attr-defined]
    with service.store.read() as connection:
        kept = connection.execute(sa.select(schema.retries.c.fingerprint)).scalar_one()
    body = b'{"features":[0.1,-0.2],"person":"anna","candidates":null,"required":[],"exclude":[],"capacity":null}'
    assert kept == service.vault.fingerprint(body)


def test_the_first_offer_freezes_the_schema_and_leaves_fill_free(client: httpx.Client) -> None:
    """Once items are there, the schema that made their features stays; after an offer, by another name."""
    put(client)
    put_items(client, *({"id": str(n), "attributes": {**ROW, "price": n}} for n in range(4)))
    other = Schema({**TEAS.items, "price": number(scale=3, centre=5)}, TEAS.visitors, "sku", "margin", "in stock")
    refused(put(client, other), "schema must stay as it was when items were added")
    assert ask(client, attributes={}).status_code == 200
    refused(put(client, other), "schema must stay as at the first offer", 409)
    said = Schema(
        {**TEAS.items, "name": ignore("for people")}, TEAS.visitors, "sku", "margin", "in stock", "shelf place"
    )
    assert put(client, said).status_code == 200  # declares the same
    assert put(client, fill=True).status_code == 200
    assert client.get("/v1/shelves/teas").json()["settings"]["fill"] is True


def test_fill_shows_as_many_items_as_may_be(client: httpx.Client) -> None:
    """One item earns far more than the others: by default it is shown alone."""
    stocked(client, conversion=0.9)
    dear = [{"id": item["id"], "revenue": 1e6 if item["id"] == "item 0" else 1e-6} for item in ITEMS]
    assert put_items(client, *dear).status_code == 200
    assert offered(client).json()["items"] == ["item 0"]
    assert client.get("/shelves/teas", params={"format": "json"}).json()["shown"]["ever_shown"] == 1
    assert client.put("/v1/shelves/teas", json={**SHELF, "conversion": 0.9, "fill": True}).status_code == 200
    assert len(offered(client).json()["items"]) == 3
    assert client.get("/shelves/teas", params={"format": "json"}).json()["shown"]["ever_shown"] >= 3


def test_epsilon_and_delta_are_kept_as_rho(client: httpx.Client) -> None:
    """Converted once; half a promise, two of them and one out of bounds are refused."""
    plain = {"capacity": 3, "window": 10.0, "feature_map": "item"}

    def told(**promise: Any) -> httpx.Response:
        return client.put("/v1/shelves/teas", json={**plain, **promise})

    refused(told(), "give rho, or epsilon and delta together, got rho=None, epsilon=None, delta=None")
    refused(told(epsilon=1.0), "give rho, or epsilon and delta together")
    refused(told(rho=1.0, epsilon=1.0, delta=1e-6), "give rho, or epsilon and delta together")
    refused(told(epsilon=1.0, delta=1.0), "delta")
    refused(told(epsilon=1e-5, delta=1e-6), "rho must be between 1e-06 and 1e+06, got rho=")
    assert told(epsilon=2.0, delta=1e-6).status_code == 201
    settings = client.get("/v1/shelves/teas").json()["settings"]
    assert settings["rho"] == rho_of(2.0, 1e-6)
    assert "epsilon" not in settings
    assert told(rho=settings["rho"]).status_code == 200
    assert client.get("/v1/shelves/teas").json()["number"] == 1


def test_names_are_told_wherever_numbers_are(client: httpx.Client, clock: FakeClock) -> None:
    """Releases, the shelf and its page; after the shelf is deleted as well."""
    put(client, Schema({"strength": number(scale=1)}, {"early": flag()}), rho=100.0, conversion=0.9)
    put_items(client, *({"id": str(n), "attributes": {"strength": n}} for n in range(4)))
    names = ["intercept", "strength", "early", "early:strength"]
    for count in range(60):
        offer = ask(client, attributes={"early": count % 2}).json()
        answered(client, offer["offer"], offer["items"][0])
        if offer["release"]:
            break
        clock.time += 1
    (release, *_) = client.get("/v1/shelves/teas/releases").json()["releases"]
    assert release["names"] == names
    assert len(release["theta"]) == 4

    def shown() -> list[str]:
        page = client.get("/shelves/teas", params={"format": "json"}).json()
        assert {name for each in page["health"]["directions"] for name in each["mostly"]} <= set(names)
        return [each["name"] for each in page["tastes"]]

    assert shown() == client.get("/v1/shelves/teas").json()["names"] == names
    assert client.delete("/v1/shelves/teas").status_code == 204
    assert shown() == client.get("/v1/shelves/teas").json()["names"] == names


def test_popularity_is_learned_of_ids_alone(client: httpx.Client, clock: FakeClock) -> None:
    """Items without features; places are reserved for those to come, and one that is chosen often is found."""
    plain = {"rho": 100.0, "capacity": 2, "window": 10.0, "conversion": 0.9, "item_effects": 5}
    ids = {**plain, "feature_map": "item", "intercept": False}
    assert client.put("/v1/shelves/teas", json=ids).status_code == 201
    assert put_items(client, *({"id": f"tea {n}"} for n in range(4))).json() == {"added": 4, "changed": 0}
    names = [*(f"tea {n}" for n in range(4)), "free place 5"]
    assert client.get("/v1/shelves/teas").json()["names"] == names
    for _ in range(120):
        offer = ask(client).json()
        answered(client, offer["offer"], "tea 2" if "tea 2" in offer["items"] else None)
        clock.time += 1
    last = client.get("/v1/shelves/teas/releases").json()["releases"][-1]
    assert last["names"] == names
    assert names[int(np.argmax(last["theta"]))] == "tea 2"
    full = put_items(client, {"id": "tea 4"}, {"id": "tea 5"})
    assert full.status_code == 422
    assert "items without features must fit the 5 places that item_effects reserves, got items=6" in full.text
    assert put_items(client, {"id": "tea 4"}).status_code == 200
    assert ask(client, required=["tea 4"]).status_code == 200
    page = client.get("/shelves/teas", params={"format": "json"}).json()
    assert [each["name"] for each in page["tastes"]] == [f"tea {n}" for n in range(5)]
    refused(put_items(client, {"id": "x", "features": [1.0]}), "features must have length 0 for every item")
    refused(client.put("/v1/shelves/teas", json={**ids, "item_effects": 6}), "item_effects must stay", 409)


def test_effects_stand_beside_what_a_schema_says(client: httpx.Client) -> None:
    """By their names; an item still needs its attributes, and there are as many coordinates as elsewhere."""
    assert put(client, Schema({"price": number(scale=2)}), item_effects=3).status_code == 201
    refused(put_items(client, {"id": "a"}), "features must be given for a new item")
    put_items(client, {"id": "a", "attributes": {"price": 3}}, {"id": "b", "attributes": {"price": 4}})
    names = ["intercept", "price", "effect of a", "effect of b", "free place 3"]
    assert client.get("/v1/shelves/teas").json()["names"] == names
    assert ask(client).status_code == 200
    page = client.get("/shelves/teas", params={"format": "json"}).json()
    assert [each["name"] for each in page["tastes"]] == names
    refused(
        put(client, Schema({"price": number(scale=2)}), item_effects=511), "1 to 512 coordinates, got coordinates=513"
    )


def test_a_table_as_the_service_takes_it() -> None:
    """Every kind of cell as JSON holds it; the encoding at the service is that of the schema itself."""
    from quietshelf.serving.service.catalogue.described import encoded

    kinds = Schema({"price": log_number(scale=1), "style": embedding(2), **TEAS.items}, id="sku", available="on")
    rows: list[dict[str, Any]] = [
        {"sku": 7, "price": "2.5", "style": "[0.5, 1]", "kind": "black", "vegan": "no", "name": object(), "on": 1},
        {"sku": "8", "price": None, "style": np.ones(2), "kind": float("nan"), "vegan": np.True_, "name": 3, "on": ""},
    ]
    found = service_items(rows, kinds)
    assert found[0]["attributes"] == {"price": 2.5, "style": [0.5, 1.0], "kind": "black", "vegan": False, "on": True}
    assert [item["id"] for item in found] == ["7", "8"]
    assert "name" not in found[1]["attributes"]
    made = [encoded(kinds, ItemBody.model_validate(item), None).features for item in found]
    np.testing.assert_array_equal(np.array(made), kinds.products(rows).features)
    with pytest.raises(ValueError, match=r"different in every row as text, got sku='8' again in row 1"):
        service_items([{**rows[1], "sku": 8}, rows[1]], kinds)
    with pytest.raises(ValueError, match=r"price must be a finite number, got price='x' in row 0"):
        service_items([{**rows[0], "price": "x"}], kinds)
