"""Learners of `quiet` to test."""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.release.geometry import unknown_curvature
from quietshelf.release.noise import NoiseSource, Simulated
from quietshelf.release.quiet import Learner, Quiet


def simulated(seed: int = 0) -> Simulated:
    return Simulated(np.random.default_rng(seed))


def started(config: Quiet, dim: int, source: NoiseSource, lead: tuple[int, ...] = (), **options: Any) -> Learner:
    return Learner.start(config, unknown_curvature(dim), source=source, lead=lead, **options)
