"""A shelf of the service that starts from a log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.curation.priors import not_private, prior
from tests.serving.service.backups import copied, put_back
from tests.serving.service.harness import FakeClock, inline, problem

from quietshelf.curation.prior_file import PriorFile
from quietshelf.privacy.accounting import epsilon_of

SHELF = {"rho": 1.0, "capacity": 2, "feature_map": "concat", "visitor_dim": 1, "window": 10.0}
ITEMS = [{"id": f"{price}", "features": [(price - 120) / 40]} for price in (80, 100, 120, 150, 180)]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as found:
        yield found


def put(client: httpx.Client, **changes: Any) -> httpx.Response:
    """The settings, with a prior."""
    return client.put("/v1/shelves/hotels", json={**SHELF, "prior": prior().to_dict(), **changes})


def test_first_offers_rest_on_the_log_and_its_cost_is_in_the_promise(client: httpx.Client) -> None:
    """The cheapest two; rho of the log from the first visitor on, on the API, in the ledger and on the page."""
    assert put(client).status_code == 201
    assert client.put("/v1/shelves/hotels/items", json={"items": ITEMS}).status_code == 200
    offer = client.post("/v1/shelves/hotels/offers", json={"features": [0.1], "person": "anna"}).json()
    assert set(offer["items"]) == {"80", "100"}
    found = client.get("/v1/shelves/hotels/privacy").json()
    assert (found["rho"], found["budget"], found["unit"]) == (0.75, 1.75, "person")
    assert "whose fit cost rho = 0.75 to each person" in found["words"]
    assert [event["batch"] for event in found["events"]] == ["log"]
    assert client.get("/v1/privacy").json()["rho"] == 0.75
    page = client.get("/shelves/hotels/privacy?format=json").json()
    assert page["promise"]["limit"] == 1.75
    assert page["promise"]["per_release"] == 1.0
    assert "and for the log behind the prior" in client.get("/shelves/hotels/privacy").text
    client.delete("/v1/shelves/hotels")
    assert client.get("/v1/shelves/hotels/privacy").json()["rho"] == 0.75


def test_a_prior_that_is_not_private_needs_private_false(client: httpx.Client) -> None:
    """And then nothing is promised; a private one beside private=false is a mistake."""
    given = not_private().to_dict()
    assert "this prior is not private" in problem(put(client, prior=given), 422, "invalid")
    assert "private must be true" in problem(put(client, private=False), 422, "invalid")
    assert put(client, prior=given, private=False).status_code == 201
    assert "No privacy is promised" in client.get("/v1/shelves/hotels/privacy").json()["words"]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"prior": {**prior().to_dict(), "version": 7}}, "version of a prior must be 1, got version=7"),
        ({"prior": {"theta": [1.0]}}, "a prior must be of the kind 'quietshelf prior', got kind=None"),
        ({"feature_map": "item"}, "feature_map must be that of the prior, concat, got feature_map='item'"),
        ({"visitor_dim": 3}, "visitor_dim must be 1, because the prior has visitor_age, got visitor_dim=3"),
        ({"visitor_scale": 2.0}, "visitor_scale must be 1 with this prior"),
    ],
)
def test_a_prior_of_other_features_is_refused_with_the_settings(
    client: httpx.Client, changes: dict[str, Any], rule: str
) -> None:
    """By rule and value, before anybody comes."""
    assert rule in problem(put(client, **changes), 422, "invalid")


def test_items_that_the_prior_does_not_know_are_refused_when_they_are_put(client: httpx.Client) -> None:
    """Of another length always; in other units when the first ones come."""
    put(client)

    def refused(*features: list[float]) -> str:
        items = [{"id": str(n), "features": each} for n, each in enumerate(features)]
        return problem(client.put("/v1/shelves/hotels/items", json={"items": items}), 422, "invalid")

    assert "items must have 1 features, because the prior has price, got features=2" in refused([0.0, 1.0])
    assert "items must be in the prior's units, (price - 120) / 40" in refused([80.0], [100.0])
    assert client.put("/v1/shelves/hotels/items", json={"items": ITEMS}).status_code == 200
    dear = {"items": [{"id": "palace", "features": [12.0]}]}
    assert client.put("/v1/shelves/hotels/items", json=dear).status_code == 200


def test_an_epsilon_is_kept_for_somebody_in_the_log_too(client: httpx.Client) -> None:
    """As for `Shelf`; the same settings again are the same shelf."""
    promised = {"rho": None, "epsilon": 7.0, "delta": 1e-6}
    assert put(client, **promised).status_code == 201
    assert put(client, **promised).status_code == 200
    budget = client.get("/v1/shelves/hotels/privacy").json()["budget"]
    assert 6.999 < epsilon_of(budget, 1e-6) <= 7.0
    found = problem(put(client, **{**promised, "epsilon": 6.0}), 422, "invalid")
    assert "epsilon must be above" in found
    assert "what the log behind the prior costs" in found


def test_a_shelf_whose_prior_was_lost_says_what_to_do(tmp_path: Path) -> None:
    """The backup knew the shelf and not its prior: of that only the cost is left."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    body, lost = {"features": [0.1], "person": "anna"}, "the content of this shelf's prior was lost with the backup"
    with inline(database, tmp_path, clock=clock) as client:
        put(client, prior=None)
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        put(client)
        client.put("/v1/shelves/hotels/items", json={"items": ITEMS})
        assert client.post("/v1/shelves/hotels/offers", json=body).status_code == 200
    put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        found = problem(client.put("/v1/shelves/hotels/items", json={"items": ITEMS}), 422, "invalid")
        assert f"{lost}: delete this shelf and create it again" in found
        assert client.delete("/v1/shelves/hotels").status_code in (200, 204)
        assert put(client).status_code == 201
        assert client.put("/v1/shelves/hotels/items", json={"items": ITEMS}).status_code == 200
        assert client.post("/v1/shelves/hotels/offers", json=body).status_code == 200


@pytest.mark.parametrize("given", [prior(), not_private()])
@pytest.mark.parametrize("when", ["before the shelf", "before its prior", "after"])
def test_a_restored_backup_does_not_forget_the_log(tmp_path: Path, given: PriorFile, when: str) -> None:
    """Whatever the backup knows of it: what the log cost stays in the promise."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    settings = {"prior": given.to_dict(), "private": given.private}
    with inline(database, tmp_path, clock=clock) as client:
        if when == "before its prior":
            put(client, prior=None)
        elif when == "after":
            put(client, **settings)
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        put(client, **settings)
        client.put("/v1/shelves/hotels/items", json={"items": ITEMS})
        body = {"features": [0.1], "person": "anna"}
        assert client.post("/v1/shelves/hotels/offers", json=body).status_code == 200
    put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        found = client.get("/v1/shelves/hotels/privacy").json()
        assert found["events"][0]["batch"] == "log"
        assert found["rho"] == (1.75 if given.private else "infinity")  # and a release that nobody may remember
