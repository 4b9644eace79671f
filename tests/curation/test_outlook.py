"""Made-up visitors: drawn from what a shop declares, the same at every call and in every parallel world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless

from quietshelf.curation.outlook import ITEMS, VISITORS, MadeUp, normal_outlook, outlook_of, start
from quietshelf.curation.settings import Public, ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.types import Release
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.outlook import FACTORS
from quietshelf.privacy.release.quiet import Learner

CATALOGUE = np.random.default_rng(0).normal(size=(5, 2))
TERMS: dict[str, Any] = {"rho": 1.0, "capacity": 2}


def declared(scale: Any = None, curvature: Any = None) -> Public:
    return Public.of(visitor_scale=scale, curvature=curvature, prior=None)


def some_release(dim: int, lead: tuple[int, ...] = ()) -> Release:
    rng = np.random.default_rng(7)
    root = rng.normal(size=(*lead, dim, dim))
    precision = root @ np.swapaxes(root, -1, -2) + np.eye(dim)
    theta = rng.normal(size=(*lead, dim))
    return Release(theta, precision, np.full(lead, 0.5), np.zeros(lead, bool), np.zeros(lead, np.int64))


def begun(settings: ShelfSettings, public: Public, stock: Stock) -> Learner:
    return start(settings, public, stock, Noiseless())


def test_moments_are_those_of_declared_scales_and_offerable_items() -> None:
    """Each visitor column by its own scale; without a scale it is 1; an item that may not be shown counts nothing."""
    settings = ShelfSettings(**TERMS, feature_map="concat", visitor_dim=3)
    stock = Stock.of(5, CATALOGUE, None, None).without(0)
    usual = begun(settings, declared(1.0), stock).moments
    np.testing.assert_array_equal(begun(settings, declared(), stock).moments.second, usual.second)
    times = np.array([1.0, 2.0, 3.0, 4.0, 1.0, 1.0])  # x is (1, u, v)
    wide = begun(settings, declared([2.0, 3.0, 4.0]), stock).moments
    np.testing.assert_allclose(wide.second, usual.second * times[:, None] * times, rtol=1e-9, atol=1e-12)
    own = usual.second[FACTORS.index(1.0)]
    assert own[0, 0] == pytest.approx(1.0)
    np.testing.assert_allclose(own[4:, 4:], CATALOGUE[1:].T @ CATALOGUE[1:] / 4)
    np.testing.assert_allclose(np.diag(own)[1:4], 1.0, atol=0.7)  # 32 visitors


def test_factors_stretch_what_visitors_bring_and_nothing_else() -> None:
    """A catalogue is known; the scale of visitors' features is what may be wrong."""
    settings = ShelfSettings(**TERMS, feature_map="concat", visitor_dim=3)
    second = begun(settings, declared(1.0), Stock.of(5, CATALOGUE, None, None)).moments.second
    own = second[FACTORS.index(1.0)]
    for place, factor in enumerate(FACTORS):
        np.testing.assert_allclose(second[place][1:4, 1:4], factor**2 * own[1:4, 1:4], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(second[place][4:, 4:], own[4:, 4:], rtol=1e-12)
    items_alone = ShelfSettings(**TERMS, feature_map="item")
    learner = begun(items_alone, declared(), Stock.of(5, CATALOGUE, None, None))
    np.testing.assert_array_equal(learner.moments.factors, [1.0])


def test_features_brought_with_each_offer_are_declared_by_their_curvature() -> None:
    """Normal features of that second moment; of I/d where nothing is declared."""
    curvature = np.array([[4.0, 1.0], [1.0, 1.0]])
    settings, stock = ShelfSettings(**TERMS, dim=2), Stock.of(200, None, None, None)
    for given, expected in ((None, np.eye(2) / 2), (curvature, curvature)):
        moments = begun(settings, declared(curvature=given), stock).moments
        np.testing.assert_allclose(moments.second[FACTORS.index(1.0)], expected, atol=0.05 * np.abs(expected).max())
    with pytest.raises(ValueError, match=r"curvature must have shape \(2, 2\)"):
        begun(settings, declared(curvature=np.eye(3)), stock)


def test_large_catalogues_are_represented_by_some_items() -> None:
    """The same ones each time, each item once."""
    catalogue = np.arange(1000.0)[:, None]
    settings, stock = ShelfSettings(**TERMS, feature_map="item"), Stock.of(1000, catalogue, None, None)
    seen = [outlook_of(settings, declared(), stock).sample(np.asarray(1.0)) for _ in range(2)]
    assert seen[0].revenue.shape == (VISITORS, ITEMS)
    every = np.broadcast_to(np.arange(ITEMS), (VISITORS, ITEMS))
    rows = [each.features.rows(every)[0, :, 1] for each in seen]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert np.unique(rows[0]).size == ITEMS


@pytest.mark.parametrize("policy", ["quiet", "uniform"])
@pytest.mark.parametrize("name", [*MAPS, None])
def test_made_up_visitors_are_the_same_twice(policy: str, name: str | None) -> None:
    """What they see and are shown is a function of what is public."""
    options: dict[str, Any] = {"dim": 2} if name is None else {"feature_map": name, "visitor_dim": 3}
    settings = ShelfSettings(**TERMS, policy=policy, **options)
    stock = Stock.of(5, None if name is None else CATALOGUE, None, None)
    learner = begun(settings, declared(), stock)
    release = some_release(learner.estimate.theta.size)
    for left, right in zip(
        *(outlook_of(settings, declared(), stock).shown(release, np.asarray(3.16)) for _ in range(2)), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("policy", ["quiet", "uniform", "greedy", "ts-mnl"])
def test_each_world_makes_up_what_it_would_alone(policy: str) -> None:
    """To the bit: three worlds side by side, each by itself with an axis, and each without one."""
    release, factor = some_release(2, (3,)), np.array([0.1, 1.0, 10.0])

    def outlook(lead: tuple[int, ...]) -> MadeUp:
        return normal_outlook(None, 2, items=8, capacity=3, policy=POLICIES[policy], lead=lead)

    together = outlook((3,)).shown(release, factor)
    for world in range(3):
        for who, lead in ((slice(world, world + 1), (1,)), (world, ())):
            own = Release(**{name: getattr(release, name)[who] for name in Release.arrays})
            alone = outlook(lead).shown(own, factor[who])
            for mine, other in zip(together, alone, strict=True):
                np.testing.assert_array_equal(mine[who], other)


@pytest.mark.parametrize("size", [0.0, 1e-310, 1e5, 1e150, 1e200, 1e307])
@pytest.mark.parametrize("name", MAPS)
def test_catalogues_of_any_size_open_a_shop(name: str, size: float) -> None:
    """Nothing can be learnt of items without features, or of such that overflow: the shop opens all the same."""
    settings = ShelfSettings(**TERMS, feature_map=name, visitor_dim=2)
    stock = Stock.of(5, size * CATALOGUE, None, None)
    learner = begun(settings, declared(1.0), stock)
    batch = learner.open(0, 10, outlook_of(settings, declared(1.0), stock))
    assert all(np.isfinite(part).all() for part in (*learner.estimate, batch.coordinates, batch.expected, batch.spread))
    assert (np.linalg.eigvalsh(learner.estimate.precision) > 0).all()


@pytest.mark.parametrize("name", ["full", None])
def test_a_shop_with_nothing_to_offer_yet_opens(name: str | None) -> None:
    """Items may come back later."""
    options: dict[str, Any] = {"dim": 2} if name is None else {"feature_map": name, "visitor_dim": 2}
    stock = Stock.of(2, None if name is None else CATALOGUE[:2], None, None).without(0).without(1)
    assert not stock.offerable.any()
    settings = ShelfSettings(**TERMS, **options)
    learner = begun(settings, declared(), stock)
    batch = learner.open(0, 10, outlook_of(settings, declared(), stock))
    assert np.isfinite(batch.coordinates).all()
    assert np.isfinite(learner.estimate.precision).all()


@pytest.mark.parametrize("name", MAPS)
def test_moments_of_effects_are_those_of_all_items(name: str) -> None:
    """With an effect of each item the moments are those of every item's x, though visitors are shown a part."""
    count = ITEMS + 40
    catalogue = np.random.default_rng(3).normal(size=(count, 2))
    settings = ShelfSettings(**TERMS, feature_map=name, visitor_dim=2, item_effects=count)
    moments = begun(settings, declared(1.0), Stock.of(count, catalogue, None, None)).moments
    place = list(moments.factors).index(1.0)
    own = feature_map(name, effects=count).dense(np.zeros(2), catalogue)
    dim = own.shape[1] - count
    np.testing.assert_allclose(moments.mean[place][dim:], own.mean(axis=0)[dim:])
    np.testing.assert_allclose(moments.second[place][:, dim:], (own.T @ own / count)[:, dim:], atol=1e-12)
    plain = ShelfSettings(**TERMS, feature_map=name, visitor_dim=2)
    known = begun(plain, declared(1.0), Stock.of(count, catalogue, None, None)).moments
    np.testing.assert_allclose(moments.mean[..., :dim], known.mean, atol=1e-12)
    assert float(moments.alike) > float(known.alike) - 1e-12


@pytest.mark.parametrize("size", [0.0, 1e-310, 1e150, 1e307])
@pytest.mark.parametrize("name", MAPS)
def test_effects_of_catalogues_of_any_size_open_a_shop(name: str, size: float) -> None:
    """With places to spare."""
    settings = ShelfSettings(**TERMS, feature_map=name, visitor_dim=2, item_effects=7)
    stock = Stock.of(5, size * CATALOGUE, None, None)
    learner = begun(settings, declared(1.0), stock)
    batch = learner.open(0, 10, outlook_of(settings, declared(1.0), stock))
    assert all(np.isfinite(part).all() for part in (*learner.estimate, batch.coordinates, batch.expected, batch.spread))
    assert (np.linalg.eigvalsh(learner.estimate.precision) > 0).all()


@pytest.mark.parametrize("policy", ["quiet", "uniform"])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_visitors_served_once_for_all_factors_are_shown_the_same(policy: str, lead: tuple[int, ...]) -> None:
    """A factor by which all features are larger changes no order: as if each factor were served by itself."""
    once = normal_outlook(None, 4, items=30, capacity=3, policy=POLICIES[policy], lead=lead)
    each = MadeUp(once.sample, once.policy, lead=lead, blind=True)
    for release in (some_release(4, lead), some_release(4, lead)):
        for factor in FACTORS:
            wanted, found = (one.shown(release, np.full(lead, factor)) for one in (each, once))
            for left, right in zip(wanted, found, strict=True):
                np.testing.assert_array_equal(left, right)
