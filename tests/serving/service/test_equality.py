"""The service and `Shelf` are the same mathematics: the same visitors give the same numbers, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.serving.service.harness import WINDOW, FakeClock, answered, inline, offered, passed

from quietshelf import Shelf
from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import DiscreteGaussian, NoiseSource, Simulated
from quietshelf.serving.service.catalogue.views import look, shelf_row
from quietshelf.serving.service.database import learning
from quietshelf.serving.service.releases import verify
from quietshelf.serving.shelf.testing import copied

N, VISITORS = 12, 150
COINS = Coins(b"ties fall the same way in both")
CATALOGUE = np.random.default_rng(5).normal(size=(N, 2))


def twin(source: NoiseSource, **options: Any) -> Shelf:
    """The embedded shelf."""
    shelf = Shelf(catalogue=CATALOGUE, feature_map="concat", visitor_scale=[1.0, 2.0], capacity=3, rho=4.0, **options)
    return copied(shelf, source=source, coins=COINS)


def served(client: httpx.Client, **options: Any) -> None:
    """The same shelf in the service."""
    settings = {"rho": 4.0, "capacity": 3, "feature_map": "concat", "visitor_scale": [1.0, 2.0], "window": WINDOW}
    assert client.put("/v1/shelves/teas", json={**settings, **options}).status_code == 201
    items = [{"id": str(n), "features": row} for n, row in enumerate(CATALOGUE.tolist())]
    client.put("/v1/shelves/teas/items", json={"items": items})


@pytest.mark.parametrize(
    ("on_no_answer", "visits", "policy", "drift"),
    [
        ("no-choice", 1, "quiet", {}),
        ("zero", 2, "quiet", {}),
        ("no-choice", 1, "uniform", {}),
        ("no-choice", 1, "quiet", {"max_batch": 20, "forgetting": 0.7}),
    ],
)
def test_the_same_visitors_give_the_same_offers_estimates_and_ledger(
    database: str, tmp_path: Path, on_no_answer: str, visits: int, policy: str, drift: dict[str, Any]
) -> None:
    """Sequential visitors, some silent, some returning, with injected noise and ties: equal bit for bit."""
    rng, clock = np.random.default_rng(9), FakeClock()
    options = {"on_no_answer": on_no_answer, "visits": visits, "policy": policy, **drift}
    shelf = twin(Simulated(np.random.default_rng(1)), **options)
    source = Simulated(np.random.default_rng(1))
    with inline(database, tmp_path, source=source, coins=lambda _: COINS, clock=clock) as client:
        served(client, **options, private=policy == "quiet")
        for visitor in range(VISITORS):
            passed(client, clock, WINDOW)  # a full batch is due at the next arrival, as with wait_arrivals=0
            features = rng.normal(size=2).tolist()
            person = None if visits == 1 else f"person {rng.integers(60)}"
            mine, theirs = (
                shelf.offer(features, person=person),
                offered(client, features=features, person=person).json(),
            )
            assert [int(item) for item in theirs["items"]] == list(mine.items), visitor
            assert theirs["release"] == mine.release
            picked = int(rng.integers(-1, 3))
            if rng.random() < 0.7:
                item = None if picked < 0 else mine.items[picked]
                shelf.choose(mine.id, item)
                assert answered(client, theirs["offer"], None if item is None else str(item)).status_code == 204
        assert mine.release >= 2
        promise, reply = shelf.privacy(), client.get("/v1/shelves/teas/privacy").json()
        assert (promise.rho, promise.epsilon, promise.unit) == (reply["rho"], reply["epsilon"], reply["unit"])
        assert [event.to_dict() for event in promise.events] == reply["events"]
        latest = client.get("/v1/shelves/teas/releases").json()["releases"][-1]
        np.testing.assert_array_equal(latest["theta"], shelf.estimate().theta)
        np.testing.assert_array_equal(latest["precision"], shelf.estimate().precision)
        sizes = [record.size for record in shelf.learner.records] if shelf.learner else []
        assert max(sizes) == drift.get("max_batch", max(sizes))
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert verify.verify(connection, shelf_row(connection, "teas")) == []


def test_an_exact_source_can_be_injected_and_its_ledger_reads_infinite(tmp_path: Path) -> None:
    """No setting names it; when a test passes it in, the service owns up."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, source=Noiseless(), clock=clock) as client:
        served(client)
        for _ in range(25):
            passed(client, clock, WINDOW)
            offered(client)
        reply = client.get("/v1/shelves/teas/privacy").json()
        assert reply["rho"] == "infinity"
        assert "No privacy is promised" in reply["words"]
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert verify.verify(connection, shelf_row(connection, "teas")) == []


def test_the_service_draws_exact_discrete_noise_by_default(tmp_path: Path) -> None:
    """A service made the ordinary way draws on a grid from the operating system, and sums what was rounded to it."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        service = client.service  # type: ignore[attr-defined]
        assert isinstance(service.source, DiscreteGaussian)
        served(client)
        for _ in range(25):
            passed(client, clock, WINDOW)
            offer = offered(client).json()
            answered(client, offer["offer"], offer["items"][0])
        with service.store.read() as connection:
            view = look(connection, shelf_row(connection, "teas"))
            (row, *_) = learning.release_rows(connection, view.shelf)
        score = learning.unpacked(row["score"], -1)
        np.testing.assert_array_equal(score, np.round(score / service.source.grid) * service.source.grid)
        assert {event["assumption"] for event in client.get("/v1/shelves/teas/privacy").json()["events"]} == {
            "exact-grid"
        }
