"""The paper's PrivateCov: every prefix sum of Gram matrices, with noise from a binary tree over the rounds.

Releases: at every round t <= T the sum of popcount(t) noisy nodes. The node made at round t holds the Gram matrices of
    the last 2^l rounds, l the lowest set bit of t; its noise is drawn then, once, and kept for as long as it is used.
Neighbours: one visitor replaced. Visitor 1 is in m = 1 + floor(log2 T) nodes, no visitor is in more.
Sensitivity: sqrt(2) K for a node (K if d = 1), so sqrt(m) times that for all nodes together; it needs |x| <= 1. The
    paper's sqrt(2 K) holds for K = 1 only. Rounded to a grid: + 2 grid sqrt(d(d+1)/2), and at most 2 K.
Noise: `paper_law`: variance K m / rho2 in every entry of a symmetric matrix, as printed. `sound_law`: variance s on the
    diagonal and s/2 off it, s = K² m / rho2. `printed_law`, `repaired_law`, `fair_law`: the (epsilon, delta) benchmark.
Privacy: m sensitivity² / (2 v) in zCDP for the whole run, v the least variance of an svec coordinate; attained. So
    `sound_law` costs rho2 and `paper_law` K rho2 (its nominal cost is rho2), or infinitely much where features are
    unbounded. The event is known before the first round and covers all of them.
Assumes: at most T rounds, one contribution a visitor; a saved state is resumed once; Gram matrices of clipped features.
Reference: docs/proofs.md, sections 5, 8, 13 and 14; the paper's Algorithm PrivateCov, and the one of its supplement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, NamedTuple, Protocol

import numpy as np

from quietshelf.model.types import FloatArray, finite, integer, positive, require
from quietshelf.privacy.accounting import HISTORY, Event, epsilon_of_gaussian, noise_for
from quietshelf.privacy.release.noise import NoiseSource, entry
from quietshelf.privacy.release.theory import levels, printed_variance, repaired_variance
from quietshelf.privacy.statistics import from_svec, gram_sensitivity, interleaved, on_grid, svec, svec_dim

SLACK = 1e-13
"""How far rounding may lift the trace of a Gram matrix above K before it is refused."""
MARGIN = 1 + 3 * SLACK
"""What this rounding, and the root of the number of nodes, can add to a sensitivity; it is charged for."""


class State(NamedTuple):
    """What a continual sum remembers: plain arrays. Private; resume it only once (docs/proofs.md, section 6).

    Attributes:
        time: Rounds so far.
        sums: Exact sums in svec coordinates. Tree: one per level, (m, ..., D). Toeplitz: of all rounds, (..., D).
        noise: Noise in use. Tree: one per level, (m, ..., D). Toeplitz: total and buffers, (1 + J, ..., D).
    """

    time: int
    sums: FloatArray
    noise: FloatArray


class ContinualSum(Protocol):
    """Releases the noisy sum of all Gram matrices so far, every round up to a horizon.

    Attributes:
        horizon: T, the most rounds.
        event: Cost of the whole run; enter it in the ledger before the first round.
        diagonal: A bound, over all rounds, on the standard deviation of a diagonal entry of the noise.
        widest: The same bound for every svec coordinate.
    """

    @property
    def horizon(self) -> int: ...  # noqa: D102 - see above

    @property
    def event(self) -> Event: ...  # noqa: D102 - see above

    @property
    def diagonal(self) -> float: ...  # noqa: D102 - see above

    @property
    def widest(self) -> float: ...  # noqa: D102 - see above

    def start(self, lead: tuple[int, ...] = ()) -> State:
        """The state before the first round of parallel worlds ``lead``; draws nothing."""

    def add(self, state: State, gram: FloatArray) -> tuple[State, FloatArray]:
        """Add one visitor per world, (..., d, d); return the new state and the noisy sum, (..., d, d)."""


class Law(NamedTuple):
    """Standard deviations of a node's noise in svec coordinates, where entries off the diagonal count sqrt(2) fold."""

    diagonal: float
    off: float


def sensitivity(capacity: int, dim: int, grid: float = 0.0) -> float:
    """The most that replacing one visitor moves a Gram sum whose terms were rounded towards zero to ``grid``.

    >>> [round(sensitivity(10, dim), 9) for dim in (5, 1)]
    [14.142135624, 10.0]
    """
    if integer("dim", dim) == 1:  # a number between 0 and K, rounded or not
        return integer("capacity", capacity) * MARGIN
    rounded = gram_sensitivity(integer("capacity", capacity)) + 2.0 * grid * math.sqrt(svec_dim(dim))
    return min(rounded, 2.0 * capacity) * MARGIN


