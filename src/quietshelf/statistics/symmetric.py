"""Symmetric matrices as vectors, lengths kept: ``|svec(A)| = |A|_F``.

Noise that is round in svec coordinates has variance s² on the diagonal and s²/2 off it: the least a symmetric release
needs (docs/proofs.md, section 8).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from quietshelf.types import FloatArray, IntArray


def svec_dim(dim: int) -> int:
    """Length of svec of a dim x dim matrix: dim (dim + 1) / 2."""
    return dim * (dim + 1) // 2


@cache
def _upper(dim: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Where the upper triangle stands in a matrix, its weights, and where each entry of the matrix stands in svec."""
    row, column = np.triu_indices(dim)
    place = np.zeros((dim, dim), dtype=np.int64)
    place[row, column] = place[column, row] = np.arange(row.size)
    return row * dim + column, np.where(row == column, 1.0, np.sqrt(2.0)), place.ravel()


def svec(matrix: FloatArray) -> FloatArray:
    """The upper triangle row by row, off-diagonals times sqrt 2: (..., d, d) -> (..., d (d + 1) / 2)."""
    dim = matrix.shape[-1]
    upper, weight, _ = _upper(dim)
    result: FloatArray = matrix.reshape(*matrix.shape[:-2], dim * dim).take(upper, axis=-1) * weight
    return result


def from_svec(vector: FloatArray, dim: int) -> FloatArray:
    """The symmetric matrix of an svec: (..., d (d + 1) / 2) -> (..., d, d)."""
    _, weight, place = _upper(dim)
    return (vector / weight).take(place, axis=-1).reshape(*vector.shape[:-1], dim, dim)
