"""Bound (B) of docs/proofs.md, section 9, as typed from the page, and losses known by the paper's quantities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.release.perturbation_curves import Loss, mean_length
from quietshelf.types import FloatArray


def smooth_loss(*, lipschitz: float, smoothness: float, rank: int, dim: int) -> Loss:
    """A loss with |gradient| <= L, Hessian eigenvalues <= eta and rank R, as Theorem 1 of the paper describes it."""
    difference = 2 * lipschitz
    return Loss(difference=difference, trace=rank * smoothness, rank=rank, width=difference * mean_length(dim))


def mean_width_bound(orders: ArrayLike, sigma: float, ridge: float, loss: Loss) -> FloatArray:
    """``R log(1 + h/(R Delta)) + W/sigma + alpha G²/(2 sigma²)`` at each order alpha."""
    determinant = loss.rank * math.log1p(loss.trace / (loss.rank * ridge))
    return determinant + loss.width / sigma + np.asarray(orders) * loss.difference**2 / (2 * sigma**2)
