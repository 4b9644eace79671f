"""Visitors drawn again and again from a finite log, whose choices follow tastes fitted to it: regret is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.types import BoolArray, Context, Features, FloatArray, IntArray, integer, require
from quietshelf.research.environments.logit import KnownRound, LogitRound, OpenRound

ORDER, CHOICE = range(2)
"""The roles of a replicate's random streams."""


@dataclass(frozen=True, eq=False)
class Visitors:
    """A finite log as a world sees it.

    Attributes:
        features: The features of the visitors with these numbers, (R,) to features with that leading axis.
        utility: True utility of every item to every visitor, (n, N).
        revenue: What each item earns, (N,) or (n, N).
        capacity: K.
        theta: The true tastes, (d,).
        available: What each visitor may be shown, (n, N); None means everything.
    """

    features: Callable[[IntArray], Features]
    utility: FloatArray
    revenue: FloatArray
    capacity: int
    theta: FloatArray
    available: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.utility)

    @cached_property
    def best(self) -> FloatArray:
        """The largest expected revenue of every visitor, (n,): the log is finite, so each is solved once."""
        everybody = np.arange(len(self))
        return LogitRound(self.context(everybody), self.utility, np.zeros(len(self))).best

    def context(self, numbers: IntArray) -> Context:
        """These visitors, side by side."""
        revenue = self.revenue[numbers] if self.revenue.ndim == 2 else np.tile(self.revenue, (len(numbers), 1))
        available = None if self.available is None else self.available[numbers]
        return Context(self.features(numbers), revenue, self.capacity, available)


class ResampledEnvironment(OpenRound):
    """R replicates, side by side, each drawing visitors from the same log.

    Args:
        visitors: The log.
        seeds: One per replicate.
        visits: How often one visitor of the log may come: None for any number of times, drawn with replacement;
            otherwise everybody comes once, in random order, before anybody comes again.
    """

    def __init__(self, visitors: Visitors, seeds: Sequence[SeedSequence], *, visits: int | None = None) -> None:
        super().__init__(seeds, roles=2)
        self._visitors, self._visits = visitors, None if visits is None else integer("visits", visits)
        self._order = np.empty((len(seeds), 0), dtype=np.int64)

    @property
    def theta(self) -> FloatArray:
        """The true tastes, (R, d)."""
        return np.broadcast_to(self._visitors.theta, (self._count, self._visitors.theta.size))

    def context(self, t: int) -> Context:
        """The visitor of round t in every world; rounds come one after the other, from 0."""
        self._expect(t)
        numbers = self._draw(t)
        visitors, draw = self._visitors, self._streams[CHOICE].random((self._count,))
        known = visitors.utility[numbers], draw, visitors.best[numbers]
        return self._begin(KnownRound(visitors.context(numbers), *known))

    def _draw(self, t: int) -> IntArray:
        size = len(self._visitors)
        if self._visits is None:
            return (self._streams[ORDER].random((self._count,)) * size).astype(np.int64)
        most = self._visits * size
        require(t < most, f"visits={self._visits} of {size} visitors allow at most {most} rounds", t=t)
        if t % size == 0:
            self._order = np.argsort(self._streams[ORDER].random((self._count, size)), axis=-1)
        return np.asarray(self._order[:, t % size])
