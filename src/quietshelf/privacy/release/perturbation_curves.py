"""The cost of objective perturbation for any convex loss: Rényi curves and the zCDP cost that follows.

The mechanism (the paper's Equation "objective perturbation", with a public centre c): the exact minimiser over R^d of

    sum of losses + ridge/2 |theta - c|² + b . theta,      b ~ N(0, sigma² I)

With G, h, R, W of a ``Loss``, q = G²/(2 sigma²) and t = h/ridge, replacing one record costs, at every order alpha > 1,

    (A)  D <= alpha q - log(1 - alpha (alpha-1) t²/(1+t)) / (alpha-1)     Theorem A: alpha < 1 + 1/t, t + t² <= 1
    (B)  D <= R log(1 + h/(R ridge)) + W/sigma + alpha q                  the paper's Theorem 1, its proof repaired

(alpha-1) D is convex, so it also lies below the segment between any point of (A) and any later point of (B): the lower
envelope follows (A) up to one order, their common tangent, then (B). The largest D/alpha, the cost in zCDP, is found
exactly: (A)/alpha increases, (B)/alpha decreases, and on a line through zero at z the ratio line/(alpha (alpha-1)) is
largest at z + sqrt(z² - z). Errors in placing the tangent cost a little but invalidate nothing.

Reference: docs/proofs.md, sections 9 to 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.types import FloatArray, finite, integer, positive, require

RIDGE_FLOOR = 1.62
"""Theorem A is used for t + t² <= 1, the short case of its proof; that is ridge >= 1.618... h."""
ROUNDING = 1e-10
"""Relative addition to every bound: more than float64 can lose while 1 - alpha (alpha-1) t²/(1+t) >= CLOSEST."""
CLOSEST = 1e-6
LEAST = 1e-280
"""Keeps q and t² positive where sigma² and ridge² overflow; rounding them up is safe."""
HALVINGS = 60


class Perturbation(NamedTuple):
    """What is added to the objective: noise of standard deviation ``sigma`` and a ridge (the paper's Delta)."""

    sigma: float
    ridge: float


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Bounds on one record's convex, twice continuously differentiable loss, valid at every theta.

    Attributes:
        difference: G, the most by which the gradients of two records differ.
        trace: h, the largest trace of a Hessian.
        rank: R, the largest rank of a Hessian.
        width: W with E f(b) <= sigma W for a G-Lipschitz f, f(b) >= b . (difference of gradients); for example
            G E|N(0, I)|.
    """

    difference: float
    trace: float
    rank: int
    width: float

    def __post_init__(self) -> None:
        for name in ("difference", "trace", "width"):
            positive(name, getattr(self, name))
        integer("rank", self.rank)


def mean_length(dim: int) -> float:
    """``E|N(0, I)|`` in ``dim`` dimensions, sqrt(2) Gamma((d+1)/2) / Gamma(d/2) < sqrt(d)."""
    half = integer("dim", dim) / 2
    return math.sqrt(2.0) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))


def renyi_bound(orders: ArrayLike, sigma: float, ridge: float, loss: Loss) -> FloatArray:
    """A bound on the Rényi divergence at each order above 1; infinite without noise or ridge.

    >>> logistic = Loss(difference=2.0, trace=0.25, rank=1, width=2.0 * mean_length(3))
    >>> renyi_bound([2.0, 8.0], 10.0, 5.0, logistic).round(3)
    array([0.045, 0.18 ])
    """
    alpha = _orders(orders)
    if not _perturbed(sigma, ridge):
        return np.full(alpha.shape, np.inf)
    return _envelope(sigma, ridge, loss).at(alpha) * (1 + ROUNDING)


def proven_rho(sigma: float, ridge: float, loss: Loss) -> float:
    """The zCDP cost, proven at all orders at once by the envelope; infinite without noise or ridge."""
    if not _perturbed(sigma, ridge):
        return math.inf
    return _envelope(sigma, ridge, loss).rho() * (1 + ROUNDING)


def repaired_rho(sigma: float, ridge: float, loss: Loss) -> float:
    """The zCDP cost by (B) alone: ``R log(1 + h/(R ridge)) + W/sigma + G²/(2 sigma²)``."""
    if not _perturbed(sigma, ridge):
        return math.inf
    return (_offset(sigma, ridge, loss) + _gaussian(sigma, loss)) * (1 + ROUNDING)


class _Envelope(NamedTuple):
    """(alpha-1) D: (A) up to the order ``first``, a segment up to ``second``, then (B); (B) alone if ``first`` is 1."""

    gaussian: float
    curvature: float
    offset: float
    first: float
    second: float

    def at(self, alpha: FloatArray) -> FloatArray:
        """D at each order."""
        early = np.minimum(alpha, self.first)
        a = early * self.gaussian - np.log1p(-early * (early - 1) * self.curvature) / np.maximum(early - 1, LEAST)
        b = self.offset + alpha * self.gaussian
        start, slope = self._segment()
        between = (start + slope * (alpha - self.first)) / (alpha - 1)
        return np.where(alpha >= self.second, b, np.where(alpha > self.first, between, a))

    def rho(self) -> float:
        """The largest D/alpha."""
        if self.first == 1:
            return self.offset + self.gaussian
        orders = [self.first, self.second]
        if self.second > self.first:
            start, slope = self._segment()
            zero = max(1.0, self.first - start / slope)
            orders.append(min(max(zero + math.sqrt(zero * (zero - 1)), self.first), self.second))
        return float((self.at(np.array(orders)) / orders).max())

    def _segment(self) -> tuple[float, float]:
        """Value of (alpha-1) D at ``first``, and its slope from there to ``second``."""
        first, second = self.first, self.second
        start = first * (first - 1) * self.gaussian - math.log1p(-first * (first - 1) * self.curvature)
        end = (second - 1) * (self.offset + second * self.gaussian)
        return start, (end - start) / (second - first) if second > first else 0.0


def _envelope(sigma: float, ridge: float, loss: Loss) -> _Envelope:
    gaussian, offset = _gaussian(sigma, loss), _offset(sigma, ridge, loss)
    t = loss.trace / ridge
    if t * (1 + t) > 1:  # beyond the short case of the proof
        return _Envelope(gaussian, 0.0, offset, 1.0, 1.0)
    curvature = max(t * t / (1 + t), LEAST)
    first = _tangent(gaussian, curvature, offset)
    rise = (2 * first - 1) * curvature / (1 - first * (first - 1) * curvature)
    return _Envelope(gaussian, curvature, offset, first, first + max(rise - offset, 0.0) / (2 * gaussian))


def _tangent(gaussian: float, curvature: float, offset: float) -> float:
    """The order at which the tangent of (A) also touches (B), by halving.

    With a(alpha) = -log(1 - alpha (alpha-1) curvature) and k = a' - offset, the tangent at alpha touches (B), which is
    quadratic, k/(2 gaussian) further on, where k²/(4 gaussian) = offset (alpha-1) - a; before that order it misses.
    """
    low, high = 1.0, (1 + math.sqrt(1 + 4 * (1 - CLOSEST) / curvature)) / 2
    for _ in range(HALVINGS):
        alpha = (low + high) / 2
        inside = alpha * (alpha - 1) * curvature
        k = (2 * alpha - 1) * curvature / (1 - inside) - offset
        misses = k <= 0 or k * k / (4 * gaussian) < offset * (alpha - 1) + math.log1p(-inside)
        low, high = (alpha, high) if misses else (low, alpha)
    return high


def _gaussian(sigma: float, loss: Loss) -> float:
    return max((loss.difference / sigma) ** 2 / 2, LEAST)


def _offset(sigma: float, ridge: float, loss: Loss) -> float:
    return loss.rank * math.log1p(loss.trace / (loss.rank * ridge)) + loss.width / sigma


def _perturbed(sigma: float, ridge: float) -> bool:
    for name, value in (("sigma", sigma), ("ridge", ridge)):
        finite(name, value, shape=())
    return sigma > 0 and ridge > 0


def _orders(orders: ArrayLike) -> FloatArray:
    alpha = finite("orders", orders)
    require(bool(np.all(alpha > 1)), "orders must be above 1", orders=orders)
    return alpha
