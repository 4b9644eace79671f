"""What is believed of tastes before the first release: utilities of items differ by about 1, and so many buy.

Two independent parts, both normal. *Tastes*: whatever tells items apart. A priori utilities have the standard deviation
1 over items; how strong tastes really are is read from the releases (`records`). *Level*: what all items share, the
direction with x . theta = 1 for every item, if there is one. Its mean is that at which the declared conversion would be
seen. Everything here is public.

Item effects, the last places of x, are tastes of mean zero and a spread of their own: an item of which nothing is known
yet stands where its features put it. Where items have no features, effects are all that tells them apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray

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


EFFECT_SPREAD = 0.5
"""Standard deviation of item effects, over that of utilities that features explain."""


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


class _Law(NamedTuple):
    """Precision of tastes (..., d, d); the direction of the level (..., d), and whether there is one (...)."""

    tastes: FloatArray
    level: FloatArray
    known: BoolArray


def prior_of(
    mean: FloatArray,
    second: FloatArray,
    *,
    conversion: float | None,
    capacity: int,
    effects: int = 0,
    spread: float = EFFECT_SPREAD,
) -> Prior:
    """The prior for features of this mean (..., d) and second moment (..., d, d).

    Args:
        mean: Of x over items and visitors.
        second: Of x, likewise.
        conversion: Declared share of visitors who choose something; None if nobody said.
        capacity: K.
        effects: How many of the last places of x are item effects.
        spread: Of effects, as `EFFECT_SPREAD`.
    """
    plain = slice(mean.shape[-1] - effects or None)
    law = _of_moments(mean[..., plain], second[..., plain, plain])
    if 0 < effects < mean.shape[-1]:
        law = _with_effects(law, effects, spread)
    share = UNDECLARED if conversion is None else conversion
    theta = np.where(law.known, math.log(share / (1 - share) / capacity), 0.0)[..., None] * law.level
    along = (law.tastes @ law.level[..., None])[..., 0]
    amount = np.where(law.known, (law.level * along).sum(-1), 1.0)[..., None, None]
    outer = np.where(law.known[..., None, None], along[..., :, None] * along[..., None, :], 0.0)
    doubt = IGNORANCE if conversion is None else DOUBT
    return Prior(theta, law.tastes - outer / amount, outer / (amount * doubt) ** 2)


def _of_moments(mean: FloatArray, second: FloatArray) -> _Law:
    dim = mean.shape[-1]
    values, vectors = np.linalg.eigh(second - mean[..., :, None] * mean[..., None, :])
    usual, size = values.mean(-1, keepdims=True), np.trace(second, axis1=-2, axis2=-1)[..., None] / dim
    usual = np.where(usual > ALIKE * size, usual, np.where(size > 0, size, 1.0))
    values = np.maximum(values, FLOOR * usual)
    tastes = (vectors * (dim * values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    tiny = 1e-9 * np.trace(second, axis1=-2, axis2=-1)[..., None, None] + np.finfo(float).tiny
    level = np.linalg.solve(second + tiny * np.eye(dim), mean[..., None])[..., 0]
    return _Law(tastes, level, (level * mean).sum(-1) > CONSTANT)


def _with_effects(plain: _Law, effects: int, spread: float) -> _Law:
    """With effects beside features; all of them together are the level where features have none."""
    dim = plain.level.shape[-1]
    tastes = np.zeros((*plain.level.shape[:-1], dim + effects, dim + effects))
    tastes[..., :dim, :dim] = plain.tastes
    tastes[..., dim:, dim:] = np.eye(effects) / spread**2
    known = plain.known[..., None]
    rest = np.broadcast_to(np.where(known, 0.0, 1.0), (*plain.known.shape, effects))
    level = np.concatenate([np.where(known, plain.level, 0.0), rest], axis=-1)
    return _Law(tastes, level, np.ones_like(plain.known))


def combined(*beliefs: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """(theta, precision) of independent beliefs together: precisions add up, and weigh the thetas.

    >>> combined((np.zeros(1), np.eye(1)), (np.ones(1), 3 * np.eye(1)))
    (array([0.75]), array([[4.]]))
    """
    precision = sum((each for _, each in beliefs), np.zeros(()))
    pull = sum(((each @ theta[..., None])[..., 0] for theta, each in beliefs), np.zeros(()))
    return np.linalg.solve(precision, pull[..., None])[..., 0], precision