def paper_law(rho: float, *, capacity: int, horizon: int) -> Law:
    """As printed: N_ij = N_ji of variance K m / rho2, on and off the diagonal."""
    scale = math.sqrt(integer("capacity", capacity) * levels(horizon) / positive("rho", rho))
    return Law(scale, math.sqrt(2.0) * scale)


def sound_law(rho: float, *, sensitivity: float, horizon: int) -> Law:
    """The least isotropic noise under which the whole tree costs rho: variance m sensitivity² / (2 rho)."""
    scale = noise_for(math.sqrt(levels(horizon)) * sensitivity, rho)
    return Law(scale, scale)


def printed_law(
    epsilon: float, delta: float, *, capacity: int, horizon: int, reading: Literal["text", "pseudo-code"] = "text"
) -> Law:
    """The supplement's N = (N' + N'^T) / sqrt(2), N' of variance sigma_cov².

    The text has all entries of N' independent: variance 2 sigma_cov² on the diagonal, sigma_cov² off it. The
    pseudo-code has N'_ij = N'_ji, so that N = sqrt(2) N': 2 sigma_cov² everywhere. Both cost the same.
    """
    require(reading in ("text", "pseudo-code"), "reading must be text or pseudo-code", reading=reading)
    scale = math.sqrt(2.0 * printed_variance(epsilon, delta, capacity=capacity, horizon=horizon))
    return Law(scale, scale if reading == "text" else math.sqrt(2.0) * scale)


def repaired_law(epsilon: float, delta: float, *, capacity: int, horizon: int) -> Law:
    """N = (N' + N'^T) / 2 with the repaired variance: that on the diagonal, half of it off."""
    scale = math.sqrt(repaired_variance(epsilon, delta, capacity=capacity, horizon=horizon))
    return Law(scale, scale)


