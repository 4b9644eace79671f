"""What is believed before the first release: utilities differ by about 1, and as many choose as was declared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.prior import DOUBT, IGNORANCE, UNDECLARED, prior_of


def moments(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of rows (..., n, d)."""
    return x.mean(-2), np.swapaxes(x, -1, -2) @ x / x.shape[-2]


def with_intercept(rng: np.random.Generator, count: int, dim: int) -> FloatArray:
    return np.concatenate([np.ones((count, 1)), rng.normal(size=(count, dim)) + 0.7], axis=1)


@pytest.mark.parametrize("conversion", [None, 0.01, 0.2, 0.5, 0.95])
@pytest.mark.parametrize("capacity", [1, 4])
def test_the_level_gives_the_declared_conversion(conversion: float | None, capacity: int) -> None:
    """K average items, with an intercept: the declared share chooses, however else items differ."""
    x = with_intercept(np.random.default_rng(0), 50, 3)
    found = prior_of(*moments(x), conversion=conversion, capacity=capacity)
    np.testing.assert_allclose(x @ found.theta, (x @ found.theta)[0], rtol=1e-5)  # it is the same for all items
    chosen = capacity * math.exp(float(x.mean(0) @ found.theta))
    assert chosen / (1 + chosen) == pytest.approx(UNDECLARED if conversion is None else conversion, rel=1e-5)


def test_a_level_need_not_be_a_column() -> None:
    """Shares of a whole add up to 1: that is an intercept too. A stretched intercept is one as well."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(3), size=200)
    stretched = with_intercept(rng, 200, 2) * np.array([5.0, 1.0, 1.0])
    for x in (shares, stretched):
        found = prior_of(*moments(x), conversion=0.5, capacity=10)
        np.testing.assert_allclose(x @ found.theta, math.log(0.1), rtol=1e-4)


@pytest.mark.parametrize(("conversion", "doubt"), [(0.2, DOUBT), (None, IGNORANCE)])
def test_the_level_is_doubted_more_where_nobody_declared_it(conversion: float | None, doubt: float) -> None:
    """Standard deviation of what all items share, whatever the tastes are."""
    x = with_intercept(np.random.default_rng(2), 300, 2)
    mean, second = moments(x)
    found = prior_of(mean, second, conversion=conversion, capacity=3)
    level = np.array([1.0, 0.0, 0.0])
    assert level @ found.level @ level == pytest.approx(1 / doubt**2, rel=1e-4)
    assert level @ found.tastes @ level == pytest.approx(0.0, abs=1e-4)


def test_without_a_constant_direction_there_is_no_level() -> None:
    """Features around zero, or far from it in one column only: theta starts at zero, and all of it is tastes."""
    rng = np.random.default_rng(3)
    centred = rng.normal(size=(500, 3))
    for x in (centred, centred + np.array([2.0, 0.0, 0.0])):
        found = prior_of(*moments(x), conversion=0.01, capacity=3)
        np.testing.assert_array_equal(found.theta, 0.0)
        np.testing.assert_array_equal(found.level, 0.0)
        np.testing.assert_array_equal(found.precision, found.tastes)


def test_utilities_have_a_standard_deviation_of_one_over_items() -> None:
    """Drawn from the prior, whatever the scale of features; a level takes the share of its own column."""
    rng = np.random.default_rng(4)
    root = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.2, 0.3, 1.0]])
    for scale in (1e-3, 1.0, 1e3):
        x = scale * rng.normal(size=(400, 3)) @ root.T
        mean, second = moments(x)
        found = prior_of(mean, second, conversion=None, capacity=3)
        between = np.trace((second - np.outer(mean, mean)) @ np.linalg.inv(found.precision))
        assert between == pytest.approx(1.0)
    x = with_intercept(rng, 400, 3)
    mean, second = moments(x)
    found = prior_of(mean, second, conversion=0.2, capacity=3)
    between = np.trace((second - np.outer(mean, mean)) @ np.linalg.inv(found.precision))
    assert between == pytest.approx(3 / 4, rel=1e-4)


@pytest.mark.parametrize("conversion", [None, 0.1])
@pytest.mark.parametrize("size", [0.0, 1e-150, 1e-3, 1.0, 1e45])
def test_the_precision_is_positive_definite(conversion: float | None, size: float) -> None:
    """Also of zeros, of identical items, of collinear ones and in one dimension, of any size."""
    rng = np.random.default_rng(5)
    line = rng.normal(size=(20, 1)) * np.ones(3)
    for x in (rng.normal(size=(20, 3)), line, np.ones((20, 3)), np.ones((20, 1)), with_intercept(rng, 20, 2)):
        found = prior_of(*moments(size * x), conversion=conversion, capacity=2)
        for strength in (1e-3, 1.0, 1e3):
            values = np.linalg.eigvalsh(found.tastes / strength + found.level)
            assert values[0] > 0
        assert np.isfinite(found.theta).all()


def test_each_world_has_the_prior_it_would_have_alone() -> None:
    """To the bit, with a level in some and without in others."""
    rng = np.random.default_rng(6)
    x = np.stack([rng.normal(size=(30, 3)), with_intercept(rng, 30, 2), np.zeros((30, 3))])
    mean, second = moments(x)
    together = prior_of(mean, second, conversion=0.3, capacity=2)
    for world in range(3):
        alone = prior_of(mean[world], second[world], conversion=0.3, capacity=2)
        for mine, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(mine[world], other)
    assert together.theta[1].any()
    assert not together.theta[0].any()


@pytest.mark.parametrize("with_level", [True, False])
def test_effects_are_shrunk_towards_what_features_say(with_level: bool) -> None:
    """Mean zero and a spread of their own, beside the prior of features; where these have no level, effects are it."""
    rng, spread = np.random.default_rng(7), 0.3
    plain = with_intercept(rng, 5, 2) if with_level else rng.normal(size=(5, 3))
    mean, second = moments(np.concatenate([plain, np.eye(5)], axis=1))
    found = prior_of(mean, second, conversion=0.1, capacity=2, effects=5, spread=spread)
    features = prior_of(mean[:3], second[:3, :3], conversion=0.1, capacity=2)
    logit = math.log(0.1 / 0.9 / 2)
    np.testing.assert_array_equal(found.precision[:3, 3:], 0.0)
    if with_level:
        np.testing.assert_allclose(found.theta, [*features.theta, *np.zeros(5)])
        np.testing.assert_allclose(found.precision[:3, :3], features.precision)
        np.testing.assert_allclose(found.tastes[3:, 3:], np.eye(5) / spread**2)
    else:
        np.testing.assert_allclose(found.theta, [0.0, 0.0, 0.0, *np.full(5, logit)])
        apart = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
        covariance = np.linalg.inv(found.precision[3:, 3:])
        assert apart @ covariance @ apart == pytest.approx(2 * spread**2)
        assert covariance.mean() == pytest.approx(DOUBT**2)


def test_effects_alone_are_the_features() -> None:
    """Of ids nothing else is known: the prior of one-hot features, to the bit."""
    mean, second = moments(np.eye(4))
    one, other = (prior_of(mean, second, conversion=0.1, capacity=2, effects=effects) for effects in (0, 4))
    for mine, its in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, its)
