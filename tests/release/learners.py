"""Learners of `quiet` to test."""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.release.geometry import unknown_curvature
from quietshelf.release.noise import NoiseSource, Simulated
from quietshelf.release.quiet import Learner, OpenBatch, Quiet
from quietshelf.statistics import Total


def simulated(seed: int = 0) -> Simulated:
    return Simulated(np.random.default_rng(seed))


def started(config: Quiet, dim: int, source: NoiseSource, lead: tuple[int, ...] = (), **options: Any) -> Learner:
    return Learner.start(config, unknown_curvature(dim), source=source, lead=lead, **options)


def opened(learner: Learner, source: NoiseSource, previous: OpenBatch | None = None) -> OpenBatch:
    """The batch that follows another, or the first, by the learner's own schedule."""
    number, before = (0, None) if previous is None else (previous.number + 1, previous.size)
    return learner.open(number, learner.next_size(before), source)


def released(learner: Learner, batch: OpenBatch, total: Total, source: NoiseSource) -> Learner:
    """Both steps of a release: its cost entered, its noise drawn."""
    return learner.charge(batch, source).learn(batch, total, source)
