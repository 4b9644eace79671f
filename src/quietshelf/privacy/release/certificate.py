"""A bound on the gradient of the perturbed objective at a given theta, rounding included.

The proof of the private fit is about the exact minimiser. The objective is ridge-strongly convex, so theta is within
``bound / ridge`` of it, however theta was found. To first order in the unit roundoff u = 2^-53, with n rounds
of J places, |x| <= X and s = X |theta|:

    utility x . theta                      d s u
    log(1 + sum of exp)                    ((d + 3) s + J + 5 log(J+1) + 8) u      exp and log good to 8 u
    probability, relatively                ((2d + 5) s + J + 6 log(J+1) + 16) u
    one visitor's xbar - x_chosen          X times (the same + (J + 2) u)
    pairwise sum over n visitors           2 n X u per level of the tree
    + ridge (theta - centre) + b           4 u times the sum of their lengths

Reference: docs/proofs.md, section 12.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.choice import Fit, fit, gradient
from quietshelf.model.choice.dense import CHUNK
from quietshelf.model.types import BoolArray, FloatArray, IntArray

UNIT = 2.0**-53
HIGHER_ORDERS = 1.1
"""Room for terms of second order in u."""


Chunk = tuple[FloatArray, IntArray, BoolArray | None]
"""Features shown (..., m, J, d), place chosen (..., m), places that hold an item (..., m, J) or None for all."""


class Visits(Protocol):
    """Rounds to be fitted, however they are stored."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., n, J, d)."""

    @property
    def longest(self) -> float:
        """The largest norm of a row, over all worlds."""

    def chunks(self) -> Iterator[Chunk]:
        """All rounds as features, some at a time."""

    def fit(self, *, ridge: float, centre: FloatArray, linear: FloatArray, tol: float, start: ArrayLike) -> Fit:
        """The minimiser of the objective below."""


@dataclass(frozen=True, eq=False)
class DenseVisits:
    """Rounds stored as features.

    Attributes:
        rows: Features shown, (..., n, J, d).
        position: Place chosen, (..., n), -1 for none.
        offered: Places that hold an item, (..., n, J); None for all.
    """

    rows: FloatArray
    position: IntArray
    offered: BoolArray | None

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., n, J, d)."""
        return self.rows.shape

    @cached_property
    def longest(self) -> float:
        """The largest norm of a row, over all worlds."""
        return longest_row(self.rows)

    def chunks(self) -> Iterator[Chunk]:
        """All rounds as features, some at a time."""
        n = self.shape[-3]
        width = max(1, CHUNK // max(1, self.rows.size // max(n, 1)))
        for begin in range(0, n, width):
            part = slice(begin, begin + width)
            offered = None if self.offered is None else self.offered[..., part, :]
            yield self.rows[..., part, :, :], self.position[..., part], offered

    def fit(self, *, ridge: float, centre: FloatArray, linear: FloatArray, tol: float, start: ArrayLike) -> Fit:
        """The minimiser of the objective below."""
        data = (self.rows, self.position, self.offered)
        return fit(*data, ridge=ridge, centre=centre, linear=linear, tol=tol, start=start)


class Objective(NamedTuple):
    """``sum of losses + ridge/2 |theta - centre|² + linear . theta``; every field but the ridge has batch axes.

    Attributes:
        visits: The rounds that make the losses.
        ridge: The paper's Delta.
        centre: Where the ridge pulls to, (..., d).
        linear: b, (..., d).
    """

    visits: Visits
    ridge: float
    centre: FloatArray
    linear: FloatArray


@dataclass(frozen=True)
class Certificate:
    """How exact a minimiser is. Computed from raw data without noise, so it must not be published.

    Attributes:
        gradient_norm: Norm of the gradient of the whole objective, as evaluated, (...).
        rounding: A bound on the error of that evaluation, (...).
    """

    gradient_norm: FloatArray
    rounding: FloatArray

    @property
    def bound(self) -> FloatArray:
        """A bound on the norm of the true gradient, (...)."""
        return self.gradient_norm + self.rounding


def certify(objective: Objective, theta: FloatArray) -> Certificate:
    """Evaluate the gradient at theta (..., d), independently of the solver, and bound the error."""
    n, places, dim = objective.visits.shape[-3:]
    slope, depth = _summed(objective.visits, theta)
    away = theta - objective.centre
    norm = np.linalg.norm(slope + (objective.ridge * away + objective.linear), axis=-1)
    longest = objective.visits.longest
    size = longest * np.linalg.norm(theta, axis=-1)
    relative = np.expm1(UNIT * ((2 * dim + 5) * size + places + 6 * math.log1p(places) + 16))
    one = longest * (relative + (places + 2) * UNIT)
    pull = objective.ridge * np.linalg.norm(away, axis=-1) + np.linalg.norm(objective.linear, axis=-1)
    terms = n * one + UNIT * (2 * (depth + 4) * n * longest + 4 * pull + (dim + 4) * norm)
    return Certificate(norm, HIGHER_ORDERS * terms)


def longest_row(rows: FloatArray) -> float:
    """The largest norm of a row, over all worlds."""
    return math.sqrt(np.einsum("...d,...d->...", rows, rows).max(initial=0.0))


def _summed(visits: Visits, theta: FloatArray) -> tuple[FloatArray, int]:
    """The sum of the gradients of all losses, in chunks and pairwise, and the depth of the tree of additions."""
    sums: list[FloatArray] = [np.zeros(theta.shape)]
    deepest = 0
    for rows, position, offered in visits.chunks():
        each, levels = _pairwise(-gradient(rows, position, theta[..., None, :], offered))
        sums.append(each)
        deepest = max(deepest, levels)
    total, levels = _pairwise(np.stack(sums, axis=-2))
    return total, deepest + levels


def _pairwise(terms: FloatArray) -> tuple[FloatArray, int]:
    """Sum over the axis before the last by halving it; also return the number of halvings."""
    levels = 0
    while terms.shape[-2] > 1:
        half = terms.shape[-2] // 2
        rest = terms[..., 2 * half :, :]
        terms = np.concatenate([terms[..., :half, :] + terms[..., half : 2 * half, :], rest], axis=-2)
        levels += 1
    return terms[..., 0, :], levels
