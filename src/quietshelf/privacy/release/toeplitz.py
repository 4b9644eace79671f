"""Every prefix sum of Gram matrices with correlated noise: the square root of the summing matrix, in O(log T) buffers.

Releases: at every round t <= T the exact sum of Gram matrices plus (A C^-1 z)_t. A is the matrix of ones on and below
    the diagonal, C = (c_(t-j)) a lower-triangular Toeplitz matrix with c_0 = 1, z_t fresh noise.
Neighbours: one visitor replaced, one contribution each.
Sensitivity: s |c|, s = sqrt(2) K (K if d = 1) for |x| <= 1 and |c|² = c_0² + ... + c_(T-1)².
Noise: z_t of standard deviation s |c| / sqrt(2 rho) in every svec coordinate, continuous. C is close to the root of A,
    whose coefficients are b_k = binomial(2k, k) / 4^k: at T = 10^4 no sum has more than 4.0 times the noise of a
    single release, where the tree has 13.5.
Privacy: rho-zCDP for the whole run. The releases are functions of Y = C X + z, since A X + A C^-1 z = A C^-1 Y; given
    Y before t, replacing visitor n moves Y_t by c_(t-n) (X_n - X'_n). This is the proof of section 13 with c for b: it
    holds for any c, and |c| is that of the c in use. How close c is to b only affects accuracy.
Assumes: at most T rounds; real arithmetic; a saved state is resumed once. C X is on no grid, so noise is not discrete.
Reference: docs/proofs.md, section 13; McMahan, Pillutla & Steinke's buffered linear Toeplitz mechanism.

Buffers. b_k = (1/pi) ∫ x^k (x (1-x))^(-1/2) dx over [0, 1] = (1/2 pi) ∫ (1 + e^u)^-k / cosh(u/2) du over the reals.
The trapezoidal rule makes it a sum of J = O(log T) powers, c_k = sum_j w_j r_j^(k-1) for k >= 1, so that y = C^-1 z
needs one number a power: y_t = z_t - w.s_t, s_(t+1) = r s_t + y_t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, integer, positive, require
from quietshelf.privacy.accounting import HISTORY, Event, noise_for
from quietshelf.privacy.release.noise import NoiseSource, entry
from quietshelf.privacy.release.theory import levels
from quietshelf.privacy.release.tree import State, accepted, in_order, sensitivity
from quietshelf.privacy.statistics import from_svec, svec_dim

STEP = 1.25
"""Step of the trapezoidal rule in u; 20 buffers at T = 10^4."""
BELOW, ABOVE = 10.0, 5.0
"""The rule runs from u = -log T - BELOW to ABOVE, which keeps c within 0.7 % of b."""
MARGIN = 1.0 + 1e-12
"""Covers the rounding of |c| itself."""


class Buffers(NamedTuple):
    """Rates r and weights w of the powers, (J,)."""

    rates: FloatArray
    weights: FloatArray


class Units(NamedTuple):
    """Noise over the rounds, in standard deviations of a single release at the same rho."""

    largest: float
    rms: float


def root(horizon: int) -> FloatArray:
    """b_0, ..., b_(T-1): binomial(2k, k) / 4^k, the series of (1 - x)^(-1/2).

    >>> root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    k = np.arange(1.0, integer("horizon", horizon))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def buffers(horizon: int) -> Buffers:
    """The trapezoidal rule for b_k up to the horizon."""
    u = np.arange(-math.log(integer("horizon", horizon)) - BELOW, ABOVE, STEP)
    rates = 1.0 / (1.0 + np.exp(u))
    return Buffers(rates, STEP / (2 * np.pi * np.cosh(u / 2)) * rates)


def squared_norm(buffers: Buffers, horizon: int) -> float:
    """|c|², the exact sum of c_k² over k < T, by geometric series: all terms positive, nothing cancels."""
    log_rate = np.log(buffers.rates)
    product = log_rate[:, None] + log_rate
    series = np.expm1((horizon - 1) * product) / np.expm1(product)
    return 1.0 + float(buffers.weights @ series @ buffers.weights)


