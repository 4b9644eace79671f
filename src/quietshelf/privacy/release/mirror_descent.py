"""The online mirror-descent estimate of OFU-MNL+ (Lee & Oh 2024): constant work per round, no history.

With l_t the loss of round t (minus its log-likelihood), G_t its information and H_1 = ridge I:

    theta_(t+1) = argmin over |theta| <= bound of  grad l_t(theta_t) . theta + |theta - theta_t|²_W / (2 eta),
    W = H_t + eta G_t(theta_t),        H_(t+1) = H_t + G_t(theta_(t+1)),        eta = log(K + 1)/2 + bound + 1

The minimiser is the step ``theta_t - eta W^-1 grad`` projected onto the ball in the norm of W, exactly, by the root of
a scalar equation. The analysis needs ridge = 84 sqrt(2) d eta and a radius of order sqrt(d) log t log K, with constants
so large that ten thousand rounds teach nothing; the defaults keep only the orders: ridge = d eta, and scale 0.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quietshelf.model.choice import chosen_features, moments, utilities
from quietshelf.model.types import FloatArray, Release, Round, integer, positive
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.exact import Exact, Radius, exact_ledger
from quietshelf.privacy.statistics import ObservedChoice

STEPS = 100
"""Newton steps on the multiplier before giving up; quadratic convergence from one side takes about five."""

ROUNDING = 1e-15
"""Theta within this share of the bound beyond the ball counts as on it, and stays where it is."""


@dataclass(frozen=True, kw_only=True)
class OnlineWidth:
    """``scale sqrt(d) log(1 + t) log(1 + K)``: the order of beta_t in Lee & Oh (2024).

    Attributes:
        dim: d.
        capacity: K.
        scale: The constant in front.
    """

    dim: int
    capacity: int
    scale: float = 0.1

    def __post_init__(self) -> None:
        integer("dim", self.dim)
        integer("capacity", self.capacity)
        positive("scale", self.scale, zero=True)

    def __call__(self, t: int) -> float:
        """The width for visitor t, counted from 1."""
        return self.scale * math.sqrt(self.dim) * math.log1p(t) * math.log1p(self.capacity)


class MirrorDescent(Exact):
    """A curator that moves theta a little after every round, in any number of parallel worlds.

    Args:
        dim: d.
        capacity: K.
        worlds: Leading axes of every round; () for one visitor at a time.
        ridge: Precision before the first visitor; d eta by default.
        bound: The largest |theta|; sqrt(d) by default, enough for coordinates in [-1, 1].
        step: eta; log(K + 1)/2 + bound + 1 by default.
        radius: Optimism of the releases; `OnlineWidth` by default.
    """

    ledger: Ledger = exact_ledger("mirror-descent estimate")

    def __init__(
        self,
        dim: int,
        capacity: int,
        *,
        worlds: tuple[int, ...] = (),
        ridge: float | None = None,
        bound: float | None = None,
        step: float | None = None,
        radius: Radius | None = None,
    ) -> None:
        super().__init__(worlds, capacity, dim, OnlineWidth(dim=dim, capacity=capacity) if radius is None else radius)
        self._bound = math.sqrt(dim) if bound is None else positive("bound", bound)
        self._step = math.log1p(capacity) / 2 + self._bound + 1 if step is None else positive("step", step)
        self._rounds = 0
        first = dim * self._step if ridge is None else positive("ridge", ridge)
        precision = np.broadcast_to(first * np.eye(dim), (*worlds, dim, dim))
        self._release = self._made(np.zeros((*worlds, dim)), precision)

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor per world and move theta."""
        last, options = self._release, {"step": self._step, "bound": self._bound}
        theta, precision = moved(self._seen(round), last.theta, last.precision, **options)
        self._rounds += 1
        self._release = self._made(theta, precision)
        return self._release

    def _made(self, theta: FloatArray, precision: FloatArray) -> Release:
        worlds = theta.shape[:-1]
        count, explore = np.full(worlds, self._rounds, dtype=np.int64), np.zeros(worlds, dtype=bool)
        return Release(theta, precision, np.full(worlds, self._width(self._rounds)), explore, count)


def moved(
    seen: ObservedChoice, theta: FloatArray, precision: FloatArray, *, step: float, bound: float
) -> tuple[FloatArray, FloatArray]:
    """Update theta (..., d) and H (..., d, d) by one round."""
    mean, information = _derivatives(seen, theta)
    gradient = mean - chosen_features(seen.rows, seen.position)
    metric = precision + step * information
    free = theta - step * np.linalg.solve(metric, gradient[..., None])[..., 0]
    after = project(free, metric, bound)
    return after, precision + _derivatives(seen, after)[1]


def project(theta: FloatArray, metric: FloatArray, bound: float) -> FloatArray:
    """The point of the ball |theta| <= bound nearest to theta (..., d) in the norm of a metric (..., d, d).

    >>> project(np.array([3.0, 4.0]), np.eye(2), 1.0)
    array([0.6, 0.8])
    """
    outside = np.linalg.norm(theta, axis=-1) > (1.0 + ROUNDING) * bound
    result = theta.copy()
    if outside.any():
        result[outside] = _on_sphere(theta[outside], metric[outside], bound)
    return result


def _on_sphere(theta: FloatArray, metric: FloatArray, bound: float) -> FloatArray:
    """Solve ``(metric + m I) y = metric theta, |y| = bound`` for the multiplier m > 0, by Newton on 1/|y(m)|.

    In the eigenvectors of the metric y_i(m) = v_i c_i / (v_i + m). 1/|y(m)| is increasing and concave, so Newton from
    m = 0 climbs to the root and never passes it.
    """
    values, vectors = np.linalg.eigh(metric)
    pull = values * (vectors.mT @ theta[..., None])[..., 0]
    multiplier = np.zeros(theta.shape[:-1])
    for _ in range(STEPS):
        shifted = values + multiplier[..., None]
        y = pull / shifted
        square = (y**2).sum(-1)
        rise = square / (y**2 / shifted).sum(-1) * (np.sqrt(square) / bound - 1.0)
        multiplier = multiplier + np.maximum(rise, 0.0)
        if not (rise > 1e-15 * multiplier).any():
            break
    y = pull / (values + multiplier[..., None])
    y *= np.minimum(1.0, bound / np.linalg.norm(y, axis=-1))[..., None]
    return (vectors @ y[..., None])[..., 0]


def _derivatives(seen: ObservedChoice, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean features of the choice, (..., d), and the round's information at theta, (..., d, d)."""
    mean, spread = moments(seen.rows, utilities(seen.rows, theta), seen.offered)
    return mean, spread.mT @ spread
