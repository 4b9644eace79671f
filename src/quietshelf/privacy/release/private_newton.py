"""Private Newton: estimate the tastes behind a finished log from a few noisy sums over all of it.

Releases: ``STEPS`` times the noisy bounded pair (score and information) summed over everyone in the log, at the theta
    and in the coordinates that earlier releases gave. The last one uses ``LAST`` of the budget, and the estimate is
    made from it alone. With the last, the noisy sum of squared lengths of the weighted scores, for the standard errors:
    weighted scores vary less than their information says, and this sum tells by how much.
Neighbours: one contributor replaced; their number and order stay.
Sensitivity, noise: those of `release.batch_pair` with B = 1, at each release's share of rho; the squared
    length of a weighted score is between 0 and 1, so its sum moves by 1 at most.
Privacy: the shares add up to rho, everyone being in every release; they are one batch in the ledger, so it adds them.
Assumes: theta, coordinates and steps are computed from releases and public numbers alone. Each contributor's rows are
    computed from that contributor and public constants: if features are standardised, imputed or averaged over the log,
    or items and columns chosen by it, one contributor can move all rows. Such steps go into ``data_dependent``, and the
    ledger then reads infinite. How many contributors there are is public.
Reference: docs/proofs.md, section 18.

`quiet` itself would let every visitor count once, in one of many batches, which suits visitors who come one by one. A
log is complete from the start, and early batches, evaluated far from the answer, would bias estimates of strong tastes.
Steps are limited to a radius, because far from the answer the information is too small to step by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from quietshelf.model.types import FloatArray, IntArray, finite, positive
from quietshelf.privacy.accounting import Event, Ledger, noise_for
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release import newton_records as records
from quietshelf.privacy.release.geometry import coordinates, floored
from quietshelf.privacy.release.noise import NoiseSource, entry
from quietshelf.privacy.release.records import Estimate, Record
from quietshelf.privacy.statistics import Grids, ObservedChoice, Total, factors, nothing, on_grid, totalled

STEPS = 12
LAST = 0.68
"""The last release's share of the budget."""
SQUARES = 0.02
"""The share of the sum of squares; the other releases get the rest in equal parts."""
RADIUS = 1.0
"""The longest step, in coordinates in which the declared curvature is I/d: utilities then move by about one."""
PRIOR_VISITORS = 0.01
"""Number of visitors the prior counts for: enough to have an answer where the log says nothing."""
CHUNK = 1 << 12
CAUTION = 2.0
"""Standard deviations of noise added to the sum of squares, so that standard errors are rarely too small."""
MARGIN = 1 - 1e-12
BOUND = 1.0
"""B. In 24 simulated logs of 1,200 visitors (d = 4) half of it was worse, most so where nothing was declared: errors
of 0.43 instead of 0.14 at rho = 0.2. Twice as much gained next to nothing."""


class Contributors(Protocol):
    """Everyone in a log, each contributing once, however the log is stored."""

    @property
    def size(self) -> int:
        """The number of contributors."""

    def total(self, theta: FloatArray, frame: FloatArray, grids: Grids) -> tuple[Total, float]:
        """Sum their pairs at theta, in the coordinates of the frame, and the squared lengths of scores."""


class Sums(NamedTuple):
    """One release: the noisy pair (score, information) of everyone, and where it was evaluated."""

    theta: FloatArray
    coordinates: FloatArray
    scales: batch_pair.Scales
    noisy: batch_pair.Noisy


