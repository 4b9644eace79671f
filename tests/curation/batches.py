"""Batches and sources of noise for the tests of the protocol."""

from __future__ import annotations

import numpy as np
from tests.release.learners import simulated, started

from quietshelf.curation.batches import Batch, Schedule, arrive, open_batch
from quietshelf.release.noise import GRID, DiscreteGaussian, NoiseSource
from quietshelf.release.quiet import Learner, Quiet

DIM = 2


class Counting(DiscreteGaussian):
    """Repeatable noise on the grid that is used for releases; counts how often it was drawn."""

    def __init__(self, seed: int = 0, grid: float = GRID) -> None:
        super().__init__(grid)
        self.draws = 0
        self._rng = np.random.default_rng(seed)

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        self.draws += 1
        return np.asarray(np.rint(self._rng.normal(scale=scale / self.grid, size=size)) * self.grid)


def learner(source: NoiseSource | None = None, **options: float) -> Learner:
    """One that has released nothing; its first batch has 14 visitors."""
    return started(Quiet(**{"rho": 1.0, **options}), DIM, simulated() if source is None else source)  # type: ignore[arg-type]


def first_batch(window: float = 1.0) -> Batch:
    """The first batch of a learner, without arrivals."""
    return open_batch(Schedule(), learner(), simulated(), window=window)[1]


def filled(batch: Batch, at: float = 0.0) -> Batch:
    """The same batch after its last arrival."""
    while not batch.full:
        batch = arrive(batch, at)
    return batch
