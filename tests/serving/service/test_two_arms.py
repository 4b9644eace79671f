"""A shelf of the service beside the shop's present ranking: who serves whom, what is released, compared and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from tests.cli.command import command
from tests.serving.service.harness import FakeClock, inline

from quietshelf.serving.service import queries
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases import verify

SHELF = {"rho": 40.0, "capacity": 2, "feature_map": "item", "window": 10.0, "conversion": 0.15}
ITEMS = [{"id": name, "features": np.eye(4)[n].tolist(), "rank": n} for n, name in enumerate("dcba")]
FIRST_TWO = ["d", "c"]


def stocked(client: httpx.Client, **settings: Any) -> None:
    """Four items with ranks."""
    assert client.put("/v1/shelves/teas", json={**SHELF, **settings}).status_code == 201
    assert client.put("/v1/shelves/teas/items", json={"items": ITEMS}).is_success


def offered(client: httpx.Client, **body: Any) -> dict[str, Any]:
    reply = client.post("/v1/shelves/teas/offers", json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def batch(client: httpx.Client, clock: FakeClock, *, buys: str | None = None) -> None:
    """Fill the open batch; whoever sees that item buys it; then wait for the release."""
    before = client.get("/v1/shelves/teas").json()["releases"]
    store = client.service.store  # type: ignore[attr-defined]
    while True:
        offer = offered(client)
        item = buys if buys in offer["items"] else None
        assert client.post(f"/v1/offers/{offer['offer']}/choice", json={"item": item}).status_code == 204
        with store.read() as connection:
            row = connection.execute(sa.select(schema.batches)).mappings().one()
        if row["taken"] == row["size"]:
            break
    clock.time += 11.0
    while client.get("/v1/shelves/teas").json()["releases"] == before:
        pass


def test_an_apprentice_serves_the_rank_of_items_and_learns(database: str, tmp_path: Path) -> None:
    """Everybody sees the first two by rank, or those of the request's own ranking; then a share takes over."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client, learned_share=0.0)
        assert offered(client)["items"] == FIRST_TWO
        assert offered(client, exclude=["d"])["items"] == ["c", "b"]
        assert offered(client, ranking=["a", "c"])["items"] == ["a", "c"]
        client.put("/v1/shelves/teas/items", json={"items": [{"id": "c", "revenue": 2.0}]})
        assert offered(client)["items"] == FIRST_TWO  # what is left out stays as it is
        client.put("/v1/shelves/teas/items", json={"items": [{"id": "c", "rank": None}]})
        assert offered(client)["items"] == ["d", "b"]
        batch(client, clock, buys="d")
        assert client.get("/v1/shelves/teas").json()["releases"] == 1
        client.put("/v1/shelves/teas/items", json={"items": [{"id": "new", "features": [1.0, 0.0, 0.0, 0.0]}]})
        assert offered(client, candidates=["new"])["items"] == []  # it has no rank
        changed = client.put("/v1/shelves/teas", json={**SHELF, "learned_share": 1.0})
        assert changed.status_code == 200
        assert offered(client, candidates=["new"])["items"] == ["new"]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"ranking": ["z"]}, "ranking must name items of the shelf, got 'z'"),
        ({"ranking": ["a", "a"]}, "ranking must name each item at most once, got 'a' again"),
        ({"ranking": []}, "ranking"),
    ],
)
def test_a_wrong_ranking_is_refused(body: dict[str, Any], rule: str, tmp_path: Path) -> None:
    """Rule and value; nobody has come."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client, learned_share=0.5)
        reply = client.post("/v1/shelves/teas/offers", json=body)
        assert reply.status_code == 422
        assert rule in reply.text
        assert client.get("/v1/shelves/teas").json()["arrivals"] == 0


def test_without_any_rank_an_offer_needs_a_ranking(tmp_path: Path) -> None:
    """Whoever would be served by it."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        client.put("/v1/shelves/teas", json={**SHELF, "learned_share": 0.9})
        bare = [{name: item[name] for name in ("id", "features")} for item in ITEMS]
        client.put("/v1/shelves/teas/items", json={"items": bare})
        reply = client.post("/v1/shelves/teas/offers", json={})
        assert "ranking must be given with each offer, or once for the shelf" in reply.text
        assert offered(client, ranking=["a"])["offer"]


def test_two_arms_are_compared_and_it_costs_what_was_promised(database: str, tmp_path: Path) -> None:
    """Counts by slots, sums with noise, two events per release within one budget; everything verifies."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client, learned_share=0.5, comparison=0.25, most_revenue=5.0)
        for _ in range(3):
            batch(client, clock, buys="a")
        found = client.get("/v1/shelves/teas/comparison").json()
        assert found["batches"] == 3
        released = client.get("/v1/shelves/teas/releases").json()["releases"]
        assert sum(found["visitors"].values()) == sum(each["visitors"] for each in released)
        assert len(found["differences"]["revenue"]) == 3
        assert found["verdict"]
        privacy = client.get("/v1/shelves/teas/privacy").json()
        assert privacy["rho"] <= 40.0
        assert [event["name"] for event in privacy["events"]] == ["pair", "comparison"] * 3
        store = client.service.store  # type: ignore[attr-defined]
        with store.read() as connection:
            row = queries.latest_row(connection, "teas")
            assert list(verify.verify(connection, row)) == []
        page = client.get("/shelves/teas", headers={"Accept": "text/html"})
        assert page.status_code in (200, 303)


def test_the_guard_takes_a_poorer_policy_off(tmp_path: Path) -> None:
    """A release that says so, beyond doubt: everybody sees the present ranking, and everything says why."""
    database = f"sqlite:///{tmp_path}/shop.db"
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client, learned_share=1.0, comparison=0.25, most_revenue=1.0)
        batch(client, clock)
        poor = np.array([[100.0, 100.0], [3000.0, 3000.0]])
        told = {"learned": 10_000, "present": 10_000, "outcomes": poor.tobytes(), "arms_scale": 1.0}
        with client.service.store.write() as connection:  # type: ignore[attr-defined]
            connection.execute(sa.update(schema.releases).values(told))
            connection.execute(sa.update(schema.shelves).values(config_version=schema.shelves.c.config_version + 1))
        assert {tuple(offered(client)["items"]) for _ in range(12)} == {tuple(FIRST_TWO)}
        found = client.get("/v1/shelves/teas/comparison").json()
        assert found["fallen_back"]
        assert found["verdict"].startswith("the learned policy earns less")
        free = client.put("/v1/shelves/teas", json={**SHELF, "comparison": 0.25, "guard": False})
        assert free.status_code == 200
        assert not client.get("/v1/shelves/teas/comparison").json()["fallen_back"]
        fixed = client.put("/v1/shelves/teas", json={**SHELF, "comparison": 0.5})
        assert fixed.status_code == 409
        assert "comparison must stay as at the first offer" in fixed.text
    flags = ["--database", database, "--secrets", str(tmp_path / "secrets")]
    shown = command("compare", "teas", *flags)
    assert shown.returncode == 0, shown.stderr
    assert "The learned policy earns less than the present ranking" in shown.stdout
    assert "hold for all looks together" in shown.stdout
    assert json.loads(command("compare", "teas", *flags, "--json").stdout)["visitors"]["present"] == 10_000
    missing = command("compare", "coffees", *flags)
    assert missing.returncode == 2
    assert "shelf must exist" in missing.stderr