@dataclass(frozen=True, eq=False)
class PrivateTastes:
    """The result of a private fit of a log; everything in it is public.

    Attributes:
        theta: Tastes, (d,).
        covariance: Covariance of theta, including sampling and noise, (d, d).
        ledger: What was spent.
        drowned: Number of directions in which the last release's information was below its noise.
        releases: The noisy pairs, in order; the budget paid for these and the squares.
        squares: The noisy sum of squared lengths of weighted scores.
    """

    theta: FloatArray
    covariance: FloatArray
    ledger: Ledger
    drowned: int
    releases: tuple[Sums, ...]
    squares: float

    @property
    def standard_errors(self) -> FloatArray:
        """Standard errors of theta, (d,)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))


def private_newton(
    contributors: ObservedChoice | Contributors,
    *,
    rho: float,
    curvature: FloatArray,
    source: NoiseSource,
    unit: Literal["visit", "person"] = "visit",
    declared: bool = True,
    data_dependent: Sequence[str] = (),
) -> PrivateTastes:
    """Fit the choice model to everyone in a log, each contributing once.

    Args:
        contributors: Rows (n, J, d), places that hold an item (n, J), place chosen (n,); or a log kept otherwise.
        rho: The whole budget.
        curvature: Γ0, public, (d, d).
        source: The source of the noise.
        unit: Whether contributors are persons or only visits.
        declared: Whether Γ0 was declared, and so is trusted longer, or is the blind guess I/d.
        data_dependent: Preparation steps, in words, by which one contributor may have changed others' rows; the cost
            is then unbounded.
    """
    everybody = InMemory(contributors) if isinstance(contributors, ObservedChoice) else contributors
    first = floored(finite("curvature", curvature))
    dim, size = len(first), everybody.size
    ledger = _opened(positive("rho", rho), unit, source, data_dependent)
    prior = Estimate(np.zeros(dim), PRIOR_VISITORS * first)
    full, shape, theta, released = prior, first, prior.theta, list[Sums]()
    for share in _shares():
        theta = _within_radius(theta, full.theta, first)
        scales = batch_pair.scales(rho=share * rho, bound=BOUND)
        grids = batch_pair.grids(scales, size, source.grid)
        ledger = ledger.spend(*batch_pair.events(batch=0, scales=scales, source=source))
        frame = coordinates(shape)
        total, squares = everybody.total(theta, frame, grids)
        noisy = batch_pair.release(total, scales=scales, size=size, source=source)
        released.append(Sums(theta, frame, scales, noisy))
        latest = records.record(noisy, theta=theta, coordinates=frame, scales=scales, size=size)
        shape = records.geometry([latest], first, declared=declared)
        full = records.rebuild([latest], prior, Estimate(theta, full.precision))
    scale = noise_for(1.0, SQUARES * MARGIN * rho)
    ledger = ledger.spend(entry(source, "squared scores", sensitivity=1.0, scale=scale, batch=0))
    squares += float(source.draw(scale, (1,))[0])
    variation = float(np.clip((squares + CAUTION * scale) / max(latest.values.sum(), 1e-300), 0.0, 1.0))
    covariance = _covariance(latest, prior, full, variation)
    below = int(np.max(records.drowned(latest)))
    return PrivateTastes(full.theta, covariance, ledger, below, tuple(released), squares)


class InMemory(NamedTuple):
    """Contributors with all rounds in memory."""

    shown: ObservedChoice

    @property
    def size(self) -> int:
        """The number of contributors."""
        return len(self.shown.position)

    def total(self, theta: FloatArray, frame: FloatArray, grids: Grids) -> tuple[Total, float]:
        """Sum their pairs, and the squared lengths of scores."""
        return _total(self.shown, theta, frame, grids)


def first_rounds(person: IntArray) -> IntArray:
    """The first round of every person, in the order of persons, which no one's rounds can change.

    >>> first_rounds(np.array([1, 0, 1, 2]))
    array([1, 0, 3])
    """
    return np.asarray(np.unique(person, return_index=True)[1])


def _opened(rho: float, unit: Literal["visit", "person"], source: NoiseSource, steps: Sequence[str]) -> Ledger:
    """Open a ledger for rho, or, with data-dependent steps, one that reads infinite whatever is released."""
    if not steps:
        return Ledger(budget=None if source.noiseless else rho, unit=unit)
    event = Event(
        name="preparation of the log",
        batch=0,
        sensitivity=math.inf,
        noise=0.0,
        rho=math.inf,
        assumption=source.assumption,
        detail=f"The preparation of the log looked at visitors' data, or may have: {'; '.join(steps)}.",
    )
    return Ledger(unit=unit).spend(event)


def _shares() -> list[float]:
    """The budget share of each pair, rounded down so that the shares never add up to more than one."""
    rest = (1 - LAST - SQUARES) / (STEPS - 1)
    return [MARGIN * rest] * (STEPS - 1) + [MARGIN * LAST]


def _total(shown: ObservedChoice, theta: FloatArray, frame: FloatArray, grids: Grids) -> tuple[Total, float]:
    """Sum the pairs and the squared lengths of their scores, each term on its grid."""
    total, squares = nothing((), theta.size), 0.0
    for begin in range(0, len(shown.position), CHUNK):
        part = slice(begin, begin + CHUNK)
        some = ObservedChoice(shown.rows[part], shown.offered[part], shown.position[part])
        found = factors(some, theta, frame, BOUND, grids)
        total = total + totalled(found)
        square = np.minimum((found.score**2).sum(-1), 1.0)
        squares += float((on_grid(square, grids.score) if grids.score else square).sum())
    return total, squares


def _within_radius(before: FloatArray, after: FloatArray, curvature: FloatArray) -> FloatArray:
    step = after - before
    length = float(np.sqrt(step.size * step @ curvature @ step))
    return np.asarray(before + step * min(1.0, RADIUS / max(length, 1e-300)))


def _covariance(latest: Record, prior: Estimate, found: Estimate, variation: float) -> FloatArray:
    """Covariance of theta = A^-1 b: the score varies by ``variation`` times its information, plus the noise."""
    noise = records.signal_noise(latest, found.theta, np.linalg.inv(found.precision))
    weight = latest.values / (latest.values + noise)
    spread = (latest.frame * (weight**2 * (variation * latest.values + noise))) @ latest.frame.T + prior.precision
    inverse = np.linalg.inv(found.precision)
    return np.asarray(inverse @ spread @ inverse)
