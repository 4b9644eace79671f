"""What is believed of tastes before the first release: utilities of items differ by about 1, and so many buy.

Two independent parts, both normal. *Tastes*: whatever tells items apart. A priori utilities have the standard deviation
1 over items; how strong tastes really are is read from the releases (`records`). *Level*: what all items share, the
direction with x . theta = 1 for every item, if there is one. Its mean is that at which the declared conversion would be
seen. Everything here is public.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quietshelf.types import FloatArray

UNDECLARED = 0.2
"""Share of visitors who choose something, where nobody said."""
DOUBT, IGNORANCE = 1.0, 2.0
"""Standard deviations of the level where conversion is declared, and where it is not."""
SMALLEST, LARGEST = 1e-100, 1e100
"""Of second moments and priors: beyond them nothing is taken to be known, for what is made of them would overflow."""
FLOOR = 0.1
"""Variances of features are floored at this share of their mean."""
ALIKE = 1e-9
"""If that mean is a smaller share of their mean square, all items are alike, but for rounding."""
CONSTANT = 0.98
"""A direction counts as that of the level if it explains so much of the constant."""


class Prior(NamedTuple):
    """Theta (..., d), and the precision of its two parts, tastes and level, (..., d, d) each."""

    theta: FloatArray
    tastes: FloatArray
    level: FloatArray

    @property
    def precision(self) -> FloatArray:
        """Of both together."""
        return self.tastes + self.level

    def informed(self, theta: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(theta, precision) after an independent estimate of this precision: where it is vague, the prior speaks."""
        return combined((self.theta, self.precision), (theta, precision))


def prior_of(mean: FloatArray, second: FloatArray, *, conversion: float | None, capacity: int) -> Prior:
    """The prior for features of this mean (..., d) and second moment (..., d, d).

    Args:
        mean: Of x over items and visitors.
        second: Of x, likewise.
        conversion: Declared share of visitors who choose something; None if nobody said.
        capacity: K.
    """
    dim = mean.shape[-1]
    values, vectors = np.linalg.eigh(second - mean[..., :, None] * mean[..., None, :])
    usual, size = values.mean(-1, keepdims=True), np.trace(second, axis1=-2, axis2=-1)[..., None] / dim
    usual = np.where(usual > ALIKE * size, usual, np.where(size > 0, size, 1.0))
    values = np.maximum(values, FLOOR * usual)
    tastes = (vectors * (dim * values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    tiny = 1e-9 * np.trace(second, axis1=-2, axis2=-1)[..., None, None] + np.finfo(float).tiny
    level = np.linalg.solve(second + tiny * np.eye(dim), mean[..., None])[..., 0]
    known = (level * mean).sum(-1) > CONSTANT
    share = UNDECLARED if conversion is None else conversion
    theta = np.where(known, math.log(share / (1 - share) / capacity), 0.0)[..., None] * level
    along = (tastes @ level[..., None])[..., 0]
    amount = np.where(known, (level * along).sum(-1), 1.0)[..., None, None]
    outer = np.where(known[..., None, None], along[..., :, None] * along[..., None, :], 0.0)
    doubt = IGNORANCE if conversion is None else DOUBT
    return Prior(theta, tastes - outer / amount, outer / (amount * doubt) ** 2)


def combined(*beliefs: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """(theta, precision) of independent beliefs together: precisions add up, and weigh the thetas.

    >>> combined((np.zeros(1), np.eye(1)), (np.ones(1), 3 * np.eye(1)))
    (array([0.75]), array([[4.]]))
    """
    precision = sum((each for _, each in beliefs), np.zeros(()))
    pull = sum(((each @ theta[..., None])[..., 0] for theta, each in beliefs), np.zeros(()))
    return np.linalg.solve(precision, pull[..., None])[..., 0], precision
