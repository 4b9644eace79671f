"""`QuietCurator`, the curator of `quiet` in simulations: the batch protocol in many worlds side by side.

Arrays replace the store, and arrivals the clock: a batch is released as soon as its last slot is taken, before the next
arrival (docs/proofs.md, section 6). `release.batch_pair` says what is released and at what cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from quietshelf.curation import contributions
from quietshelf.curation.batches import Batch, Schedule, arrive, charge, draw, open_batch
from quietshelf.model.types import BoolArray, Release, Round, require
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.outlook import Outlook
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import ObservedChoice, observed_choice

Number = TypeVar("Number", bound=np.generic)
WAITING = 16
"""Rounds kept to be summed together; their raw features are then dropped."""


class QuietCurator:
    """Sums the bounded pairs of each batch and releases the sum when its last slot is taken.

    Every round takes a slot in every world, also for silent and over-cap visitors: arrivals alone close a batch.
    """

    def __init__(self, learner: Learner, source: NoiseSource, outlook: Outlook) -> None:
        self._learner, self._source, self._outlook = learner, source, outlook
        self._schedule, self._batch = open_batch(Schedule(), learner, source, outlook, window=1)
        self._waiting: list[tuple[ObservedChoice, BoolArray | None]] = []
        *lead, dim = self._batch.frozen.theta.shape
        self._total = np.zeros((*lead, contributions.width(dim)))

    @property
    def learner(self) -> Learner:
        """The public state after the last release."""
        return self._learner

    @property
    def batch(self) -> Batch:
        """The open batch."""
        return self._batch

    @property
    def ledger(self) -> Ledger:
        """What has been spent."""
        return self._learner.ledger

    @property
    def release(self) -> Release:
        """The last release."""
        return self._learner.release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor per world."""
        rows, offered, position = observed_choice(round)
        counts = None if round.counts is None else round.counts[None]
        return self._take(ObservedChoice(rows[None], offered[None], position[None]), counts)

    @property
    def steady(self) -> int:
        """Free slots of the batch: until it is full nothing is released."""
        return self._batch.frozen.size - self._batch.taken

    def observe_rounds(self, rounds: Round) -> Release:
        """Take in several visitors per world, along the first axis; at most as many as there are free slots."""
        many = len(rounds.choice)
        require(many <= self.steady, f"at most {self.steady} rounds may be taken in at once", rounds=many)
        return self._take(observed_choice(rounds), rounds.counts)

    def _take(self, seen: ObservedChoice, counts: BoolArray | None) -> Release:
        if not self._waiting or seen.rows.shape[1:] != self._waiting[0][0].rows.shape[1:]:
            self._check(seen)
            self._sum()  # the number of places changed
        many = len(seen.position)
        self._batch = arrive(self._batch, self._batch.taken + many - 1, count=many)
        self._waiting.append((seen, counts))
        if self._batch.full or sum(len(each.position) for each, _ in self._waiting) >= WAITING:
            self._sum()
        if self._batch.full:
            self._close()
        return self.release

    def _check(self, seen: ObservedChoice) -> None:
        *lead, dim = self._batch.frozen.theta.shape
        fits = (*seen.rows.shape[1:-2], seen.rows.shape[-1]) == (*lead, dim)
        require(fits, f"a round must have leading axes {tuple(lead)} and dim={dim}", shape=seen.rows.shape[1:])

    def _sum(self) -> None:
        """Add the waiting rounds to the sums, in order: when this happens makes no difference."""
        if not self._waiting:
            return
        together = ObservedChoice(*(_after(parts) for parts in zip(*(seen for seen, _ in self._waiting), strict=True)))
        counts = None
        if any(counts is not None for _, counts in self._waiting):
            each = [(seen.position.shape, counts) for seen, counts in self._waiting]
            counts = _after([np.ones(shape, dtype=bool) if counts is None else counts for shape, counts in each])
        frozen = self._batch.frozen
        grids = batch_pair.grids(frozen.scales, frozen.size, self._source.grid)
        public = frozen.theta, frozen.coordinates, frozen.scales.bound, grids
        self._total = contributions.added(self._total, together, *public, counts)
        self._waiting.clear()

    def _close(self) -> None:
        """Release a full batch and open the next one."""
        total = contributions.total(self._total, self._batch.frozen.theta.shape[-1])
        self._total = np.zeros_like(self._total)
        self._learner = charge(self._learner, self._batch, self._source)
        try:
            self._learner = draw(self._learner, self._batch, total, self._source)
        finally:  # released or burnt, it is over
            parts = self._learner, self._source, self._outlook
            self._schedule, self._batch = open_batch(self._schedule, *parts, window=1)


def _after(parts: Sequence[NDArray[Number]]) -> NDArray[Number]:
    """Concatenate along the first axis."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
