"""Clipped features and their Gram matrix, the statistic of the paper's PrivateCov.

Contribution: ``A = sum of x x'`` over the items one visitor was shown, every |x| <= 1 after clipping.
Neighbours: one visitor replaced.
Sensitivity: sqrt(2) K in Frobenius norm, attained by K times e1 against K times e2. The paper's sqrt(2 K) drops the
    cross terms 2 (x_i . x_j)² and holds for K = 1 only.
Reference: docs/proofs.md, section 8.
"""

from __future__ import annotations

import math

import numpy as np

from quietshelf.model.types import FloatArray, positive

ORDINARY = 1e150
"""Squares of smaller numbers do not overflow; a length whose square underflows is far below any radius above 1/this."""


def clip(features: FloatArray, radius: float = 1.0) -> FloatArray:
    """``x min(1, radius/|x|) / radius``: features in the unit ball, for a public radius; (..., d).

    >>> clip(np.array([[3.0, 4.0], [0.3, 0.4]]), radius=1.0)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    positive("radius", radius)
    with np.errstate(over="ignore", invalid="ignore"):  # overflowing lengths are not used
        length = np.sqrt(np.einsum("...d,...d->...", features, features))[..., None]
        clipped = np.asarray(features / np.maximum(length, radius))
    if radius > 1 / ORDINARY and np.abs(features).max(initial=0.0) < ORDINARY:
        return clipped  # what the general case below gives, sooner
    ordinary = (np.abs(features) < ORDINARY).all(axis=-1, keepdims=True) & (radius > 1 / ORDINARY)
    return np.where(ordinary, clipped, _clip_far(features, radius))


def _clip_far(features: FloatArray, radius: float) -> FloatArray:
    """`clip` where squares of features, or of the radius, overflow or underflow."""
    largest = np.abs(features).max(axis=-1, keepdims=True, initial=0.0)
    unit = features / np.where(largest > 0, largest, 1.0)  # so that squares cannot overflow
    length = np.linalg.norm(unit, axis=-1, keepdims=True)
    with np.errstate(over="ignore"):  # an overflow is beyond the radius, and clipped
        over = largest * length > radius
        return np.where(over, unit / np.where(over, length, 1.0), features / radius)


def gram(rows: FloatArray) -> FloatArray:
    """``sum over places of x x'``: (..., K, d) -> (..., d, d)."""
    return rows.mT @ rows


def gram_sensitivity(capacity: int) -> float:
    """The most that replacing one visitor moves the Gram sum, in Frobenius norm: sqrt(2) K for |x| <= 1."""
    return math.sqrt(2.0) * capacity
