"""What every environment promises: one suite, inherited by each."""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.random import SeedSequence
from tests.research.environments.contract import EnvironmentContract

from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.environments.shop import FEATURES, REVENUES


class TestAsPrinted(EnvironmentContract):
    """The paper's world."""

    world = Synthetic(items=6, capacity=3, dim=2)


class TestClipped(EnvironmentContract):
    """Contexts in the unit ball, unequal revenues."""

    world = Synthetic(items=6, capacity=3, dim=2, contexts="clipped", revenue="uniform", scale=2.0)


class TestFixed(EnvironmentContract):
    """Items that are the same for everybody."""

    world = Synthetic(items=6, capacity=3, dim=4, fixed=True, revenue="uniform", theta=(1.0, -1.0, 0.5, 0.0))


class TestDrifting(EnvironmentContract):
    """Tastes that change."""

    world = Synthetic(items=6, capacity=3, dim=2, drift=0.3)


class TestShop(EnvironmentContract):
    """Features drawn for each visitor, correlated."""

    world = Shop(items=6, capacity=3, conversion_rate=0.3, item_dim=2, per_visitor=True, correlation=0.5)


class TestSoldOut(EnvironmentContract):
    """Visitor and item features, unequal revenues; not everything is available."""

    world = Shop(
        items=6, capacity=2, conversion_rate=0.1, item_dim=2, visitor_dim=1, revenue="uniform", availability=0.8
    )


class TestCategories(EnvironmentContract):
    """Rare levels and heavy-tailed prices."""

    world = Shop(items=6, capacity=3, conversion_rate=0.3, features="categories", levels=3)


class TestIds(EnvironmentContract):
    """One-hot items, tastes that change."""

    world = Shop(items=6, capacity=3, conversion_rate=0.3, features="ids", half_life=10)

    def test_equal_seeds_give_equal_worlds_and_others_differ(self) -> None:
        """Items are the same in every world: tastes tell worlds apart."""
        first, again, other = (self.world.open(SeedSequence(seed).spawn(3)).theta for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


class TestBestsellers(EnvironmentContract):
    """Effects beyond features, and items that come later."""

    world = Shop(items=6, capacity=3, conversion_rate=0.3, features="bestsellers", new_every=5)


class TestMixed(EnvironmentContract):
    """Visitors of several kinds."""

    world = Shop(items=6, capacity=2, conversion_rate=0.3, item_dim=2, per_visitor=True, mixing=1.0)

    def test_regret_equals_enumeration(self) -> None:
        """It needs the tastes of every class: tests/research/environments/test_shop.py."""


def test_every_kind_of_world_is_in_the_contract() -> None:
    """Each law of contexts, features, revenue and theta is inherited by at least one suite above."""
    worlds = [suite.world for suite in (TestAsPrinted, TestClipped, TestFixed, TestDrifting)]
    seen = set(chain.from_iterable((w.contexts, w.revenue, w.fixed, w.drift > 0) for w in worlds))
    assert seen == {"normal", "clipped", "equal", "uniform", True, False}
    shops = [suite.world for suite in (TestShop, TestSoldOut, TestCategories, TestIds, TestBestsellers, TestMixed)]
    assert {shop.features for shop in shops} == set(FEATURES)
    for key in ("visitor_dim", "per_visitor", "correlation", "mixing", "half_life"):
        assert {bool(getattr(shop, key)) for shop in shops} == {True, False}
    assert {shop.revenue for shop in shops} == set(REVENUES)
    assert {shop.availability < 1 for shop in shops} == {True, False}
