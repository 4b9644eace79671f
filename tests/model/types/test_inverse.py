"""Many small inverses at once."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.model.types import FloatArray
from quietshelf.model.types.inverse import LARGEST, symmetric_inverse


def definite(rng: np.random.Generator, *shape: int, spread: float = 1.0) -> FloatArray:
    """Random positive definite matrices whose eigenvalues range over this many powers of ten."""
    q, _ = np.linalg.qr(rng.normal(size=shape))
    values = 10 ** (spread * rng.uniform(-0.5, 0.5, size=shape[:-1]))
    return np.asarray((q * values[..., None, :]) @ np.swapaxes(q, -1, -2))


@pytest.mark.parametrize("dim", [1, 2, 5, LARGEST, LARGEST + 1, 20])
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_inverse_is_as_exact_as_the_matrix_allows(dim: int, spread: float) -> None:
    """Within 100 roundings times the condition number of the exact one, symmetric to the last bit."""
    matrix = definite(np.random.default_rng(1), 40, 3, dim, dim, spread=spread)
    inverse = symmetric_inverse(matrix)
    error = np.linalg.norm(inverse @ matrix - np.eye(dim), axis=(-2, -1))
    assert (error <= 100 * dim * np.finfo(float).eps * np.linalg.cond(matrix)).all()
    np.testing.assert_array_equal(inverse, np.swapaxes(inverse, -1, -2))


@pytest.mark.parametrize("dim", [3, LARGEST, LARGEST + 1])
def test_a_matrix_does_not_depend_on_those_beside_it(dim: int) -> None:
    """One of thirty has, to the last bit, the inverse it has alone."""
    matrix = definite(np.random.default_rng(2), 30, dim, dim)
    together = symmetric_inverse(matrix)
    for place in (0, 17, 29):
        np.testing.assert_array_equal(together[place], symmetric_inverse(matrix[place]))


def test_a_vanished_pivot_is_left_to_another_method() -> None:
    """A matrix whose first pivot is zero still has its inverse, beside one that needs no help."""
    matrix = np.array([[[0.0, 1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 4.0]]])
    np.testing.assert_allclose(symmetric_inverse(matrix), [matrix[0], np.diag([0.5, 0.25])])
