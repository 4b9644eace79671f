"""Invert many small symmetric matrices at once."""

from __future__ import annotations

import numpy as np

from quietshelf.model.types.validation import FloatArray

LARGEST = 8
"""Matrices larger than this go to LAPACK, one call each."""


def symmetric_inverse(matrix: FloatArray) -> FloatArray:
    """Invert positive definite matrices (..., d, d); the result is symmetric to the last bit.

    Small matrices are swept pivot by pivot, all at once, with elementwise operations only, so the inverse of a matrix
    does not depend on the others in the batch.

    >>> symmetric_inverse(np.array([[2.0, 1.0], [1.0, 1.0]]))
    array([[ 1., -1.],
           [-1.,  2.]])
    """
    dim = matrix.shape[-1]
    if dim > LARGEST:
        inverse = np.linalg.inv(matrix)
        return np.asarray(0.5 * (inverse + inverse.mT))
    columns = matrix.reshape(-1, dim * dim).T.reshape(dim, dim, -1).copy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for place in range(dim):
            _sweep(columns, place)
    swept = np.ascontiguousarray(columns.reshape(dim * dim, -1).T).reshape(matrix.shape)
    if not np.isfinite(swept).all():  # so close to singular that a pivot vanished
        lost = ~np.isfinite(swept).all((-2, -1))
        swept[lost] = -np.linalg.inv(matrix[lost])
    return np.asarray(-0.5 * (swept + swept.mT))


def _sweep(a: FloatArray, place: int) -> None:
    """Sweep one pivot of matrices (d, d, n) in place; sweeping every pivot gives minus the inverse."""
    pivot = a[place, place].copy()
    row = a[place].copy()
    column = a[:, place] / pivot
    a -= row[None] * column[:, None]
    a[place] = row / pivot
    a[:, place] = column
    a[place, place] = -1.0 / pivot
