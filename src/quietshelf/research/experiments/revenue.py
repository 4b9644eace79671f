"""Regret as a share of what could be earned: how much of the best revenue a policy makes, world by world."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.assortment import best
from quietshelf.model.types import FloatArray
from quietshelf.report.series import band
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop.simulation import WORLD

SAMPLE = 200
"""Visitors whose best assortment is worked out in each world, to know what a visitor is worth."""


class MeanInterval(NamedTuple):
    """A mean over worlds with half of its 95 % confidence interval."""

    mean: float
    half: float

    @classmethod
    def of(cls, samples: FloatArray) -> MeanInterval:
        """Of one sample a world."""
        mean, half = band(samples)
        return cls(float(mean), float(half))


def best_revenue(world: Synthetic | Shop, *, replicates: int, seed: int) -> FloatArray:
    """What a visitor is worth at best, on average, in each replicate of a simulation with this seed, (replicates,)."""
    environment = world.open([SeedSequence(seed, spawn_key=(place, WORLD)) for place in range(replicates)])
    worth = np.zeros(replicates)
    for t in range(SAMPLE):
        theta, context = environment.theta, environment.context(t)
        shelf = best(utility=context.features.utility(theta), revenue=context.revenue, capacity=world.capacity)
        worth += np.asarray(shelf.expected_revenue)
    return worth / SAMPLE


def lost_share(regret: FloatArray, worth: FloatArray, visitors: int) -> MeanInterval:
    """The share of the best revenue that was lost: regret (replicates,) after so many visitors of this worth."""
    return MeanInterval.of(regret / (worth * visitors))


def kept_share(regret: FloatArray, other: FloatArray, worth: FloatArray, visitors: int) -> MeanInterval:
    """Revenue as a share of what another policy earned from the same visitors."""
    earned, compared = (worth * visitors - lost for lost in (regret, other))
    return MeanInterval.of(earned / compared)
