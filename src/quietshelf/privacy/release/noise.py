"""The one place where noise is drawn.

Releases: nothing by itself; a source draws the noise that a mechanism adds to a bounded sum, that of `quiet` in
    `batch_pair.release`.
Noise: Gaussian of the standard deviation asked for, independent in every coordinate.
    - `Simulated`: from the study's own generator, for simulations, in which visitors are made up as well.
    - `DiscreteGaussian`: exact integers (`release.discrete_gaussian`) times a public grid, from the operating system's
      randomness. Only for sums whose terms were rounded to that grid (batch sums, tree nodes).
    - `ContinuousGaussian`: 53-bit normals from the operating system's randomness, where the proof needs a density
      (objective perturbation) or the sum is not on a grid (Toeplitz factors).
Privacy: none of its own; the mechanism's event states it with the source's assumption.
Assumes: the operating system's generator is secret and unpredictable. No source has a default seed.
Reference: docs/proofs.md, section 5.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from quietshelf.model.types import FloatArray, IntArray, Random, Streams, positive, require
from quietshelf.privacy.accounting import Assumption, Event, gaussian
from quietshelf.privacy.release.discrete_gaussian import discrete_gaussian

if TYPE_CHECKING:
    from quietshelf.privacy.accounting import BatchOrHistory

GRID = 2.0**-20
"""The grid of scores, which are at most 1: a millionth does not affect estimates, and 2^33 scores sum exactly."""
LARGEST_SCALE = 2.0**47
"""The largest scale of integer noise: float64 holds 64 times that exactly. Noise that was rounded before it is added
would reveal what it is added to."""


class NoiseSource(Protocol):
    """Where the noise of a release comes from.

    Attributes:
        grid: Contributions must be rounded to multiples of it before they are summed; 0 if no rounding is needed.
        assumption: What the proof of a release assumes about this noise.
        noiseless: Whether it draws zeros: every release made with it is then recorded as exact, rho infinite.
    """

    @property
    def grid(self) -> float: ...  # noqa: D102 - see above

    @property
    def assumption(self) -> Assumption: ...  # noqa: D102 - see above

    @property
    def noiseless(self) -> bool: ...  # noqa: D102 - see above

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """Independent noise of standard deviation ``scale``."""

    def only(self, worlds: IntArray) -> NoiseSource:
        """The source for a release made in some of several parallel worlds."""


class Simulated:
    """Noise from a simulation's own generator or streams: repeatable, so it protects no real person."""

    grid = 0.0
    assumption = Assumption.REAL_ARITHMETIC
    noiseless = False

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    @property
    def foreseeable(self) -> bool:
        """Whether draws in all worlds may be made in advance: draws in some worlds then have their own streams."""
        return isinstance(self._rng, Streams)

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """Independent normals."""
        return positive("scale", scale) * self._rng.standard_normal(size)

    def only(self, worlds: IntArray) -> NoiseSource:
        """The streams of these worlds, if each world has its own."""
        return Simulated(self._rng.only(worlds)) if isinstance(self._rng, Streams) else self


class _Common:
    """A source without per-world streams: every draw is fresh anyway."""

    def only(self, worlds: IntArray) -> Self:  # noqa: ARG002 - the same for all
        """The same source."""
        return self


class DiscreteGaussian(_Common):
    """Exact discrete Gaussian on multiples of ``grid``, from the operating system's randomness."""

    assumption = Assumption.EXACT_GRID
    noiseless = False

    def __init__(self, grid: float = GRID) -> None:
        mantissa, _ = np.frexp(positive("grid", grid))
        if mantissa != 0.5:
            raise ValueError(f"grid must be a power of two, so that sums are exact, got grid={grid!r}")
        self.grid = grid

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """Integers of standard deviation ``scale / grid``, times the grid."""
        units = positive("scale", scale) / self.grid
        require(units <= LARGEST_SCALE, "scale must be at most 2^47 grid steps: use a coarser grid", scale=scale)
        return discrete_gaussian(units, math.prod(size)).astype(np.float64).reshape(size) * self.grid


class ContinuousGaussian(_Common):
    """Normal noise from the operating system's randomness, by inversion of 53-bit uniforms."""

    grid = 0.0
    assumption = Assumption.REAL_ARITHMETIC
    noiseless = False

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """Independent normals by inversion of 52 random bits and a sign, out to 8.2 standard deviations."""
        from scipy.special import ndtri  # SciPy is loaded only where noise is drawn

        bits = np.frombuffer(os.urandom(8 * int(np.prod(size, dtype=np.int64))), dtype=np.uint64) >> np.uint64(11)
        sign = np.where(bits & np.uint64(1), 1.0, -1.0)
        below_half = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-53
        return np.asarray(positive("scale", scale) * (sign * ndtri(below_half)).reshape(size), dtype=np.float64)


def entry(source: NoiseSource, name: str, *, sensitivity: float, scale: float, batch: BatchOrHistory) -> Event:
    """The ledger's entry for a Gaussian release from this source; infinite if the source is noiseless."""
    noise = 0.0 if source.noiseless else scale
    return gaussian(name, sensitivity=sensitivity, noise=noise, batch=batch, assumption=source.assumption)
