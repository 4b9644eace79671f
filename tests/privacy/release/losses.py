"""A loss by the quantities of the paper's Theorem 1, and what that theorem proves of it once repaired."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.perturbation_curves import Loss, mean_length


def smooth_loss(*, lipschitz: float, smoothness: float, rank: int, dim: int) -> Loss:
    """A loss with |gradient| <= L, Hessian eigenvalues <= eta, Hessian rank R."""
    difference = 2.0 * lipschitz
    return Loss(difference=difference, trace=rank * smoothness, rank=rank, width=difference * mean_length(dim))


def repaired_bound(orders: ArrayLike, sigma: float, ridge: float, loss: Loss) -> FloatArray:
    """(B) alone, at each order: what Theorem 1 proves once the Jensen step of its proof is repaired."""
    offset = loss.rank * math.log1p(loss.trace / (loss.rank * ridge)) + loss.width / sigma
    return np.asarray(offset + np.asarray(orders) * (loss.difference / sigma) ** 2 / 2)
