"""The likelihood and its derivatives are what the formulas say, at any size of utility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quietshelf.model.choice import (
    gradient,
    information,
    log_likelihood,
    log_partition,
    moments,
    probabilities,
    utilities,
)

SIZES = st.floats(-1e4, 1e4)


@settings(deadline=None)
@given(arrays(np.float64, (4, 6), elements=SIZES), st.booleans())
def test_probabilities_of_any_size_sum_to_at_most_one(utility: np.ndarray, outside: bool) -> None:
    """Utilities of +-1e4 give finite probabilities that leave the outside option what is missing to one."""
    p = probabilities(utility, outside=outside)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    rest = np.exp(-log_partition(utility)) if outside else 0.0
    np.testing.assert_allclose(p.sum(-1) + rest, 1.0, rtol=1e-12)


def test_probabilities_follow_the_formula_with_a_mask() -> None:
    """Only available items and the outside option share the probability."""
    u = np.array([[0.3, -1.0, 2.0], [0.0, 0.5, 1.0]])
    available = np.array([[True, False, True], [True, True, True]])
    weight = np.exp(u) * available
    np.testing.assert_allclose(probabilities(u, available), weight / (1 + weight.sum(-1, keepdims=True)))
    np.testing.assert_allclose(probabilities(u, available, outside=False), weight / weight.sum(-1, keepdims=True))


def test_probabilities_of_an_empty_offer_are_zero() -> None:
    """Nothing to choose from: all goes to the outside option, and nothing is NaN."""
    nothing = np.zeros(3, dtype=bool)
    assert probabilities(np.ones(3), nothing).tolist() == [0.0, 0.0, 0.0]
    assert log_partition(np.ones(3), nothing) == 0.0
    assert probabilities(np.ones(3), nothing, outside=False).tolist() == [0.0, 0.0, 0.0]


def test_what_cannot_be_chosen_has_probability_zero() -> None:
    """An unavailable place, and nothing where there is no outside option, have a log-likelihood of minus infinity."""
    available = np.array([False, True, True])
    assert log_likelihood(np.zeros(3), np.asarray(0), available) == -np.inf
    assert log_likelihood(np.zeros(3), np.asarray(-1), outside=False) == -np.inf
    assert log_likelihood(np.zeros(3), np.asarray(-1), available) == pytest.approx(-np.log(3))


def test_nan_stays_nan() -> None:
    """A utility of NaN gives NaN probabilities rather than wrong ones."""
    assert np.isnan(probabilities(np.array([np.nan, 1.0]))).all()


@pytest.mark.parametrize("outside", [True, False])
def test_gradient_and_information_match_finite_differences(outside: bool) -> None:
    """First and second derivatives agree with central differences, with batch axes and a mask."""
    rng = np.random.default_rng(3)
    x, theta = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=3)
    available = rng.random((2, 5, 4)) < 0.7
    available[..., 0] = True
    choice = np.where(rng.random((2, 5)) < 0.5, 0, -1 if outside else 0)

    def value(at: np.ndarray) -> np.ndarray:
        return log_likelihood(utilities(x, at), choice, available, outside=outside)

    def slope(at: np.ndarray) -> np.ndarray:
        return gradient(x, choice, at, available, outside=outside)

    h = 1e-5
    steps = h * np.eye(3)
    first = np.stack([(value(theta + s) - value(theta - s)) / (2 * h) for s in steps], axis=-1)
    second = np.stack([(slope(theta + s) - slope(theta - s)) / (2 * h) for s in steps], axis=-1)
    np.testing.assert_allclose(slope(theta), first, atol=1e-9)
    np.testing.assert_allclose(-information(x, theta, available, outside=outside), second, atol=1e-9)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e4, 1e8]))
def test_information_is_positive_semidefinite_under_a_large_common_offset(seed: int, offset: float) -> None:
    """Centring before squaring keeps every eigenvalue at or above zero up to rounding of the trace itself."""
    rng = np.random.default_rng(seed)
    x = offset + rng.normal(size=(5, 4))
    u = rng.normal(size=5)
    spread = moments(x, u, outside=False).spread
    h = spread.T @ spread
    assert np.linalg.eigvalsh(h)[0] >= -1e-12 * np.trace(h)
    centred = moments(x - offset, u, outside=False).spread
    np.testing.assert_allclose(h, centred.T @ centred, atol=1e-6 * max(1.0, offset * 1e-8))


def test_batch_axes_equal_a_loop() -> None:
    """Many visitors at once give what each gives alone."""
    rng = np.random.default_rng(5)
    x, theta = rng.normal(size=(3, 4, 6, 2)), rng.normal(size=(3, 1, 2))
    together = information(x, np.broadcast_to(theta, (3, 4, 2)))
    for a in range(3):
        for b in range(4):
            np.testing.assert_allclose(together[a, b], information(x[a, b], theta[a, 0]), atol=1e-15)
