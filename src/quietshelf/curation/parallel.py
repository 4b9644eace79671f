"""The batch protocol over many parallel worlds at once: the curator of `quiet` in simulations.

Arrays stand in for a store, and arrivals for a clock: a batch is released as soon as its last slot is taken, which is
before the next arrival (docs/proofs.md, section 6). What it releases, and at what cost, `release.batch_pair` says.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quietshelf.accounting import Ledger
from quietshelf.curation import contributions
from quietshelf.curation.batches import Batch, Schedule, announce, arrive, close, open_batch
from quietshelf.release import batch_pair
from quietshelf.release.noise import NoiseSource
from quietshelf.release.outlook import Outlook
from quietshelf.release.quiet import Learner
from quietshelf.statistics import Grids, Shown, shown
from quietshelf.types import BoolArray, FloatArray, Release, Round, require

T = TypeVar("T")
Number = TypeVar("Number", bound=np.generic)
WAITING = 16
"""Rounds that wait to be summed together; their raw features are dropped as soon as they are."""


class QuietCurator:
    """Sums the bounded pairs of each batch and releases them when its last slot is taken.

    Every round takes a slot in every world, also silent and over-cap visitors: a batch closes by arrivals alone.
    Several learners can work side by side in the same worlds, each with batches of its own.
    """

    def __init__(self, learner: Learner, source: NoiseSource, outlook: Outlook) -> None:
        self._learners: tuple[Learner, ...] = (learner,)
        self._outlooks: tuple[Outlook, ...] = (outlook,)
        self._sources: tuple[NoiseSource, ...] = (source,)
        self._joint = False
        self._begin()

    @classmethod
    def merge(cls, curators: Sequence[QuietCurator]) -> QuietCurator:
        """One curator in place of several of equal `batch_key`, along a new leading axis."""
        require(len({each.batch_key for each in curators}) == 1, "curators must have equal batch keys to be merged")
        one = cls.__new__(cls)
        one._learners = tuple(learner for each in curators for learner in each._learners)
        one._outlooks = tuple(outlook for each in curators for outlook in each._outlooks)
        one._sources = tuple(source for each in curators for source in each._sources)
        one._joint = True
        one._begin()
        return one

    def _begin(self) -> None:
        opened = [self._next(place, Schedule()) for place in range(len(self._learners))]
        self._schedules = tuple(schedule for schedule, _ in opened)
        self._batches = tuple(batch for _, batch in opened)
        self._waiting: list[tuple[Shown, BoolArray | None]] = []
        self._publish()
        *lead, dim = self._theta.shape
        self._total = np.zeros((*lead, contributions.width(dim)))

    @property
    def batch_key(self) -> Hashable:
        """Equal for curators of worlds of the same shape and grid; None once begun, when they work alone."""
        begun = any(batch.taken for batch in self._batches) or self._waiting or self._learners[0].records
        return None if begun else (self._theta.shape, *(source.grid for source in self._sources))

    @property
    def learner(self) -> Learner:
        """The public state after the last release."""
        return self._learners[0]

    @property
    def batch(self) -> Batch:
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
        rows, offered, position = shown(round)
        counts = None if round.counts is None else round.counts[None]
        return self._take(Shown(rows[None], offered[None], position[None]), counts)

    @property
    def steady(self) -> int:
        """Slots that are left in the batch that is full first: until then nothing is released."""
        return min(batch.frozen.size - batch.taken for batch in self._batches)

    def observe_rounds(self, rounds: Round) -> Release:
        """Several visitors in each world, along the first axis; at most as many as there are slots."""
        many = len(rounds.choice)
        require(many <= self.steady, f"at most {self.steady} rounds may be taken in at once", rounds=many)
        return self._take(shown(rounds), rounds.counts)

    def _take(self, seen: Shown, counts: BoolArray | None) -> Release:
        if not self._waiting or seen.rows.shape[1:] != self._waiting[0][0].rows.shape[1:]:
            self._check(seen)
            self._sum()  # another number of places
        many = len(seen.position)
        self._batches = tuple(arrive(batch, batch.taken + many - 1, count=many) for batch in self._batches)
        self._waiting.append((seen, counts))
        full = [place for place, batch in enumerate(self._batches) if batch.full]
        if full or sum(len(each.position) for each, _ in self._waiting) >= WAITING:
            self._sum()
        try:
            for place in full:
                self._release_batch(place)
        finally:
            if full:
                self._publish()
        return self._release

    def _check(self, seen: Shown) -> None:
        *lead, dim = self._theta.shape
        fits = (*seen.rows.shape[1:-2], seen.rows.shape[-1]) == (*lead, dim)
        require(fits, f"a round must have leading axes {tuple(lead)} and dim={dim}", shape=seen.rows.shape[1:])

    def _sum(self) -> None:
        """Add those who wait to the sums, one after the other: when they are summed makes no difference."""
        if not self._waiting:
            return
        together = Shown(*(_after(parts) for parts in zip(*(seen for seen, _ in self._waiting), strict=True)))
        counts = None
        if any(counts is not None for _, counts in self._waiting):
            each = [(seen.position.shape, counts) for seen, counts in self._waiting]
            counts = _after([np.ones(shape, dtype=bool) if counts is None else counts for shape, counts in each])
        self._total = contributions.added(
            self._total, together, self._theta, self._coordinates, self._bound, self._grids, counts
        )
        self._waiting.clear()

    def _release_batch(self, place: int) -> None:
        """Release a full batch and open the next."""
        own: Any = place if self._joint else ...
        batch, source, learner = self._batches[place], self._sources[place], self._learners[place]
        mine = contributions.total(self._total[own].copy(), self._theta.shape[-1])
        self._total = self._total.copy()
        self._total[own] = 0.0
        self._learners = _with(self._learners, place, announce(learner, batch, source))
        try:
            self._learners = _with(self._learners, place, close(self._learners[place], batch, mine, source))
        finally:  # released or burnt, it is over
            schedule, batch = self._next(place, self._schedules[place])
            self._schedules = _with(self._schedules, place, schedule)
            self._batches = _with(self._batches, place, batch)

    def _next(self, place: int, schedule: Schedule) -> tuple[Schedule, Batch]:
        parts = self._learners[place], self._sources[place], self._outlooks[place]
        return open_batch(schedule, *parts, window=1)

    def _publish(self) -> None:
        """What policies may know now, and what contributions are evaluated with."""
        self._theta = self._beside([batch.frozen.theta for batch in self._batches])
        self._coordinates = self._beside([batch.frozen.coordinates for batch in self._batches])
        frozen, grid = [batch.frozen for batch in self._batches], self._sources[0].grid
        fine = [batch_pair.grids(each.scales, each.size, grid).rows for each in frozen]
        self._bound = self._per_world([each.scales.bound for each in frozen])
        self._grids = Grids(grid, self._per_world(fine))
        releases = [learner.release for learner in self._learners]
        fields: dict[str, Any] = {
            name: self._beside([getattr(one, name) for one in releases]) for name in Release.arrays
        }
        self._release = Release(**fields)

    def _per_world(self, numbers: Sequence[FloatArray | float]) -> FloatArray:
        """A number of each batch, for every world in which it is open."""
        leads = [batch.frozen.theta.shape[:-1] for batch in self._batches]
        return self._beside([np.broadcast_to(each, lead) for each, lead in zip(numbers, leads, strict=True)])

    def _beside(self, arrays: list[FloatArray]) -> FloatArray:
        return np.stack(arrays) if self._joint else arrays[0]


def _after(parts: Sequence[NDArray[Number]]) -> NDArray[Number]:
    """One after the other along the first axis."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _with(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return *values[:place], value, *values[place + 1 :]
