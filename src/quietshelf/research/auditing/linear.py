"""The exact cost of a pair of neighbours if the release is linear in Gaussian noise: no sampling, no confidence.

The mechanism runs as shipped, with special noise sources: without noise it shows the difference of the means; with one
noise coordinate at a time it shows how each draw reaches the output. Together these give the law, N(mean, A A'), and
the divergence, ``rho = |A^+ (mean - mean')|² / 2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from quietshelf.model.types import FloatArray, IntArray
from quietshelf.privacy.accounting import Assumption
from quietshelf.privacy.release.noise import NoiseSource, Simulated

Mechanism = Callable[[bool, NoiseSource, int], FloatArray]
"""(whether the target is the first neighbour, noise, number of runs) -> everything released, (runs, features)."""
OUTSIDE = 1e-7
"""If a larger share of the difference of means is covered by no noise, it is not rounding."""


class OneAtATime:
    """Noise with one non-zero coordinate per world: world j gets the j-th draw, at its scale."""

    grid = 0.0
    assumption = Assumption.REAL_ARITHMETIC
    noiseless = False

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """Zeros, except for the scale in each world's own coordinate."""
        worlds, numbers = size[0], int(np.prod(size[1:], dtype=np.int64))
        noise = np.zeros((worlds, numbers))
        turns = np.arange(self.drawn, min(self.drawn + numbers, worlds))
        noise[turns, turns - self.drawn] = scale
        self.drawn += numbers
        return noise.reshape(size)

    def only(self, worlds: IntArray) -> NoiseSource:  # noqa: ARG002 - all worlds draw together here
        """The same source."""
        return self


def response(mechanism: Mechanism, secret: bool) -> tuple[FloatArray, FloatArray]:
    """The mean of the release, (features,), and A, (features, draws): how far each draw moves it."""
    counter = OneAtATime()
    mechanism(secret, counter, 1)
    outputs = mechanism(secret, OneAtATime(), counter.drawn + 1)  # the last world draws nothing
    mean = outputs[-1]
    return mean, (outputs[:-1] - mean).T


def exact_rho(mechanism: Mechanism) -> float:
    """The cost of this pair of neighbours; infinite if part of their difference is covered by no noise."""
    (mean, columns), (other, _) = response(mechanism, True), response(mechanism, False)
    difference = mean - other
    solution = np.linalg.lstsq(columns, difference, rcond=1e-12)[0]
    left = np.linalg.norm(columns @ solution - difference)
    if left > OUTSIDE * max(float(np.linalg.norm(difference)), np.finfo(float).tiny):
        return math.inf
    return float(solution @ solution) / 2


def sampled(mechanism: Mechanism) -> Callable[[bool, int, np.random.Generator], FloatArray]:
    """The mechanism with simulated noise, as an auditable run."""
    return lambda secret, runs, rng: mechanism(secret, Simulated(rng), runs)
