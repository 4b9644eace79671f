"""The expected revenue z of a set to more digits than a double holds, and the scores ``w (r - z)`` at it.

``z = high + low x 2^shift``. The digits matter: the revenue of a shown item of weight w agrees with z to about 1 part
in w, so its score depends on the digits of r - z beyond that. Without them the method can stop too early: given an item
of weight 5e15 that earns 1 + 2^-52 and one of weight 1 that earns 2.1, a single double would never drop the first,
worth 1, for the second, worth 1.05.

Sums run in the order of the places, rounding after each term: the same bits on every machine, and in TypeScript
(``clients/typescript/src/device/level.ts``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.assortment.exponential import power_of_two
from quietshelf.model.assortment.weights import ORDINARY_EXPONENT, Weights
from quietshelf.model.types import BoolArray, FloatArray, IntArray

WIDEST = 1800.0  # powers of two that doubles can hold between the largest and the smallest score
FAINTEST = -900.0  # smaller rises are raised to 2^-900: only their sign matters


class Level(NamedTuple):
    """One revenue per problem, as three arrays (B,)."""

    high: FloatArray
    low: FloatArray
    shift: FloatArray


def scores(weights: Weights, revenue: FloatArray, level: Level) -> FloatArray:
    """``w (r - z)`` of every item, (B, N), or, where that could overflow, numbers of the same sign and order."""
    gap = revenue - level.high[:, None]
    if weights.exponent is None:
        gap -= level.low[:, None]
        gap *= weights.fraction
        return gap
    low, shift = level.low[:, None], level.shift[:, None]
    even = gap == 0
    gap = np.where(even, -low, gap - low * power_of_two(shift))
    return _ordered(weights.fraction * gap, weights.exponent + np.where(even, shift, 0.0))


def expected(weights: Weights, revenue: FloatArray, flat: IntArray, kept: BoolArray) -> Level:
    """The expected revenue of the kept places (B, K)."""
    earned = revenue.take(flat)
    part = weights.fraction.take(flat) * kept
    if weights.exponent is not None:
        return _expected_far(part, np.where(part > 0, weights.exponent.take(flat), 0.0), earned)
    total = 1.0 + _sum(part)
    high = _sum(part * earned) / total
    low = (_sum(part * (earned - high[:, None])) - high) / total
    return Level(high, low, np.zeros_like(high))


def rise(new: Level, old: Level, weights: Weights) -> FloatArray:
    """How far ``new`` lies above ``old``; the sign is right even if the difference underflows a double."""
    if weights.exponent is None:
        return (new.high - old.high) + (new.low - old.low)
    top = np.maximum(new.shift, old.shift)
    apart = new.low * power_of_two(new.shift - top) - old.low * power_of_two(old.shift - top)
    same = new.high == old.high
    return (new.high - old.high) + apart * power_of_two(np.where(same, np.maximum(top, FAINTEST), top))


def _expected_far(part: FloatArray, power: FloatArray, earned: FloatArray) -> Level:
    largest = power.max(axis=-1, initial=0.0)
    mass = part * power_of_two(power - largest[:, None])
    total = power_of_two(-largest) + _sum(mass)
    high = _sum(mass * earned) / total
    low, near = _residual(part, power, earned, high)
    # with a large weight, round z correctly first, or its error would swamp the rest
    high += np.where(largest > ORDINARY_EXPONENT + 1, low / total * power_of_two(near - largest), 0.0)
    low, near = _residual(part, power, earned, high)
    return Level(high, low / total, near - largest)


def _residual(
    part: FloatArray, power: FloatArray, earned: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``sum w (r - high) - high`` as fraction and exponent, each (B,)."""
    gap = earned - high[:, None]
    counts = (gap != 0) & (part > 0)
    near = np.where(counts, power, -np.inf).max(axis=-1)
    near = np.maximum(near, np.where(high == 0, -np.inf, 0.0))
    near = np.where(near == -np.inf, 0.0, near)
    mass = np.where(counts, part * power_of_two(np.minimum(power - near[:, None], 0.0)), 0.0)
    return _sum(mass * gap) - high * power_of_two(-np.maximum(near, 0.0)), near


def _ordered(product: FloatArray, exponent: FloatArray) -> FloatArray:
    """``product x 2^exponent``, each row scaled by a power of two, or its signed ranks if no power suffices."""
    size, own = np.frexp(product)
    live = product != 0
    power = np.where(live, own + exponent, 0.0)
    top = np.where(live, power, -np.inf).max(axis=-1, initial=-np.inf)
    bottom = np.where(live, power, np.inf).min(axis=-1, initial=np.inf)
    scaled = size * power_of_two(np.where(live, power - top[:, None] + WIDEST / 2, 0.0))
    wide = top - bottom > WIDEST
    return np.where(wide[:, None], _signed_rank(size, power), scaled) if wide.any() else scaled


def _signed_rank(size: FloatArray, power: FloatArray) -> FloatArray:
    """The sign of ``size x 2^power`` times the dense rank (from 1) of its magnitude within each row."""
    sign, size = np.sign(size), np.abs(size)
    order = np.lexsort((size, power), axis=-1)
    size, power = np.take_along_axis(size, order, -1), np.take_along_axis(power, order, -1)
    larger = (size[:, 1:] != size[:, :-1]) | (power[:, 1:] != power[:, :-1])
    rank = np.ones_like(size)
    np.put_along_axis(rank, order[:, 1:], 1.0 + np.cumsum(larger, axis=-1), axis=-1)
    return rank * sign


def _sum(values: FloatArray) -> FloatArray:
    """Sum from the first to the last, (B, K) -> (B,)."""
    return np.asarray(np.add.accumulate(values, axis=-1)[:, -1])
