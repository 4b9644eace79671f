"""The curator of `quiet`: sums the rounds of many parallel worlds and closes batches by the number of arrivals.

What it releases, and at what cost, `batch_pair` says; why batches close by arrivals, docs/proofs.md, section 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner, OpenBatch
from quietshelf.statistics import Shown, Total, contribution, nothing, shown, summed
from quietshelf.types import BoolArray, FloatArray, Release, Round, require

T = TypeVar("T")
WAITING = 16
"""Rounds that wait to be summed together; their raw features are dropped as soon as they are."""


class QuietCurator:
    """Sums the bounded pairs of each batch and releases them when its last slot is taken.

    Every round takes a slot in every world, also silent and over-cap visitors: a batch closes by arrivals alone.
    Several learners can work side by side in the same worlds, each with batches of its own.
    """

    def __init__(self, learner: Learner, source: NoiseSource) -> None:
        self._learners: tuple[Learner, ...] = (learner,)
        self._sources: tuple[NoiseSource, ...] = (source,)
        self._joint = False
        self._begin()

    @classmethod
    def together(cls, curators: Sequence[QuietCurator]) -> QuietCurator:
        """One that does the work of several of equal `kin`, before their first visitors; their axis is the first."""
        require(len({each.kin for each in curators}) == 1, "curators must be of equal kin to work together")
        one = cls.__new__(cls)
        one._learners = tuple(learner for each in curators for learner in each._learners)
        one._sources = tuple(source for each in curators for source in each._sources)
        one._joint = True
        one._begin()
        return one

    def _begin(self) -> None:
        pairs = zip(self._learners, self._sources, strict=True)
        self._batches = tuple(learner.open(None, source) for learner, source in pairs)
        self._slots = tuple(0 for _ in self._learners)
        self._waiting: list[tuple[Shown, BoolArray | None]] = []
        self._publish()
        *lead, dim = self._theta.shape
        self._total = nothing(tuple(lead), dim)

    @property
    def kin(self) -> Hashable:
        """Equal for curators of worlds of the same shape and grid; None for those who have begun, and work alone."""
        begun = any(self._slots) or self._waiting or self._learners[0].records
        return None if begun else (self._theta.shape, *(source.grid for source in self._sources))

    @property
    def learner(self) -> Learner:
        """The public state after the last release."""
        return self._learners[0]

    @property
    def batch(self) -> OpenBatch:
        """The open batch."""
        return self._batches[0]

    @property
    def ledger(self) -> Ledger:
        """What was spent."""
        return self._learners[0].ledger

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The same of every learner."""
        return tuple(learner.ledger for learner in self._learners)

    @property
    def release(self) -> Release:
        """The last release."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """One visitor in each world."""
        seen = shown(round)
        if not self._waiting or seen.rows.shape != self._waiting[0][0].rows.shape:
            self._check(seen)
            self._sum()  # another number of places
        self._waiting.append((seen, round.counts))
        self._slots = tuple(slots + 1 for slots in self._slots)
        full = [place for place, slots in enumerate(self._slots) if slots >= self._batches[place].size]
        if full or len(self._waiting) >= WAITING:
            self._sum()
        for place in full:
            self._close(place)
        if full:
            self._publish()
        return self._release

    def _check(self, seen: Shown) -> None:
        *lead, dim = self._theta.shape
        fits = (*seen.rows.shape[:-2], seen.rows.shape[-1]) == (*lead, dim)
        require(fits, f"a round must have leading axes {tuple(lead)} and dim={dim}", shape=seen.rows.shape)

    def _sum(self) -> None:
        """Add those who wait to the sums, one after the other: when they are summed makes no difference."""
        if not self._waiting:
            return
        together = Shown(*(np.stack(part) for part in zip(*(seen for seen, _ in self._waiting), strict=True)))
        counts = None
        if any(counts is not None for _, counts in self._waiting):
            everybody = np.ones(together.position.shape[1:], dtype=bool)
            counts = np.stack([everybody if counts is None else counts for _, counts in self._waiting])
        pairs = contribution(together, self._theta, self._coordinates, counts)
        self._total = summed(pairs, self._sources[0].grid, after=self._total)
        self._waiting.clear()

    def _close(self, place: int) -> None:
        """Release a full batch and open the next."""
        own: Any = place if self._joint else ...
        score, information = self._total.score.copy(), self._total.information.copy()
        source, total = self._sources[place], Total(score[own].copy(), information[own].copy())
        learner = self._learners[place].close(self._batches[place], total, source)
        score[own] = information[own] = 0.0
        self._total = Total(score, information)
        self._learners = _with(self._learners, place, learner)
        self._batches = _with(self._batches, place, learner.open(self._batches[place], source))
        self._slots = _with(self._slots, place, 0)

    def _publish(self) -> None:
        """What policies may know now, and what contributions are evaluated with."""
        self._theta = self._beside([batch.theta for batch in self._batches])
        self._coordinates = self._beside([batch.coordinates for batch in self._batches])
        releases = [learner.release for learner in self._learners]
        fields: dict[str, Any] = {
            name: self._beside([getattr(one, name) for one in releases]) for name in Release.arrays
        }
        self._release = Release(**fields)

    def _beside(self, arrays: list[FloatArray]) -> FloatArray:
        return np.stack(arrays) if self._joint else arrays[0]


def _with(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return *values[:place], value, *values[place + 1 :]
