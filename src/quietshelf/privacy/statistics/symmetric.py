"""Symmetric matrices as vectors of the same length: ``|svec(A)| = |A|_F``.

Noise that is isotropic in svec coordinates has variance s² on the diagonal and s²/2 off it: the least a symmetric
release needs (docs/proofs.md, section 8).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from quietshelf.model.types import FloatArray, IntArray


def svec_dim(dim: int) -> int:
    """Length of svec of a dim x dim matrix: dim (dim + 1) / 2."""
    return dim * (dim + 1) // 2


@cache
def _upper(dim: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Indices of the upper triangle in a matrix, its weights, and the index in svec of each entry of the matrix."""
    row, column = np.triu_indices(dim)
    place = np.zeros((dim, dim), dtype=np.int64)
    place[row, column] = place[column, row] = np.arange(row.size)
    return row * dim + column, np.where(row == column, 1.0, np.sqrt(2.0)), place.ravel()


def upper(matrix: FloatArray) -> FloatArray:
    """The upper triangle row by row, unweighted: (..., d, d) -> (..., d (d + 1) / 2)."""
    dim = matrix.shape[-1]
    return matrix.reshape(*matrix.shape[:-2], dim * dim).take(_upper(dim)[0], axis=-1)


def from_upper(vector: FloatArray, dim: int) -> FloatArray:
    """The symmetric matrix with a given upper triangle: (..., d (d + 1) / 2) -> (..., d, d)."""
    return vector.take(_upper(dim)[2], axis=-1).reshape(*vector.shape[:-1], dim, dim)


def svec_weights(dim: int) -> FloatArray:
    """What svec multiplies an upper triangle by, (d (d + 1) / 2,): 1 on the diagonal, sqrt 2 off it."""
    return _upper(dim)[1]


def interleaved(on: FloatArray, off: FloatArray) -> FloatArray:
    """Merge diagonal entries (..., d) and the others in the order of an upper triangle."""
    return np.concatenate([on, off], axis=-1).take(_order(on.shape[-1]), axis=-1)


@cache
def _order(dim: int) -> IntArray:
    """The index in (diagonal entries, other entries) of each entry of an upper triangle."""
    row, column = np.triu_indices(dim)
    return np.argsort(np.argsort(row != column, kind="stable"))


def svec(matrix: FloatArray) -> FloatArray:
    """The upper triangle row by row, off-diagonals times sqrt 2: (..., d, d) -> (..., d (d + 1) / 2)."""
    return upper(matrix) * _upper(matrix.shape[-1])[1]


def from_svec(vector: FloatArray, dim: int) -> FloatArray:
    """The symmetric matrix with a given svec: (..., d (d + 1) / 2) -> (..., d, d)."""
    return from_upper(vector / _upper(dim)[1], dim)
