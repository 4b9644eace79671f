"""Regret as a share of the best possible revenue, world by world."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.assortment import best
from quietshelf.model.types import FloatArray
from quietshelf.report.numbers import plus_minus
from quietshelf.report.series import band
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop.simulation import WORLD

SAMPLE = 200
"""Visitors per world whose best assortment is computed, to estimate the best revenue per visitor."""


class MeanInterval(NamedTuple):
    """A mean over worlds with the half-width of its 95 % confidence interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, samples: FloatArray) -> MeanInterval:
        """The interval of one sample per world."""
        mean, half = band(samples)
        return cls(float(mean), float(half))

    def __str__(self) -> str:
        return plus_minus(self.mean, self.half)

    @property
    def percent(self) -> str:
        """A share in percent, with its uncertainty."""
        return plus_minus(100 * self.mean, 100 * self.half, " %")


def best_revenue(world: Synthetic | Shop, *, replicates: int, seed: int) -> FloatArray:
    """The mean best revenue per visitor in each replicate of a simulation with this seed, (replicates,)."""
    environment = world.open([SeedSequence(seed, spawn_key=(place, WORLD)) for place in range(replicates)])
    worth = np.zeros(replicates)
    for t in range(SAMPLE):
        theta, context = environment.theta, environment.context(t)
        shelf = best(utility=context.features.utility(theta), revenue=context.revenue, capacity=world.capacity)
        worth += np.asarray(shelf.expected_revenue)
    return worth / SAMPLE


def lost_share(regret: FloatArray, worth: FloatArray, visitors: int) -> MeanInterval:
    """The share of the best revenue that was lost, given regret and best revenue per visitor, (replicates,)."""
    return MeanInterval.of(regret / (worth * visitors))


def kept_share(regret: FloatArray, other: FloatArray, worth: FloatArray, visitors: int) -> MeanInterval:
    """Revenue as a share of another policy's revenue from the same visitors."""
    earned, compared = (worth * visitors - lost for lost in (regret, other))
    return MeanInterval.of(earned / compared)
