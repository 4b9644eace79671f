"""Clipping bounds features; the Gram matrix of a visitor moves by at most sqrt(2) K."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.privacy.statistics import clip, from_svec, gram, gram_sensitivity, svec, svec_dim


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 5), st.sampled_from([1e-3, 1.0, 1e200, 1e308]))
def test_clipped_grams_differ_by_at_most_the_sensitivity(seed: int, places: int, dim: int, size: float) -> None:
    """Whatever the features were, after clipping two visitors' Gram matrices are within sqrt(2) K."""
    rng = np.random.default_rng(seed)
    grams = []
    for _ in range(2):
        rows = clip(size * (rng.random((places, dim)) - 0.5), radius=10 ** rng.uniform(-2, 2))
        assert (np.linalg.norm(rows, axis=-1) <= 1 + 1e-15).all()
        grams.append(gram(rows))
    assert np.linalg.norm(grams[0] - grams[1]) <= gram_sensitivity(places) * (1 + 1e-12)


def test_gram_sensitivity_is_attained_and_the_papers_is_exceeded() -> None:
    """K times e1 against K times e2: sqrt(2) K, not sqrt(2 K)."""
    one, other = np.tile([1.0, 0.0], (10, 1)), np.tile([0.0, 1.0], (10, 1))
    moved = np.linalg.norm(gram(one) - gram(other))
    assert moved == pytest.approx(math.sqrt(2) * 10)
    assert moved == pytest.approx(gram_sensitivity(10))
    assert moved > 3 * math.sqrt(2 * 10)


def test_clip_keeps_directions_and_short_vectors() -> None:
    """Inside the radius only the unit changes; outside, the direction is kept; zero stays zero."""
    x = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(clip(x, radius=1.0), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(clip(x, radius=10.0), x / 10)


@pytest.mark.parametrize("radius", [1e-300, 1e-150, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("size", [1e-300, 1e-165, 1.0, 1e149, 1e151, 1e300])
def test_clipped_features_are_in_the_unit_ball_at_any_scale(radius: float, size: float) -> None:
    """Squares may vanish or overflow: no clipped vector is longer than one but for rounding, and directions stay."""
    x = size * np.random.default_rng(3).normal(size=(50, 4))
    clipped = clip(x, radius)
    assert np.isfinite(clipped).all()
    assert np.linalg.norm(clipped, axis=-1).max() <= 1 + 1e-12
    assert (np.sign(clipped) * np.sign(x) >= 0).all()


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_svec_is_an_isometry_and_invertible(seed: int, dim: int) -> None:
    """Lengths are kept and the matrix comes back."""
    a = np.random.default_rng(seed).normal(size=(3, dim, dim))
    a = a + np.swapaxes(a, -1, -2)
    assert svec(a).shape == (3, svec_dim(dim))
    np.testing.assert_allclose(np.linalg.norm(svec(a), axis=-1), np.linalg.norm(a, axis=(-2, -1)), rtol=1e-12)
    np.testing.assert_allclose(from_svec(svec(a), dim), a, rtol=1e-15)
