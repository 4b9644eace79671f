"""A second PUT of a shelf: what is left out stays, and nothing that a promise or a proof rests on slips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.curation.priors import prior as a_prior
from tests.serving.service.harness import inline

SHELF = {"rho": 1.0, "capacity": 2, "window": 10.0}
IDS = {**SHELF, "feature_map": "item", "intercept": False, "item_effects": 10}
COLUMNS = {
    "version": 1,
    "items": {"price": {"kind": "number", "scale": 2.0, "centre": 5.0}},
    "visitors": {"age": {"kind": "number", "scale": 15.0, "centre": 40.0}},
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """A service on SQLite."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as found:
        yield found


def put(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.put("/v1/shelves/teas", json=body)


def settings(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/shelves/teas").json()["settings"]
    return found


def test_what_is_left_out_stays(client: httpx.Client) -> None:
    """A share of visitors that was set is not given up because the capacity changes."""
    assert put(client, **SHELF, feature_map="item", learned_share=0.3, fill=True).status_code == 201
    assert put(client, capacity=3, window=10.0).status_code == 200
    kept = settings(client)
    assert (kept["learned_share"], kept["fill"], kept["rho"], kept["capacity"]) == (0.3, True, 1.0, 3)


def test_a_prior_that_comes_later_needs_the_promise_again(client: httpx.Client) -> None:
    """An epsilon is kept as rho: nobody knows any more that it was to hold for the sum."""
    plain = {"capacity": 2, "window": 10.0}
    prior = a_prior()
    shape = {"feature_map": prior.feature_map, "visitor_dim": len(prior.visitor_names)}
    assert put(client, **plain, **shape, epsilon=20, delta=1e-6).status_code == 201
    refused = put(client, **plain, prior=prior.to_dict())
    assert refused.status_code == 422
    assert "rho, or epsilon and delta, must be given with a new prior" in refused.text
    assert put(client, **plain, epsilon=20, delta=1e-6, prior=prior.to_dict()).status_code == 200
    assert client.get("/v1/shelves/teas/privacy").json()["budget"] < 6


def test_a_capacity_stays_within_what_rounding_is_proven_for(client: httpx.Client) -> None:
    """After the first offer too, when it may still change."""
    assert put(client, **SHELF, feature_map="item").status_code == 201
    refused = put(client, capacity=3000, window=10.0)
    assert refused.status_code == 422
    assert "capacity must be at most 1198, up to which rounding is proven, got capacity=3000" in refused.text


def test_places_are_not_taken_from_items_that_have_nothing_else(client: httpx.Client) -> None:
    """They would stand at utility 0, and no item could be changed any more."""
    assert put(client, **IDS).status_code == 201
    items = {"items": [{"id": str(n)} for n in range(5)]}
    assert client.put("/v1/shelves/teas/items", json=items).is_success
    for places in (2, 0):
        refused = put(client, **SHELF, item_effects=places)
        assert refused.status_code == 422, places
    assert put(client, **SHELF, item_effects=5).status_code == 200


def test_the_same_schema_again_decides_nothing_anew(client: httpx.Client) -> None:
    """The map that was chosen stays, before the first offer and after it."""
    assert put(client, **SHELF, schema=COLUMNS, feature_map="concat").status_code == 201
    assert put(client, **SHELF, schema=COLUMNS).status_code == 200
    assert settings(client)["feature_map"] == "concat"
    items = {"items": [{"id": str(n), "attributes": {"price": 3.0 + n}} for n in range(3)]}
    assert client.put("/v1/shelves/teas/items", json=items).is_success
    assert client.post("/v1/shelves/teas/offers", json={"attributes": {"age": 30}}).is_success
    assert put(client, **SHELF, schema=COLUMNS).status_code == 200