def fair_law(epsilon: float, delta: float, *, sensitivity: float, horizon: int) -> Law:
    """The least isotropic noise with which the tree, one Gaussian release, is (epsilon, delta)-private (section 14)."""
    low, high = 0.0, 1.0
    while epsilon_of_gaussian(high, delta) <= positive("epsilon", epsilon):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of_gaussian(middle, delta) <= epsilon else (low, middle)
    scale = math.sqrt(levels(horizon)) * sensitivity / low
    return Law(scale, scale)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A `ContinualSum` by a binary tree; state in, state out.

    >>> from quietshelf.privacy.release.noise import Simulated
    >>> tree = sound(1.0, horizon=100, dim=2, capacity=1, source=Simulated(np.random.default_rng(0)))
    >>> state, noisy = tree.add(tree.start(), np.diag([1.0, 0.0]))
    >>> state.time, noisy.shape, round(tree.event.rho, 12)
    (1, (2, 2), 1.0)

    Attributes:
        horizon: T; a further round is refused.
        dim: d.
        capacity: K, the most items a visitor is shown.
        law: Noise of a node.
        source: The source of the noise; with a grid, each visitor's svec is rounded to it.
        bounded: Whether features are in the unit ball. If so, larger Gram matrices are refused; if not, nothing is
            proven and rho is infinite.
        nominal_rho: What the paper claims for this law, if anything.
        detail: For the ledger.
    """

    horizon: int
    dim: int
    capacity: int
    law: Law
    source: NoiseSource
    bounded: bool = True
    nominal_rho: float | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        integer("horizon", self.horizon)
        integer("dim", self.dim)
        integer("capacity", self.capacity)
        positive("diagonal", self.law.diagonal)
        positive("off", self.law.off)
        exact = self.source.grid == 0 or self.capacity * self.horizon / self.source.grid <= 2.0**52
        require(exact, "horizon must be shorter for exact sums on this grid", horizon=self.horizon)

    @property
    def event(self) -> Event:
        """The whole run: m nodes of one visitor, as a single Gaussian release."""
        moved = sensitivity(self.capacity, self.dim, self.source.grid) if self.bounded else math.inf
        least = self.law.diagonal if self.dim == 1 else min(self.law)
        nodes = math.sqrt(levels(self.horizon))
        event = entry(self.source, "gram tree", sensitivity=nodes * moved, scale=least, batch=HISTORY)
        return replace(event, nominal_rho=None if self.source.noiseless else self.nominal_rho, detail=self.detail)

    @property
    def diagonal(self) -> float:
        """Sigma sqrt(m): no round sums more than m nodes."""
        return self.law.diagonal * math.sqrt(levels(self.horizon))

    @property
    def widest(self) -> float:
        """The same for the noisier of the two parts of svec."""
        return max(self.law) * math.sqrt(levels(self.horizon))

    def start(self, lead: tuple[int, ...] = ()) -> State:
        """The state before the first round: empty nodes."""
        empty = np.zeros((levels(self.horizon), *lead, svec_dim(self.dim)))
        return State(0, empty, empty)

    def add(self, state: State, gram: FloatArray) -> tuple[State, FloatArray]:
        """Close the node that ends at this round, with its noise, and sum the nodes that the digits of t name."""
        shape = (*state.sums.shape[1:-1], self.dim, self.dim)
        require(gram.shape == shape, f"gram must have shape {shape}", shape=gram.shape)
        after, noisy = self.add_rounds(state, gram[None])
        return after, noisy[0]

    def add_rounds(
        self, state: State, grams: FloatArray, drawn: Sequence[FloatArray] | None = None
    ) -> tuple[State, FloatArray]:
        """`add` for several rounds, along the first axis; ``drawn`` is noise that `draw` gave for each in advance."""
        last = state._replace(time=state.time + len(grams) - 1)
        limit, shape = self.capacity if self.bounded else None, (len(grams), *state.sums.shape[1:-1], *[self.dim] * 2)
        contributions = accepted(last, grams, shape=shape, horizon=self.horizon, capacity=limit)
        contributions = on_grid(contributions, self.source.grid) if self.source.grid > 0 else contributions
        drawn = [self.draw(state) for _ in grams] if drawn is None else drawn
        time, sums, noise = state.time, state.sums.copy(), state.noise.copy()
        nodes = {level: sums[level] + noise[level] for level in _digits(time)}
        noisy = np.empty_like(contributions)
        for place, (contribution, fresh) in enumerate(zip(contributions, drawn, strict=True)):
            time += 1
            level, *_ = digits = _digits(time)
            sums[level] = in_order([*sums[:level], contribution])
            noise[level] = fresh
            sums[:level] = noise[:level] = 0.0
            nodes[level] = sums[level] + fresh
            noisy[place] = in_order([nodes[digit] for digit in digits])
        return State(time, sums, noise), from_svec(noisy, self.dim)

    def draw(self, state: State) -> FloatArray:
        """Draw the noise of the node that ends at the next round, whatever its level."""
        return self._draw(state.sums.shape[1:-1])

    def _draw(self, lead: tuple[int, ...]) -> FloatArray:
        on = self.source.draw(self.law.diagonal, (*lead, self.dim))
        off = self.source.draw(self.law.off, (*lead, svec_dim(self.dim) - self.dim))
        return interleaved(on, off)


def paper(rho: float, *, horizon: int, dim: int, capacity: int, source: NoiseSource, bounded: bool = True) -> Tree:
    """PrivateCov with the printed noise: nominally rho, K rho proven (K rho / 2 if d = 1), infinite if unbounded."""
    law = paper_law(rho, capacity=capacity, horizon=horizon)
    detail = "the paper's PrivateCov, printed noise"
    return Tree(
        horizon=horizon,
        dim=dim,
        capacity=capacity,
        law=law,
        source=source,
        bounded=bounded,
        nominal_rho=rho,
        detail=detail,
    )


def sound(rho: float, *, horizon: int, dim: int, capacity: int, source: NoiseSource) -> Tree:
    """PrivateCov with the least noise that costs rho."""
    law = sound_law(rho, sensitivity=sensitivity(capacity, dim, source.grid), horizon=horizon)
    return Tree(horizon=horizon, dim=dim, capacity=capacity, law=law, source=source, detail="PrivateCov, proven noise")


def accepted(
    state: State, gram: FloatArray, *, shape: tuple[int, ...], horizon: int, capacity: int | None
) -> FloatArray:
    """Check one visitor's Gram matrix per world and return its svec; refuses rounds beyond T and too large a trace.

    `statistics.gram` makes symmetric positive semidefinite matrices; this is not checked again.

    Args:
        state: The state so far.
        gram: Gram matrix of one visitor per world.
        shape: The required shape of ``gram``.
        horizon: T.
        capacity: K if features are in the unit ball, None if they are unbounded.
    """
    require(state.time < horizon, f"rounds must be at most horizon={horizon}", round=state.time + 1)
    gram = finite("gram", gram)
    require(gram.shape == shape, f"gram must have shape {shape}", shape=gram.shape)
    if capacity is not None:
        trace = float(np.trace(gram, axis1=-2, axis2=-1).max(initial=0.0))
        rule = f"the trace of a Gram matrix must be at most capacity={capacity}: clip features first"
        require(trace <= capacity * (1 + SLACK), rule, trace=trace)
    return svec(gram)


def _digits(time: int) -> list[int]:
    """The places of the ones among the binary digits of t, ascending."""
    return [place for place in range(time.bit_length()) if time >> place & 1]


def in_order(terms: FloatArray | list[FloatArray]) -> FloatArray:
    """Sum over the first axis in order: to the last bit the same, whatever other worlds run."""
    return reduce(np.add, terms)
