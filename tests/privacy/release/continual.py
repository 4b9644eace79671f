"""Continual sums to test, the visitors they add up, and the scale of their noise."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.toeplitz import Toeplitz
from quietshelf.privacy.release.tree import ContinualSum, State, paper, sound
from quietshelf.privacy.statistics import clip, gram

FALSE_ALARM = 1e-9
"""Chance that one accepted scale is rejected; the OS sources cannot be seeded, so it must be negligible."""


def printed_tree(source: NoiseSource, horizon: int, dim: int) -> ContinualSum:
    return paper(0.5, horizon=horizon, dim=dim, capacity=3, source=source)


def sound_tree(source: NoiseSource, horizon: int, dim: int) -> ContinualSum:
    return sound(0.5, horizon=horizon, dim=dim, capacity=3, source=source)


def toeplitz_sum(source: NoiseSource, horizon: int, dim: int) -> ContinualSum:
    return Toeplitz(rho=0.5, horizon=horizon, dim=dim, capacity=3, source=source)


def visitors(rng: np.random.Generator, rounds: int, lead: tuple[int, ...] = (), dim: int = 2) -> FloatArray:
    """Gram matrices of clipped features, three items shown: (rounds, ..., d, d)."""
    return gram(clip(rng.normal(size=(rounds, *lead, 3, dim))))


def run(mechanism: ContinualSum, grams: FloatArray, state: State | None = None) -> tuple[State, FloatArray]:
    """The state after all rounds, and every release."""
    state = mechanism.start(grams.shape[1:-2]) if state is None else state
    released = []
    for one in grams:
        state, noisy = mechanism.add(state, one)
        released.append(noisy)
    return state, np.stack(released)


def has_scale(sample: FloatArray, scale: float) -> bool:
    """Whether independent centred normals have this standard deviation: a two-sided chi-square test."""
    statistic = float(((sample / scale) ** 2).sum())
    return bool(min(chi2.cdf(statistic, sample.size), chi2.sf(statistic, sample.size)) > FALSE_ALARM / 2)


def check_scale(sample: FloatArray, scale: float) -> None:
    """The true scale is accepted; 2/3 and 3/2 of it are rejected."""
    assert has_scale(sample, scale)
    assert not has_scale(sample, scale * 2 / 3)
    assert not has_scale(sample, scale * 3 / 2)
