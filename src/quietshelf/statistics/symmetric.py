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
def _upper(dim: int) -> tuple[IntArray, IntArray, FloatArray]:
    row, column = np.triu_indices(dim)
    return row, column, np.where(row == column, 1.0, np.sqrt(2.0))


def svec(matrix: FloatArray) -> FloatArray:
    """The upper triangle row by row, off-diagonals times sqrt 2: (..., d, d) -> (..., d (d + 1) / 2)."""
    row, column, weight = _upper(matrix.shape[-1])
    result: FloatArray = matrix[..., row, column] * weight
    return result


def from_svec(vector: FloatArray, dim: int) -> FloatArray:
    """The symmetric matrix of an svec: (..., d (d + 1) / 2) -> (..., d, d)."""
    row, column, weight = _upper(dim)
    matrix = np.zeros((*vector.shape[:-1], dim, dim))
    matrix[..., row, column] = vector / weight
    matrix[..., column, row] = matrix[..., row, column]
    return matrix
