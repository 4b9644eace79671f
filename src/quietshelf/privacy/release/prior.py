"""The prior on tastes before the first release: utilities of items differ by about 1, at the declared conversion.

It has two independent normal parts. *Tastes*: what distinguishes items. A priori utilities have standard deviation 1
over items; the releases show how strong tastes really are (`records`). *Level*: what all items share, the direction
with x . theta = 1 for every item, if there is one. Its mean is that at which the declared conversion would be seen.
Everything here is public.

Item effects, the last places of x, are tastes of mean zero with a spread of their own: a new item starts where its
features put it. If items have no features, only effects distinguish them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray

UNDECLARED = 0.2
"""Share of visitors who choose something, if undeclared."""
DOUBT, IGNORANCE = 1.0, 2.0
"""Standard deviations of the level if conversion is declared, and if not."""
SMALLEST, LARGEST = 1e-100, 1e100
"""Limits of second moments and priors: beyond them computations would overflow, so nothing counts as known."""
FLOOR = 0.1
"""Variances of features are floored at this share of their mean."""
ALIKE = 1e-9
"""If that mean is a smaller share of their mean square, all items are the same up to rounding."""
CONSTANT = 0.98
"""A direction counts as the level if it explains at least this share of the constant."""


EFFECT_SPREAD = 0.5
"""Standard deviation of item effects, relative to that of the utilities that features explain."""


class Prior(NamedTuple):
    """Theta (..., d), and the precision of its two parts, tastes and level, (..., d, d) each."""

    theta: FloatArray
    tastes: FloatArray
    level: FloatArray

    @property
    def precision(self) -> FloatArray:
        """The precision of both parts together."""
        return self.tastes + self.level

    def informed(self, theta: FloatArray, precision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Combine the prior with an independent estimate of this precision; where that is vague, the prior decides."""
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
        mean: Mean of x over items and visitors.
        second: Second moment of x over items and visitors.
        conversion: Declared share of visitors who choose something; None if undeclared.
        capacity: K.
        effects: How many of the last places of x are item effects.
        spread: Standard deviation of effects, as `EFFECT_SPREAD`.
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
    tastes = (vectors * (dim * values)[..., None, :]) @ vectors.mT
    tiny = 1e-9 * np.trace(second, axis1=-2, axis2=-1)[..., None, None] + np.finfo(float).tiny
    level = np.linalg.solve(second + tiny * np.eye(dim), mean[..., None])[..., 0]
    return _Law(tastes, level, (level * mean).sum(-1) > CONSTANT)


def _with_effects(plain: _Law, effects: int, spread: float) -> _Law:
    """Add effects to features; if features have no level, the effects together are the level."""
    dim = plain.level.shape[-1]
    tastes = np.zeros((*plain.level.shape[:-1], dim + effects, dim + effects))
    tastes[..., :dim, :dim] = plain.tastes
    tastes[..., dim:, dim:] = np.eye(effects) / spread**2
    known = plain.known[..., None]
    rest = np.broadcast_to(np.where(known, 0.0, 1.0), (*plain.known.shape, effects))
    level = np.concatenate([np.where(known, plain.level, 0.0), rest], axis=-1)
    return _Law(tastes, level, np.ones_like(plain.known))


def combined(*beliefs: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Combine independent beliefs (theta, precision): precisions add up, and weigh the thetas.

    >>> combined((np.zeros(1), np.eye(1)), (np.ones(1), 3 * np.eye(1)))
    (array([0.75]), array([[4.]]))
    """
    precision = sum((each for _, each in beliefs), np.zeros(()))
    pull = sum(((each @ theta[..., None])[..., 0] for theta, each in beliefs), np.zeros(()))
    return np.linalg.solve(precision, pull[..., None])[..., 0], precision
