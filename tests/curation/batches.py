"""Batches and sources of noise for the tests of the protocol."""

from __future__ import annotations

import numpy as np
from tests.privacy.release.learners import outlook_for, simulated, started

from quietshelf.curation import batches
from quietshelf.curation.batches import Batch, Schedule, arrive
from quietshelf.privacy.release.noise import GRID, DiscreteGaussian, NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet

DIM = 2
DRAWS = 3
"""Of a release on a grid: the score, the information on its diagonal, and off it."""


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
    """One that has released nothing; its first batch has 6 visitors."""
    return started(Quiet(**{"rho": 1.0, "conversion": 0.62, **options}), DIM, simulated() if source is None else source)  # type: ignore[arg-type]


def open_batch(
    schedule: Schedule, known: Learner, source: NoiseSource, *, window: float = 1.0
) -> tuple[Schedule, Batch]:
    """The next batch of a learner, in the light of made-up visitors."""
    return batches.open_batch(schedule, known, source, outlook_for(known), window=window)


def first_batch(window: float = 1.0) -> Batch:
    """The first batch of a learner, without arrivals."""
    return open_batch(Schedule(), learner(), simulated(), window=window)[1]


def filled(batch: Batch, at: float = 0.0) -> Batch:
    """The same batch after its last arrival."""
    while not batch.full:
        batch = arrive(batch, at)
    return batch
