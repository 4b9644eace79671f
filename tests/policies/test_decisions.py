"""What each policy thinks of the items: identities and laws of chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, Context, FloatArray, Policy, Release
from quietshelf.policies import Greedy, Optimistic, OptimisticDraw, Thompson, Uniform
from quietshelf.policies.sampling import OPTIMISTIC, draw_theta, paper_samples

FALSE_ALARM = 1e-4


def known(theta: FloatArray, precision: FloatArray, radius: float = 0.0, *, explore: bool = False) -> Release:
    batch = theta.shape[:-1]
    full = np.full(batch, radius), np.full(batch, explore), np.zeros(batch, dtype=np.int64)
    return Release(theta, np.broadcast_to(precision, (*batch, *precision.shape[-2:])), *full)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), capacity=st.integers(1, 4), equal=st.booleans(), radius=st.sampled_from([0, 1]))
def test_optimistic_equals_enumeration(seed: int, capacity: int, equal: bool, radius: float) -> None:
    """The offer earns, at optimistic utilities written out item by item, what the best of all subsets earns."""
    rng = np.random.default_rng(seed)
    x, revenue = rng.normal(size=(7, 3)), np.ones(7) if equal else rng.normal(0.3, 1.0, size=7)
    root = rng.normal(size=(3, 3))
    last = known(rng.normal(size=3), root @ root.T + 0.1 * np.eye(3), radius)
    inverse = np.linalg.inv(last.precision)
    utility = np.array([row @ last.theta + radius * np.sqrt(row @ inverse @ row) for row in x])
    items = Optimistic().offer(Context(Dense(x), revenue, capacity), last, rng)
    subsets = chain.from_iterable(combinations(range(7), size) for size in range(capacity + 1))
    values = {subset: _value(utility, revenue, subset) for subset in subsets}
    offered = tuple(items[items != NOTHING].tolist())
    assert values[offered] == pytest.approx(max(values.values()), rel=1e-9, abs=1e-12)


def _value(utility: FloatArray, revenue: FloatArray, subset: tuple[int, ...]) -> float:
    weight = np.exp(utility[list(subset)])
    return float(weight @ revenue[list(subset)] / (1 + weight.sum()))


class _Noted(Dense):
    """Features that note with which tastes utilities are asked for."""

    def utility(self, theta: FloatArray) -> FloatArray:
        object.__setattr__(self, "asked", theta)
        return super().utility(theta)


def drawing(theta: FloatArray, precision: FloatArray, radius: float) -> Release:
    """A release that asks for draws as wide as its optimism."""
    last = known(theta, precision, radius)
    return replace(last, draws=last.radius)


def test_tastes_are_drawn_for_each_visitor_with_the_covariance_of_the_release() -> None:
    """10 000 visitors: around theta, radius² covariance, one draw each; without a radius there is nothing to draw."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(3, 3))
    precision, theta = root @ root.T + np.eye(3), rng.normal(size=3)
    for radius in (0.0, 0.5, 2.0):
        features = _Noted(np.zeros((10_000, 2, 3)))
        last = drawing(theta, precision, radius)
        OptimisticDraw().offer(Context(features, np.ones((10_000, 2)), 1), last, rng)
        away = getattr(features, "asked") - theta  # noqa: B009 - set above
        if radius == 0:
            np.testing.assert_array_equal(away, 0.0)
            continue
        np.testing.assert_allclose(away.mean(0), 0.0, atol=0.05 * radius)
        whitened = np.linalg.cholesky(precision).T @ away.T / radius
        np.testing.assert_allclose(np.cov(whitened), np.eye(3), atol=0.08)


@given(seed=st.integers(0, 2**32 - 1), radius=st.sampled_from([0.0, 0.45, 3.0]))
def test_optimistic_draws_add_the_doubt_to_the_utilities_of_drawn_tastes(seed: int, radius: float) -> None:
    """The K largest of ``x . drawn + radius sqrt(x' covariance x)``, written out item by item."""
    rng = np.random.default_rng(seed)
    x, root = rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    last = drawing(rng.normal(size=3), root @ root.T + 0.1 * np.eye(3), radius)
    items = OptimisticDraw().offer(Context(Dense(x), np.ones(9), 4), last, np.random.default_rng(seed))
    covariance = np.linalg.inv(last.precision)
    drawn = last.theta + radius * last.root @ np.random.default_rng(seed).standard_normal(3)
    np.testing.assert_allclose(last.root @ last.root.T, covariance, rtol=1e-7, atol=1e-9)
    utility = np.array([row @ drawn + radius * np.sqrt(row @ covariance @ row) for row in x])
    assert set(items.tolist()) == set(np.argsort(-utility)[:4].tolist())


