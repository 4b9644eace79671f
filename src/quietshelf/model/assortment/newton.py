"""Newton's method on the expected revenue: exact in a handful of sweeps.

The best expected revenue z* is the root of ``max over sets of sum w (r - z) - z``, convex and falling in z. Each sweep
takes the best set at the current z (`Rules.pick`) and moves z to the expected revenue of that set. z can only grow;
when it stops growing, it is z*.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quietshelf.model.assortment.level import Level, expected, rise, scores
from quietshelf.model.assortment.rules import Rules
from quietshelf.model.assortment.weights import Weights
from quietshelf.model.types import BoolArray, FloatArray, IntArray

WORTH_SHRINKING = 8192  # numbers; below this the bookkeeping costs more than it saves


class Choice(NamedTuple):
    """One set per problem: flat places and which of them are shown, (B, K), and its expected revenue."""

    flat: IntArray
    kept: BoolArray
    level: Level


def maximise(weights: Weights, revenue: FloatArray, rules: Rules) -> Choice:
    """Find the best set of each problem, for weights and revenues (B, N)."""
    start = weights.guess(revenue, math.sqrt(rules.capacity), rules.barred)  # any start is valid; this one saves sweeps
    nothing = np.zeros_like(start)
    score = rules.restrict(scores(weights, revenue, Level(start, nothing, nothing)))
    return _climb(weights, revenue, rules, _take(weights, revenue, rules, score))


def _take(weights: Weights, revenue: FloatArray, rules: Rules, score: FloatArray) -> Choice:
    flat, kept = rules.pick(score)
    return Choice(flat, kept, expected(weights, revenue, flat, kept))


def _climb(weights: Weights, revenue: FloatArray, rules: Rules, now: Choice) -> Choice:
    """Sweep until z grows in no problem; once most have settled, continue with the others only."""
    growing = np.ones(len(revenue), dtype=np.bool_)
    while left := np.count_nonzero(growing):
        if 2 * left <= len(growing) and revenue.size >= WORTH_SHRINKING:
            return _climb_some(weights, revenue, rules, now, growing.nonzero()[0])
        score = rules.restrict(scores(weights, revenue, now.level))
        if (left == 1 or left < len(growing)) and rules.confirm(score, now.flat, now.kept):
            break
        new = _take(weights, revenue, rules, score)
        up = rise(new.level, now.level, weights)
        adopt = growing & (up >= 0)  # at equal z the new set wins, because ties prefer it; settled problems stay
        now = new if adopt.all() else _merge(adopt, new, now)
        growing = adopt & (up > 0)
    return now


def _climb_some(weights: Weights, revenue: FloatArray, rules: Rules, now: Choice, some: IntArray) -> Choice:
    """Continue with some of the problems and write their answers back among the others."""
    moved = (some - np.arange(some.size))[:, None] * revenue.shape[-1]  # flat places count from the first row present
    part = Choice(now.flat[some] - moved, now.kept[some], Level(*(values[some] for values in now.level)))
    part = _climb(weights.rows(some), revenue[some], rules.rows(some), part)
    now.flat[some], now.kept[some] = part.flat + moved, part.kept
    for values, better in zip(now.level, part.level, strict=True):
        values[some] = better
    return now


def _merge(adopt: BoolArray, new: Choice, old: Choice) -> Choice:
    flat, kept = np.where(adopt[:, None], new.flat, old.flat), np.where(adopt[:, None], new.kept, old.kept)
    level = Level(*(np.where(adopt, a, b) for a, b in zip(new.level, old.level, strict=True)))
    return Choice(flat, kept, level)
