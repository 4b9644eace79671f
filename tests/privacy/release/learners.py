"""Learners of `quiet` to test."""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.curation.outlook import MadeUp, normal_outlook
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.noise import NoiseSource, Simulated
from quietshelf.privacy.release.quiet import Learner, OpenBatch
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics import Pair, Total, upper

ITEMS, CAPACITY = 8, 3


def simulated(seed: int = 0) -> Simulated:
    return Simulated(np.random.default_rng(seed))


def outlook_in(dim: int, lead: tuple[int, ...] = ()) -> MadeUp:
    """Made-up visitors where nothing is declared: normal features of a length of about 1."""
    return normal_outlook(None, dim, items=ITEMS, capacity=CAPACITY, policy=POLICIES["quiet"], lead=lead)


def outlook_for(learner: Learner) -> MadeUp:
    """The same, for the dimension and the worlds of a learner."""
    *lead, dim = learner.estimate.theta.shape
    return outlook_in(dim, tuple(lead))


def started(config: Quiet, dim: int, source: NoiseSource, lead: tuple[int, ...] = (), **options: Any) -> Learner:
    return Learner.start(config, outlook_in(dim, lead), capacity=CAPACITY, source=source, lead=lead, **options)


def opened(learner: Learner, previous: OpenBatch | None = None) -> OpenBatch:
    """The batch that follows another, or the first, by the learner's own schedule."""
    number, before = (0, None) if previous is None else (previous.number + 1, previous.size)
    return learner.open(number, learner.next_size(before), outlook_for(learner))


def summed(pairs: Pair) -> Total:
    """The sum over the first axis, not rounded."""
    return Total(pairs.score.sum(0), upper(pairs.information).sum(0))


def released(learner: Learner, batch: OpenBatch, total: Total, source: NoiseSource) -> Learner:
    """Both steps of a release: its cost entered, its noise drawn."""
    return learner.charge(batch, source).learn(batch, total, source)