def test_visitors_who_see_the_same_items_are_shown_different_ones() -> None:
    """Where little is known a batch learns of all items; where all is known it shows the best."""
    x = np.random.default_rng(4).normal(size=(8, 3))
    context = Context(Dense(np.broadcast_to(x, (200, 8, 3))), np.ones((200, 8)), 2)
    theta = np.array([1.0, 0.5, -0.5])
    vague, sure = (drawing(theta, times * np.eye(3), 0.45) for times in (0.3, 1e12))
    offers = [OptimisticDraw().offer(context, last, np.random.default_rng(5)) for last in (vague, sure)]
    assert len(np.unique(offers[0])) >= 5
    assert set(offers[1].ravel().tolist()) == set(np.argsort(-x @ theta)[:2].tolist())


def test_no_draws_leave_optimism_alone() -> None:
    """As with features of the visitor's own: the offer is that of the optimistic policy."""
    x = np.random.default_rng(6).normal(size=(30, 12, 3))
    context, last = Context(Dense(x), np.ones((30, 12)), 4), known(np.ones(3), np.eye(3), 0.45)
    drawn, plain = (
        policy.offer(context, last, np.random.default_rng(7)) for policy in (OptimisticDraw(), Optimistic())
    )
    np.testing.assert_array_equal(drawn, plain)


def test_greedy_is_optimistic_without_radius() -> None:
    """A radius is ignored by one, and at zero makes no difference to the other, which then asks for no norms."""
    rng = np.random.default_rng(1)
    context = Context(_NoNorm(rng.normal(size=(6, 20, 3))), rng.random((6, 20)), 5)
    narrow, wide = (known(rng.normal(size=(6, 3)), np.eye(3), radius) for radius in (0.0, 5.0))
    wide = replace(narrow, radius=wide.radius)
    greedy = Greedy().offer(context, wide, np.random.default_rng(2))
    np.testing.assert_array_equal(Optimistic().offer(context, narrow, np.random.default_rng(2)), greedy)


class _NoNorm(Dense):
    def norm(self, metric: FloatArray) -> FloatArray:
        raise AssertionError(f"a norm was asked for in the metric {metric}")


@pytest.mark.parametrize(
    ("policy", "explore"), [(Uniform(), False), (Optimistic(), True), (Thompson(3), True), (Optimistic(), False)]
)
def test_chance_gives_every_set_the_same_probability(policy: Policy, explore: bool) -> None:
    """Uniform, exploring and tied offers: all 15 pairs of 6 items alike; 30,000 draws, false alarm 1e-4.

    The same test rejects a chance that favours one item by 3/2.
    """
    n, rng = 30_000, np.random.default_rng(3)
    last = known(np.zeros((n, 2)), np.eye(2), explore=explore)
    items = policy.offer(Context(Dense(np.zeros((n, 6, 2))), np.ones((n, 6)), 2), last, rng)
    assert _pairs_statistic(items.tolist()) < chi2.isf(FALSE_ALARM, 14)
    keys = rng.random((n, 6)) ** (1.0 / np.array([1.5, 1, 1, 1, 1, 1]))
    favoured = np.sort(np.argsort(keys, axis=-1)[:, -2:], axis=-1)
    assert _pairs_statistic(favoured.tolist()) > chi2.isf(FALSE_ALARM, 14)


def _pairs_statistic(rows: list[list[int]]) -> float:
    counts = Counter(tuple(row) for row in rows)
    assert len(counts) == 15
    expected = len(rows) / 15
    return sum((count - expected) ** 2 for count in counts.values()) / expected


def test_uniform_shows_all_there_is_when_capacity_exceeds_it() -> None:
    """With fewer available items than places, all of them; the other places stay empty."""
    available = np.array([False, True, False, True, False])
    context = Context(Dense(np.zeros((5, 1))), np.ones(5), 3, available=available)
    items = Uniform().offer(context, known(np.zeros(1), np.eye(1)), np.random.default_rng(4))
    np.testing.assert_array_equal(items, [1, 3, NOTHING])


