"""What a visitor is shown does not depend on who is decided beside them: not by one item, not by one bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.coins import Coins, SelectiveCoins, part_of

from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.types import Context, Features, FloatArray, IntArray, Policy, Random, Release
from quietshelf.policies import Greedy, Optimistic, OptimisticDraw, Thompson, Uniform

POLICIES = (Optimistic(), Greedy(), Thompson(3), OptimisticDraw(), Uniform())
SIZES = np.array([1.0, 1.0, 1.0, 0.0, 1e-320, 1e-13, 1e5, 1e150, 1e200, 1e307])
"""Of visitors' features: ordinary, nothing, denormal, such that utilities are far apart, such that they overflow."""
KINDS = [*((name, intercept) for name in MAPS for intercept in (True, False)), ("dense", True)]


def some_release(rng: np.random.Generator, batch: tuple[int, ...], dim: int) -> Release:
    """A release whose estimate is sometimes nothing at all, so that everything is tied."""
    root = rng.normal(size=(*batch, dim, dim))
    return Release(
        theta=rng.normal(size=(*batch, dim)) * rng.integers(0, 2, size=(*batch, 1)),
        precision=root @ np.swapaxes(root, -1, -2) + np.eye(dim),
        radius=np.asarray(rng.choice([0.0, 0.5, 2.0], size=batch)),
        explore=np.asarray(rng.random(batch) < 0.2),
        count=np.zeros(batch, dtype=np.int64),
    )


def tied(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Items (..., N, d) of which many are equal, exactly or but for 1e-13."""
    rows = rng.normal(size=shape)
    rows = rows[..., rng.integers(0, max(1, shape[-2] // 2), size=shape[-2]), :]
    return np.asarray(rows * (1.0 + rng.choice([0.0, 1e-13, 1e-12], size=(shape[-2], 1)) * rng.normal()))


def some_features(rng: np.random.Generator, kind: tuple[str, bool], visitors: int, items: int) -> Features:
    """Of visitors of any size."""
    name, intercept = kind
    size = rng.choice(SIZES, size=(visitors, 1))
    d1, d2 = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    if name == "dense":
        return Dense(tied(rng, (visitors, items, d1 * d2)) * size[..., None])
    catalogue = tied(rng, (items, d2))
    order = np.asfortranarray if rng.random() < 0.5 else np.ascontiguousarray
    named = feature_map(name, intercept=intercept, effects=max(0, int(rng.integers(-items, items + 2))))
    return Catalogued(size * rng.normal(size=(visitors, d1)), order(catalogue), named)


def some_context(rng: np.random.Generator, kind: tuple[str, bool], visitors: int, items: int) -> Context:
    """Visitors with and without wishes; of a group some earn the shop the same with every item, some nothing."""
    capacity = int(rng.integers(1, items + 1))
    revenue = np.ones((visitors, items))
    if rng.random() < 0.6:
        unequal = rng.uniform(-0.2, 1.0, size=(visitors, items))
        revenue = np.where(rng.random((visitors, 1)) < rng.choice([0.3, 1.0]), unequal, revenue)
        revenue[rng.random(visitors) < 0.1] = 0.0
    made = Context(some_features(rng, kind, visitors, items), revenue, capacity)
    if rng.random() < 0.5:
        made = replace(made, available=(rng.random((visitors, items)) < 0.7) | (rng.random((visitors, 1)) < 0.5))
    if rng.random() < 0.3:
        required = (np.arange(items) == rng.integers(items)) & (rng.random((visitors, 1)) < 0.5)
        made = replace(made, required=required if made.available is None else required & made.available)
    if rng.random() < 0.3:
        made = replace(made, groups=rng.integers(-1, 3, size=items), limits=rng.integers(1, 3, size=3))
    return made


def part_of_release(release: Release, who: Any) -> Release:
    if release.theta.ndim == 1:
        return release
    return Release(**{name: getattr(release, name)[who] for name in Release.arrays})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.booleans(), st.booleans())
def test_together_everybody_is_shown_what_they_are_shown_alone(
    kind: tuple[str, bool], seed: int, visitors: int, items: int, worlds: bool, selective: bool
) -> None:
    """Every policy, any wishes, extreme visitors beside: without an axis, in a group of one, in another group."""
    rng = np.random.default_rng(seed)
    context = some_context(rng, kind, visitors, items)
    release = some_release(rng, (visitors,) if worlds else (), context.features.dim)
    everybody, coins = np.arange(visitors), SelectiveCoins if selective else Coins
    for policy in POLICIES:
        together = policy.offer(context, release, coins(everybody))
        assert together.shape == (visitors, context.capacity)
        for who in (*rng.integers(0, visitors, size=3), *(rng.integers(0, visitors, size=size) for size in (1, 7))):
            alone = policy.offer(part_of(context, who), part_of_release(release, who), coins(np.asarray(who)))
            np.testing.assert_array_equal(together[who], alone)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("unequal", [False, True])
def test_long_catalogues_are_decided_alone_as_together(policy: Policy, unequal: bool) -> None:
    """Past the number of items from which candidates are narrowed for the whole group."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        context = some_context(rng, ("full", True), 6, 1300)
        revenue = rng.uniform(size=(6, 1300)) if unequal else np.ones((6, 1300))
        context = replace(context, capacity=3, revenue=revenue, groups=None, limits=None)
        release = some_release(rng, (), context.features.dim)
        together = policy.offer(context, release, Coins(np.arange(6)))
        for who in range(6):
            alone = policy.offer(part_of(context, who), release, Coins(np.asarray(who)))
            np.testing.assert_array_equal(together[who], alone)


def offers(policy: Policy, first: float, coins: Random) -> IntArray:
    """What the second of two visitors is shown, three of whose items are all but tied, beside a first like this."""
    catalogue = np.array([[1.0], [1.0 - 1e-13], [1.0 - 2e-13], [0.5]])
    features = Catalogued(np.array([[first], [1e4]]), catalogue, feature_map("full"))
    context = Context(features, np.ones((2, 4)), 1)
    release = Release(np.ones(4), np.eye(4), np.asarray(1.0), np.asarray(False), np.asarray(0))
    return policy.offer(context, release, coins)[1:]


@pytest.mark.parametrize("policy", [Optimistic(), Greedy(), Thompson(3)])
@pytest.mark.parametrize("first", [1e200, 1e307, 1e-320, 0.0])
def test_ties_are_broken_alike_whatever_the_neighbour_is(policy: Policy, first: float) -> None:
    """100 visitors with coins of their own see the same beside a neighbour of any size, and not all the same."""
    runs = [np.array([100 + run, run]) for run in range(100)]
    seen = [offers(policy, first, Coins(run)).item() for run in runs]
    assert seen == [offers(policy, 1.0, Coins(run)).item() for run in runs]
    assert {0, 1, 2} <= set(seen)


def test_coins_are_drawn_only_where_they_may_matter() -> None:
    """Of four visitors the one with a tie for the last place and the one who explores need them, clear cases do not."""
    x = np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 2.0, 3.0]])[..., None]
    explore = np.array([False, False, False, True])
    release = Release(np.ones((4, 1)), np.ones((4, 1, 1)), np.zeros(4), explore, np.zeros(4, dtype=np.int64))
    coins = SelectiveCoins(np.arange(4))
    Greedy().offer(Context(Dense(x), np.ones((4, 3)), 2, available=np.ones(3, dtype=bool)), release, coins)
    assert [needed.tolist() for needed in coins.needed] == [[False, True, False, True]]
