"""The laws that the synthetic world declares, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from scipy.stats import chi2, kstest

from quietshelf.model.choice import probabilities
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, Context, FloatArray
from quietshelf.research.environments import LogitRound, Synthetic

FALSE_ALARM = 1e-4


def visitors(world: Synthetic, rounds: int, replicates: int = 20, seed: int = 1) -> FloatArray:
    """Features drawn, (rounds, replicates, N, d)."""
    environment = world.open(SeedSequence(seed).spawn(replicates))
    every = np.arange(world.items)
    return np.stack([environment.context(t).features.rows(every) for t in range(rounds)])


def test_normal_contexts_are_standard_normal() -> None:
    """Kolmogorov-Smirnov over 30,000 numbers at false alarm 1e-4, rejecting 2/3 and 3/2 of the scale."""
    x = visitors(Synthetic(items=25, dim=3), 20).reshape(-1, 3)
    assert kstest(x.ravel(), "norm").pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        assert kstest(wrong * x.ravel(), "norm").pvalue < FALSE_ALARM
    across = (x.T @ x / len(x))[np.triu_indices(3, 1)]
    assert np.abs(across).max() < 4.2 / np.sqrt(len(x))  # three normals of variance 1/n: false alarm 8e-5


def test_clipped_contexts_are_normal_ones_moved_to_the_ball() -> None:
    """The same seeds give the same draws, divided by their length where it exceeds one; scale multiplies both."""
    drawn = visitors(Synthetic(items=25, dim=2), 4)
    length = np.linalg.norm(drawn, axis=-1, keepdims=True)
    clipped = visitors(Synthetic(items=25, dim=2, contexts="clipped"), 4)
    np.testing.assert_allclose(clipped, drawn / np.maximum(length, 1), rtol=1e-14)
    assert np.linalg.norm(clipped, axis=-1).max() <= 1 + 1e-14
    assert 0.2 < np.mean(length < 1) < 0.6
    for contexts, plain in (("normal", drawn), ("clipped", clipped)):
        scaled = visitors(Synthetic(items=25, dim=2, contexts=contexts, scale=0.5), 4)
        np.testing.assert_allclose(scaled, 0.5 * plain, rtol=1e-14)


def test_fixed_features_do_not_change_from_visitor_to_visitor() -> None:
    """Drawn once a replicate; without ``fixed`` nobody sees an item as the last visitor did."""
    fixed, fresh = visitors(Synthetic(items=12, fixed=True), 5), visitors(Synthetic(items=12), 5)
    assert (fixed == fixed[0]).all()
    assert (fixed[0, 0] != fixed[0, 1]).all()
    assert (fresh[1:] != fresh[:-1]).all()


@pytest.mark.parametrize("contexts", ["normal", "clipped"])
@pytest.mark.parametrize("dim", [1, 2, 5, 8])
def test_declared_moments_are_those_of_the_draws(contexts: str, dim: int) -> None:
    """E[x x'] of 4,000 visitors to 10 items agrees in trace, false alarm 1e-4, rejecting 2/3 and 3/2."""
    world = Synthetic(items=10, dim=dim, contexts=contexts, scale=1.3)
    x = visitors(world, 200).reshape(-1, 10, dim)
    square, declared = (x**2).sum(-1).mean(-1), world.second_moment
    np.testing.assert_array_equal(declared, declared[0, 0] * np.eye(dim))
    error = 3.9 * square.std(ddof=1) / np.sqrt(len(square))  # two-sided normal quantile of 1e-4
    assert abs(square.mean() - np.trace(declared)) < error
    for wrong in (2 / 3, 3 / 2):
        assert abs(square.mean() - wrong * np.trace(declared)) > error


def test_theta_and_revenue_are_uniform_on_the_unit_interval() -> None:
    """Over 2,000 replicates, Kolmogorov-Smirnov at false alarm 1e-4; 3/2 and 2/3 of the scale are rejected."""
    world = Synthetic(items=3, capacity=2, dim=3, revenue="uniform")
    environment = world.open(SeedSequence(2).spawn(2000))
    for numbers in (environment.theta, environment.context(0).revenue):
        assert kstest(numbers.ravel(), "uniform").pvalue > FALSE_ALARM
        for wrong in (2 / 3, 3 / 2):
            assert kstest(wrong * numbers.ravel(), "uniform").pvalue < FALSE_ALARM
    given = Synthetic(dim=3, theta=(1.0, -2.0, 3.0)).open(SeedSequence(2).spawn(2))
    np.testing.assert_array_equal(given.theta, [[1.0, -2.0, 3.0]] * 2)


def test_revenue_stays_for_the_whole_replicate() -> None:
    """Unequal revenues belong to the item, equal ones are one."""
    unequal = Synthetic(revenue="uniform").open(SeedSequence(3).spawn(2))
    first = unequal.context(0).revenue
    np.testing.assert_array_equal(unequal.context(1).revenue, first)
    assert (Synthetic().open(SeedSequence(3).spawn(2)).context(0).revenue == 1).all()


def test_drift_is_a_random_walk_of_the_declared_size() -> None:
    """Steps over 300 rounds of 10 replicates have the size asked for; false alarm 1e-4, rejecting 2/3 and 3/2."""
    environment = Synthetic(dim=2, drift=0.1).open(SeedSequence(4).spawn(10))
    start = Synthetic(dim=2).open(SeedSequence(4).spawn(10)).theta
    np.testing.assert_array_equal(environment.theta, start)
    path = [environment.theta]
    for t in range(300):
        environment.context(t)
        path.append(environment.theta)
    steps = np.diff(path, axis=0) / 0.1
    low, high = chi2.isf(1 - FALSE_ALARM / 2, steps.size), chi2.isf(FALSE_ALARM / 2, steps.size)
    for factor, holds in [(1.0, True), (2 / 3, False), (3 / 2, False)]:
        assert (low < ((factor * steps) ** 2).sum() < high) == holds


def test_choices_have_the_logit_probabilities() -> None:
    """Chi-square over 50,000 visitors to one assortment at false alarm 1e-4; 2/3 and 3/2 of the utilities fail."""
    n, rng = 50_000, np.random.default_rng(5)
    utility, items = np.array([0.3, -1.0, 1.2, 0.0, 2.0]), np.array([4, NOTHING, 0, 1])
    context = Context(Dense(np.zeros((n, 5, 1))), np.ones((n, 5)), 4)
    opened = LogitRound(context, np.tile(utility, (n, 1)), rng.random(n))
    choice = opened.choose(np.tile(items, (n, 1)))
    counts = np.array([(choice == item).sum() for item in (0, 1, 4, NOTHING)])
    assert counts.sum() == n
    for factor, holds in [(1.0, True), (2 / 3, False), (3 / 2, False)]:
        inside = probabilities(factor * utility[[0, 1, 4]])
        expected = n * np.append(inside, 1 - inside.sum())
        assert (((counts - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, 3)) == holds


def test_extreme_utilities_neither_overflow_nor_get_lost() -> None:
    """Ten thousand on either side: the great item is picked for certain, hopeless ones never, no regret is NaN."""
    utility = np.tile([1e4, -1e4, 0.0], (5, 1))
    context = Context(Dense(np.zeros((5, 3, 1))), np.ones((5, 3)), 2)
    opened = LogitRound(context, utility, np.array([0.0, 0.25, 0.5, 0.75, 1 - 1e-16]))
    assert (opened.choose(np.tile([0, 1], (5, 1))) == 0).all()
    assert (opened.choose(np.tile([1, NOTHING], (5, 1))) == NOTHING).all()
    np.testing.assert_array_equal(opened.regret(np.tile([1, NOTHING], (5, 1))), 1.0)
    np.testing.assert_array_equal(opened.regret(np.tile([2, 0], (5, 1))), 0.0)


def test_constraints_bind_the_best_and_what_may_be_shown() -> None:
    """Availability, requirements and limits hold for the optimum too, and breaking them is refused by name."""
    utility, revenue = np.array([[3.0, 2.0, 1.0, 0.0]]), np.ones((1, 4))
    context = Context(
        Dense(np.zeros((1, 4, 1))),
        revenue,
        2,
        available=np.array([[False, True, True, True]]),
        required=np.array([[False, False, False, True]]),
        groups=np.array([-1, 0, 0, 0]),
        limits=np.array([1]),
    )
    opened = LogitRound(context, utility, np.array([0.5]))
    np.testing.assert_allclose(opened.best, [0.5])
    for items, why in [([0, 3], "available"), ([1, -1], "required"), ([1, 3], "limits")]:
        with pytest.raises(ValueError, match=why):
            opened.choose(np.array([items]))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"items": 0}, "items must be a whole number from 1 on, got items=0"),
        ({"items": 5}, "capacity must be between 1 and items=5, got capacity=10"),
        ({"dim": 0}, "dim must be"),
        ({"contexts": "round"}, "contexts must be one of normal, clipped, got contexts='round'"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"fixed": 1}, "fixed must be True or False, got fixed=1"),
        ({"revenue": "none"}, "revenue must be one of equal, uniform, got revenue='none'"),
        ({"theta": "normal"}, "theta must be uniform or 5 numbers, got theta='normal'"),
        ({"theta": (1.0, 2.0)}, "theta must have shape"),
        ({"theta": (1.0, 2.0, 3.0, 4.0, float("nan"))}, "theta must be finite"),
        ({"drift": -0.1}, "drift must be at least zero"),
    ],
)
def test_bad_worlds_are_refused(wrong: dict[str, Any], why: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=why):
        Synthetic(**wrong)


def test_a_world_needs_a_seed() -> None:
    """No replicates, no world."""
    with pytest.raises(ValueError, match="one seed per replicate"):
        Synthetic().open([])
