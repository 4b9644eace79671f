"""Public geometry is what its closed form says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.privacy.release.curvatures import catalogue_curvature

from quietshelf.model.choice import information
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.geometry import coordinates, curvature_at_zero, floored, unknown_curvature


def average_over_subsets(x: np.ndarray, capacity: int) -> np.ndarray:
    subsets = list(itertools.combinations(range(len(x)), capacity))
    return np.asarray(np.mean([information(x[list(s)], np.zeros(x.shape[1])) for s in subsets], axis=0))


@pytest.mark.parametrize(("items", "capacity"), [(6, 1), (6, 3), (6, 6), (1, 1), (2, 2)])
def test_closed_form_equals_the_average_over_all_subsets(items: int, capacity: int) -> None:
    """The curvature at theta = 0 averaged over every K-subset, one by one."""
    x = np.random.default_rng(0).normal(size=(items, 3)) + 1.0
    mean = x.mean(0)
    closed = curvature_at_zero(x.T @ x / items, np.outer(mean, mean), items=items, capacity=capacity)
    np.testing.assert_allclose(closed, average_over_subsets(x, capacity), atol=1e-12)


@pytest.mark.parametrize("name", ["item", "concat", "outer", "full"])
@pytest.mark.parametrize("intercept", [True, False])
def test_catalogue_curvature_equals_an_average_over_visitors(name: str, intercept: bool) -> None:
    """Visitors at +- scale in each coordinate have the declared law's moments: averaged over them and all subsets."""
    catalogue = np.random.default_rng(1).normal(size=(5, 2)) + 0.5
    scale = np.array([0.5, 2.0])
    mapping = feature_map(name, intercept=intercept)
    visitors = [np.array(signs) * scale for signs in itertools.product([-1, 1], repeat=2)]
    expected = np.mean([average_over_subsets(mapping.dense(u, catalogue), 3) for u in visitors], axis=0)
    closed = catalogue_curvature(catalogue, mapping, visitor_scale=scale, capacity=3)
    np.testing.assert_allclose(closed, expected, atol=1e-12)


def test_coordinates_whiten_the_floored_curvature() -> None:
    """L Γ L' = I/d, with batch axes, after eigenvalues below 1 % of the largest were raised to it."""
    root = np.random.default_rng(2).normal(size=(3, 4, 4))
    curvature = root @ np.swapaxes(root, -1, -2)
    curvature[0] = np.diag([1.0, 1e-9, 0.5, 0.0])
    L = coordinates(curvature)
    np.testing.assert_allclose(
        L @ floored(curvature) @ np.swapaxes(L, -1, -2), np.broadcast_to(np.eye(4) / 4, (3, 4, 4)), atol=1e-9
    )
    assert np.linalg.eigvalsh(floored(curvature)[0])[0] == pytest.approx(0.01)


def test_unknown_curvature_gives_identity_coordinates() -> None:
    """I/d is the guess under which coordinates stay raw."""
    np.testing.assert_allclose(np.abs(coordinates(unknown_curvature(3))).sum(), 3.0)


def test_senseless_geometry_is_refused() -> None:
    """No curvature at all is an error."""
    with pytest.raises(ValueError, match="a curvature must have a positive eigenvalue"):
        coordinates(np.zeros((2, 2)))