def test_thompson_draws_have_the_law_of_the_release() -> None:
    """Draws are N(theta, radius² covariance): 40,000 in three dimensions, false alarm 1e-4 a check.

    Whitened by the covariance they are standard normal; by 2/3 or 3/2 of its scale they are not.
    """
    n, rng = 40_000, np.random.default_rng(5)
    root = rng.normal(size=(3, 3))
    last = known(rng.normal(size=3), root @ root.T + 0.2 * np.eye(3), 0.7)
    draws = draw_theta(last, n, rng)
    assert draws.shape == (n, 3)
    spread = np.linalg.cholesky(0.7**2 * last.covariance)
    white = np.linalg.solve(spread, (draws - last.theta).T).T
    size = (white**2).sum()
    low, high = chi2.isf(1 - FALSE_ALARM / 2, 3 * n), chi2.isf(FALSE_ALARM / 2, 3 * n)
    assert low < size < high
    assert not low < size * 1.5**2 < high
    assert not low < size / 1.5**2 < high
    off = (white.T @ white / n)[np.triu_indices(3, 1)]
    assert np.abs(off).max() < 4.2 / np.sqrt(n)  # three normals of variance 1/n: false alarm 8e-5
    assert np.abs(white.mean(0)).max() < 4.2 / np.sqrt(n)


def test_thompson_takes_the_largest_utility_over_its_draws() -> None:
    """Computed draw by draw, the offer is the best at each item's largest utility; in worlds side by side too."""
    rng = np.random.default_rng(6)
    x, revenue = rng.normal(size=(4, 8, 3)), rng.random((4, 8))
    last = known(rng.normal(size=(4, 3)), np.diag([1.0, 2.0, 3.0]), 0.8)
    items = Thompson(5).offer(Context(Dense(x), revenue, 3), last, np.random.default_rng(7))
    draws = draw_theta(last, 5, np.random.default_rng(7))
    for k in range(4):
        utility = np.max([x[k] @ draw for draw in draws[:, k]], axis=0)
        best = max(_value(utility, revenue[k], subset) for subset in combinations(range(8), 3))
        assert _value(utility, revenue[k], tuple(items[k][items[k] != NOTHING].tolist())) >= best - 1e-12


def test_thompson_draws_as_often_as_the_paper() -> None:
    """M is the least number for which the union bound over K items leaves 1 - p; one draw is enough for one item."""
    assert paper_samples(1) == 1
    for capacity in (2, 10, 50):
        missed = capacity * (1 - OPTIMISTIC) ** np.array([paper_samples(capacity), paper_samples(capacity) - 1])
        assert missed[0] <= 1 - OPTIMISTIC < missed[1]
    with pytest.raises(ValueError, match=r"samples must be a whole number from 1 on, got samples=0"):
        Thompson(0)


def test_optimistic_draws_show_visitors_of_one_release_different_items() -> None:
    """Of ten equally promising items all are shown within 400 visitors, equally often; without radius the best."""
    context = Context(Dense(np.broadcast_to(np.eye(10), (400, 10, 10))), np.ones((400, 10)), 2)
    unsure = known(np.zeros((400, 10)), np.eye(10), radius=0.5)
    shown = OptimisticDraw().offer(context, unsure, np.random.default_rng(1))
    counts = np.bincount(shown.ravel(), minlength=10)
    assert 80 - 5 * 8 < counts.min() <= counts.max() < 80 + 5 * 8  # 800 places, standard deviation 8
    sure = known(np.tile(np.eye(10)[3], (400, 1)), np.eye(10))
    assert (OptimisticDraw().offer(context, sure, np.random.default_rng(1)) == 3).any(axis=-1).all()


def test_optimistic_draws_prefer_what_is_less_known() -> None:
    """Two items, equal but for what is known of them: the unknown one is shown to more than two thirds."""
    context = Context(Dense(np.broadcast_to(np.eye(2), (1000, 2, 2))), np.ones((1000, 2)), 1)
    release = known(np.zeros((1000, 2)), np.diag([1.0, 100.0]), radius=1.0)
    shown = OptimisticDraw().offer(context, release, np.random.default_rng(2))
    assert (shown == 0).mean() > 2 / 3
