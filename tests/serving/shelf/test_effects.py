"""Item effects: a bestseller is found, a new product starts where its features put it, ids alone are learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serving.shelf.shops import rows_of, shop

from quietshelf import Shelf
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.noise import Simulated

ITEMS, SHOWN = 24, 3
CATALOGUE = np.random.default_rng(11).normal(size=(ITEMS, 2))
TASTES = np.array([0.8, -0.5])
BESTSELLERS = (4, 17)
IDS: dict[str, Any] = {"catalogue": np.zeros((ITEMS, 0)), "feature_map": "item", "intercept": False}


def truth() -> FloatArray:
    """Utilities: what features say, and two items that sell far beyond it though their features are dull."""
    utility: FloatArray = CATALOGUE @ TASTES - 2.0
    utility[list(BESTSELLERS)] = 0.5
    return utility


def value(utility: FloatArray) -> float:
    """Chance that one of these items is chosen."""
    return float(np.exp(utility).sum() / (1.0 + np.exp(utility).sum()))


def regret(shelf: Shelf, visitors: int, seed: int) -> float:
    """Sales that so many visitors who choose by `truth` lose to the best offer."""
    rng, utility = np.random.default_rng(seed), truth()
    best, lost = value(np.sort(utility)[-SHOWN:]), 0.0
    for _ in range(visitors):
        offer = shelf.offer()
        weight = np.exp(utility[list(offer.items)])
        place = int((np.cumsum(weight) / (1.0 + weight.sum()) <= rng.random()).sum())
        shelf.choose(offer.id, offer.items[place] if place < len(offer.items) else None)
        lost += best - value(utility[list(offer.items)])
    return lost


def with_effects(seed: int = 0, **options: Any) -> Shelf:
    terms: dict[str, Any] = {
        "catalogue": CATALOGUE,
        "feature_map": "item",
        "capacity": SHOWN,
        "item_effects": True,
    } | options
    return shop(seed=seed, **terms)


def test_bestsellers_are_found() -> None:
    """1,500 visitors, three seeds of noise: with effects the loss is at most two thirds of that without."""
    on, off = (
        sum(regret(with_effects(seed, item_effects=given), 1500, seed) for seed in range(3)) for given in (True, False)
    )
    assert on < 2 / 3 * off


def test_popularity_is_learned_by_ids_alone() -> None:
    """Nothing is known of items but which they are: at most half of what random offers lose."""
    learned, chance = (
        sum(
            regret(shop(seed=seed, capacity=SHOWN, item_effects=True, policy=policy, **IDS), 1500, seed)
            for seed in range(2)
        )
        for policy in ("quiet", "uniform")
    )
    assert learned < 0.5 * chance


def test_a_new_product_starts_where_its_features_put_it() -> None:
    """Its effect is 0 but for noise, and no other is more doubtful; without a place left it has none at all."""
    shelf = with_effects(item_effects=ITEMS + 1)
    regret(shelf, 1500, 0)
    first, second = shelf.add([[1.0, 0.0], [1.0, 0.0]])
    learner = shelf.learner
    assert learner is not None
    release = learner.release
    offer = shelf.offer(candidates=[first, second], required=[first, second])
    rows = rows_of(shelf, offer.id)[np.argsort(offer.items)]
    dim = 3
    assert rows.shape == (2, dim + ITEMS + 1)
    np.testing.assert_array_equal(rows[:, :dim], [[1.0, 1.0, 0.0]] * 2)
    np.testing.assert_array_equal(rows[0, dim:], np.eye(ITEMS + 1)[-1])
    np.testing.assert_array_equal(rows[1, dim:], 0.0)
    error = np.sqrt(np.diag(release.covariance))
    assert error[-1] == pytest.approx(error[dim:].max(), rel=0.02)
    assert abs(release.theta[-1]) < error[-1] / 4  # noise: nobody has seen it
    assert set(np.argsort(release.theta[dim:])[-2:]) == set(BESTSELLERS)


def test_a_new_id_starts_at_the_level_of_all() -> None:
    """Its place was reserved: not at utility 0, which would beat everything where few buy."""
    shelf = shop(capacity=SHOWN, item_effects=ITEMS + 2, **IDS)
    shelf.offer()
    learner = shelf.learner
    assert learner is not None
    np.testing.assert_allclose(learner.release.theta, learner.release.theta[0])
    assert learner.release.theta[0] < -1.0
    assert shelf.add(np.zeros((2, 0))) == [ITEMS, ITEMS + 1]


def test_a_shelf_with_effects_goes_on_from_a_file(tmp_path: Path) -> None:
    """The same prior to the last bit, and it goes on learning and taking items."""
    shelf = with_effects(item_effects=ITEMS + 5, rho=1.0)
    regret(shelf, 40, 3)
    shelf.save(tmp_path / "shelf")
    loaded = Shelf._loaded(tmp_path / "shelf", Simulated(np.random.default_rng(9)))
    assert loaded.learner is not None
    assert shelf.learner is not None
    assert loaded.learner.config == shelf.learner.config
    for mine, other in zip(loaded.learner.prior, shelf.learner.prior, strict=True):
        np.testing.assert_array_equal(mine, other)
    regret(loaded, 200, 4)
    assert len(loaded.learner.records) > len(shelf.learner.records)
    assert loaded.add([[0.0, 0.0]]) == [ITEMS]


def test_effects_alter_neither_noise_nor_cost() -> None:
    """A release of x of the same length costs the same, whatever its last places are called."""
    dense = shop(items=ITEMS, dim=ITEMS, capacity=SHOWN)
    dense.offer(np.eye(ITEMS))
    ids = shop(capacity=SHOWN, item_effects=True, **IDS)
    ids.offer()
    left, right = (shelf.batches[0].frozen.scales for shelf in (dense, ids))
    assert left.score == right.score
    assert left.information / left.bound == pytest.approx(right.information / right.bound, rel=1e-12)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"item_effects": -1}, "item_effects must be a whole number from 0 on, got item_effects=-1"),
        ({"item_effects": 30.5}, "item_effects must be a whole number from 0 on, got item_effects=30.5"),
        ({"item_effects": 9000}, "7 capacity \\+ dim must be at most 8900"),
    ],
)
def test_wrong_numbers_of_effects_are_refused(wrong: dict[str, Any], rule: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=rule):
        with_effects(**wrong)


def test_effects_need_a_catalogue() -> None:
    """Where each offer brings x, it may hold an effect of each item by itself."""
    with pytest.raises(ValueError, match="item_effects need a catalogue, got item_effects=8"):
        shop(item_effects=True)


def test_requests_are_valid_by_themselves() -> None:
    """R1: of ids alone an offer brings nothing; what it brings is refused before and after releases alike."""
    shelf = shop(capacity=SHOWN, item_effects=True, **IDS)
    for visitors in (0, 200):
        regret(shelf, visitors, 0)
        before = shelf.arrivals
        with pytest.raises(ValueError, match="features must have length 0, got length=1"):
            shelf.offer([1.0])
        assert shelf.arrivals == before


def test_ids_that_come_later_take_reserved_places() -> None:
    """By their names, in the estimate too; a place that nobody has taken says so."""
    shelf = Shelf(items=["mint", "chai"], item_effects=4, capacity=2, rho=1.0)
    assert shelf.add(ids=["sencha"]) == ["sencha"]
    shelf.offer()
    assert shelf.estimate().names == ("mint", "chai", "sencha", "free place 4")
    with pytest.raises(ValueError, match="items without features must fit the 4 places that item_effects reserves"):
        shelf.add(ids=["assam", "yunnan"])
    named = Shelf(
        items=["a", "b"], catalogue=[[0.0], [1.0]], feature_map="item", item_effects=True, capacity=1, rho=1.0
    )
    named.offer()
    assert named.estimate().names == ("intercept", "item feature 1", "effect of a", "effect of b")
