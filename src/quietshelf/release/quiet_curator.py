"""The curator of `quiet`: sums the rounds of many parallel worlds and closes batches by the number of arrivals."""

from __future__ import annotations

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner, OpenBatch
from quietshelf.statistics import Shown, Total, contribution, nothing, shown, summed
from quietshelf.types import BoolArray, Release, Round, require

WAITING = 64
"""Rounds that wait to be summed together; their raw features are dropped as soon as they are."""


class QuietCurator:
    """Sums the bounded pairs of each batch and releases them when its last slot is taken.

    Every round takes a slot in every world, also silent and over-cap visitors: a batch closes by arrivals alone.
    """

    def __init__(self, learner: Learner, source: NoiseSource) -> None:
        self._learner = learner
        self._source = source
        self._release = learner.release
        self._batch = learner.open(None, source)
        self._waiting: list[tuple[Shown, BoolArray]] = []
        self._slots = 0
        self._total = self._nothing()

    @property
    def learner(self) -> Learner:
        """The public state after the last release."""
        return self._learner

    @property
    def batch(self) -> OpenBatch:
        """The open batch."""
        return self._batch

    @property
    def ledger(self) -> Ledger:
        """What was spent."""
        return self._learner.ledger

    @property
    def release(self) -> Release:
        """The last release."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """One visitor in each world."""
        seen = shown(round)
        *lead, dim = self._batch.theta.shape
        fits = (*seen.rows.shape[:-2], seen.rows.shape[-1]) == (*lead, dim)
        require(fits, f"a round must have leading axes {tuple(lead)} and dim={dim}", shape=seen.rows.shape)
        counts = np.ones(seen.position.shape, dtype=bool) if round.counts is None else round.counts
        if self._waiting and seen.rows.shape != self._waiting[0][0].rows.shape:
            self._sum()  # another number of places
        self._waiting.append((seen, counts))
        self._slots += 1
        full = self._slots >= self._batch.size
        if full or len(self._waiting) >= WAITING:
            self._sum()
        if full:
            self._learner = self._learner.close(self._batch, self._total, self._source)
            self._batch = self._learner.open(self._batch, self._source)
            self._release = self._learner.release
            self._slots, self._total = 0, self._nothing()
        return self._release

    def _sum(self) -> None:
        together = Shown(*(np.stack(part) for part in zip(*(seen for seen, _ in self._waiting), strict=True)))
        counts = np.stack([counts for _, counts in self._waiting])
        pairs = contribution(together, self._batch.theta, self._batch.coordinates, counts)
        self._total = self._total + summed(pairs, self._source.grid)
        self._waiting.clear()

    def _nothing(self) -> Total:
        *lead, dim = self._batch.theta.shape
        return nothing(tuple(lead), dim)
