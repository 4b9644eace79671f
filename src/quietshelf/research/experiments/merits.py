"""Figures of merit: a policy's regret against random offers and against the best policy without privacy.

Pure functions of cumulative regret, (runs, checkpoints), of contestants that served the same visitors, so that their
regrets are comparable run by run. Between checkpoints regret is interpolated linearly, from zero at the start.

A run's *share* is its regret at the end divided by that of random offers in the same run. A run is *stuck* if its later
half loses more than a quarter of what random offers lose in it, and *worse than random* if in one of its ten equal
parts it loses more than random offers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.types import BoolArray, FloatArray, require

STUCK = 0.25
"""A run that loses more than this share of random offers' loss in its later half is stuck."""
PARTS = 10
HIGH = 0.9
"""The quantile that stands for unlucky runs."""
LONG_ENOUGH = 0.05
"""A horizon is long enough if the best policy without privacy loses at most this share of what random offers lose."""


class Spread(NamedTuple):
    """Mean, median and 90 % quantile over runs."""

    mean: float
    median: float
    high: float

    @classmethod
    def of(cls, samples: FloatArray) -> Spread:
        """The spread of one number per run.

        >>> Spread.of(np.arange(11.0))
        Spread(mean=5.0, median=5.0, high=9.0)
        """
        return cls(float(samples.mean()), float(np.median(samples)), float(np.quantile(samples, HIGH)))

    def over(self, other: Spread) -> Spread:
        """The ratio to another spread, figure by figure."""
        return Spread(*(one / two if two else np.inf for one, two in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Merit:
    """The figures of merit of one contestant in one world.

    Attributes:
        share: Share of random offers' regret, over runs.
        multiple: The ratio of ``share`` to that of the best policy without privacy.
        stuck: Number of stuck runs.
        worse: Number of runs worse than random in some tenth.
        worse_later: The same, counting only tenths that begin after the third release.
        runs: Number of runs.
    """

    share: Spread
    multiple: Spread
    stuck: int
    worse: int
    worse_later: int
    runs: int


def merit(times: FloatArray, regret: FloatArray, random: FloatArray, floor: FloatArray, *, after: float = 0.0) -> Merit:
    """All figures of merit of one contestant.

    Args:
        times: Numbers of visitors, ascending, (checkpoints,).
        regret: Regret of the contestant.
        random: Regret of random offers in the same runs.
        floor: Regret of the best policy without privacy in the same runs.
        after: Visitors served before the contestant's third release.
    """
    require(regret.shape == random.shape == floor.shape, "all must have the same runs", shape=regret.shape)
    share = Spread.of(shares(regret, random))
    return Merit(
        share=share,
        multiple=share.over(Spread.of(shares(floor, random))),
        stuck=int(stuck(times, regret, random).sum()),
        worse=int(worse_than_random(times, regret, random).sum()),
        worse_later=int(worse_than_random(times, regret, random, after=after).sum()),
        runs=len(regret),
    )


def shares(regret: FloatArray, random: FloatArray) -> FloatArray:
    """Regret at the end as a share of that of random offers, run by run, (runs,)."""
    return np.asarray(regret[:, -1] / random[:, -1])


def stuck(times: FloatArray, regret: FloatArray, random: FloatArray) -> BoolArray:
    """Whether a run loses, in its later half, more than a quarter of what random offers lose there, (runs,)."""
    own, theirs = (lost_between(times, each, [0.5, 1.0])[:, 0] for each in (regret, random))
    return np.asarray(own > STUCK * theirs)


def worse_than_random(times: FloatArray, regret: FloatArray, random: FloatArray, *, after: float = 0.0) -> BoolArray:
    """Whether a run loses more than random in some tenth that begins at ``after`` visitors or later, (runs,)."""
    ends = np.linspace(0.0, 1.0, PARTS + 1)
    own, theirs = (lost_between(times, each, ends) for each in (regret, random))
    late = ends[:-1] * times[-1] >= after
    return np.asarray(((own > theirs) & late).any(axis=-1))


def lost_between(times: FloatArray, regret: FloatArray, ends: ArrayLike) -> FloatArray:
    """Regret between shares of the horizon, (runs, ends - 1).

    >>> lost_between(np.array([5.0, 10.0]), np.array([[4.0, 5.0]]), [0.0, 0.25, 0.5, 1.0])
    array([[2., 2., 1.]])
    """
    known, wanted = np.append(0.0, times), np.asarray(ends) * times[-1]
    place = np.clip(np.searchsorted(known, wanted, side="right"), 1, known.size - 1)
    left = known[place - 1]
    part = (wanted - left) / (known[place] - left)
    path = np.pad(regret, ((0, 0), (1, 0)))
    return np.diff(path[:, place - 1] * (1 - part) + path[:, place] * part, axis=-1)


def geometric_mean(multiples: Iterable[float]) -> float:
    """The geometric mean: twice as much in one world and half as much in another cancel out.

    >>> geometric_mean([2.0, 0.5])
    1.0
    """
    return float(np.exp(np.mean(np.log(list(multiples)))))


def long_enough(floor: Spread) -> bool:
    """Whether a world's horizon is long enough to judge by, given the floor's share."""
    return floor.mean <= LONG_ENOUGH