def noise_units(horizon: int, method: Literal["tree", "toeplitz"]) -> Units:
    """How noisy prefix sums are, as multiples of one release: the largest and the root mean square over t <= T.

    For "toeplitz" with the exact root b in place of c, which changes the largest by less than 0.01 %.

    >>> [tuple(round(unit, 2) for unit in noise_units(10_000, method)) for method in ("tree", "toeplitz")]
    [(13.49, 9.51), (4.0, 3.84)]
    """
    require(method in ("tree", "toeplitz"), "method must be tree or toeplitz", method=method)
    if method == "tree":
        variance = levels(horizon) * np.bitwise_count(np.arange(1, horizon + 1)).astype(float)
    else:
        rows = np.cumsum(root(horizon) ** 2)
        variance = rows[-1] * rows
    return Units(float(np.sqrt(variance.max())), float(np.sqrt(variance.mean())))


@dataclass(frozen=True, kw_only=True)
class Toeplitz:
    """A `ContinualSum` with Toeplitz noise; state in, state out.

    >>> from quietshelf.privacy.release.noise import Simulated
    >>> rounds = Toeplitz(rho=1.0, horizon=100, dim=2, capacity=1, source=Simulated(np.random.default_rng(0)))
    >>> state, noisy = rounds.add(rounds.start(), np.diag([1.0, 0.0]))
    >>> state.time, noisy.shape, round(rounds.event.rho, 12)
    (1, (2, 2), 1.0)

    Attributes:
        rho: What the whole run costs.
        horizon: T; a further round is refused.
        dim: d.
        capacity: K, the most items a visitor is shown, features in the unit ball.
        source: Where noise comes from; one that needs a grid is refused.
    """

    rho: float
    horizon: int
    dim: int
    capacity: int
    source: NoiseSource

    def __post_init__(self) -> None:
        positive("rho", self.rho)
        integer("horizon", self.horizon)
        integer("dim", self.dim)
        integer("capacity", self.capacity)
        require(self.source.grid == 0, "Toeplitz noise must be continuous: C X is on no grid", grid=self.source.grid)

    @cached_property
    def buffers(self) -> Buffers:
        """The rates and weights in use."""
        return buffers(self.horizon)

    @cached_property
    def sensitivity(self) -> float:
        """Sensitivity of C X: s |c|."""
        norm = MARGIN * math.sqrt(squared_norm(self.buffers, self.horizon))
        return norm * sensitivity(self.capacity, self.dim)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of z."""
        return noise_for(self.sensitivity, self.rho)

    @property
    def event(self) -> Event:
        """The whole run, as a single Gaussian release."""
        return entry(self.source, "gram toeplitz", sensitivity=self.sensitivity, scale=self.scale, batch=HISTORY)

    @cached_property
    def diagonal(self) -> float:
        """The noise of the last sum, the noisiest; within 0.01 %, as in `noise_units`."""
        single = sensitivity(self.capacity, self.dim) / math.sqrt(2 * self.rho)
        return single * noise_units(self.horizon, "toeplitz").largest

    @property
    def widest(self) -> float:
        """The same: the noise is isotropic in svec coordinates."""
        return self.diagonal

    def start(self, lead: tuple[int, ...] = ()) -> State:
        """The state before the first round: no sum, no noise."""
        size = svec_dim(self.dim)
        return State(0, np.zeros((*lead, size)), np.zeros((1 + self.buffers.rates.size, *lead, size)))

    def add(self, state: State, gram: FloatArray) -> tuple[State, FloatArray]:
        """Add one visitor per world, with one more draw of z."""
        shape = (*state.sums.shape[:-1], self.dim, self.dim)
        contribution = accepted(state, gram, shape=shape, horizon=self.horizon, capacity=self.capacity)
        rates, weights = self.buffers
        total, memory = state.noise[0], state.noise[1:]
        column = (-1, *[1] * total.ndim)
        fresh = self.source.draw(self.scale, total.shape) - in_order(weights.reshape(column) * memory)
        noise = np.empty_like(state.noise)
        noise[0] = total + fresh
        noise[1:] = rates.reshape(column) * memory + fresh
        sums = state.sums + contribution
        return State(state.time + 1, sums, noise), from_svec(sums + noise[0], self.dim)
