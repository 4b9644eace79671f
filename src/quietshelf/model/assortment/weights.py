"""Attraction weights that neither overflow nor underflow: fraction x 2^exponent.

Ordinary weights stay plain numbers (``exponent`` None). If one number of a call leaves the ordinary range, all of them
are split, so ordinary problems should not share a call with others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from quietshelf.model.assortment.exponential import LN2, power_of_two
from quietshelf.model.types import BoolArray, FloatArray, IntArray

Exponential = Callable[[FloatArray], FloatArray]
ORDINARY_EXPONENT = 33
ORDINARY_WEIGHT = 2.0**ORDINARY_EXPONENT  # up to here one correction of z is enough; see level.py
ORDINARY_UTILITY = (-300.0, ORDINARY_EXPONENT * LN2)
INFINITE = 8192.0  # 2^8192 times the smallest revenue gap dwarfs the largest finite score, 2^1025 x 2^500


@dataclass(frozen=True)
class Weights:
    """Weights of every item in each problem, (B, N)."""

    fraction: FloatArray
    exponent: FloatArray | None

    def rows(self, index: IntArray) -> Weights:
        """Some of the problems."""
        return Weights(self.fraction[index], None if self.exponent is None else self.exponent[index])

    def guess(self, revenue: FloatArray, copies: float, barred: BoolArray | None) -> FloatArray:
        """The largest expected revenue of ``copies`` copies of one item that is not barred, (B,)."""
        weight = self.fraction
        if self.exponent is not None:
            weight = weight * power_of_two(np.minimum(self.exponent, 600.0))
        share = weight / (1.0 / copies + weight)
        share *= revenue
        if barred is not None:
            np.putmask(share, barred, 0.0)
        largest: FloatArray = share.max(axis=-1)
        return largest


def ordinary_weight(weight: FloatArray) -> BoolArray:
    """Whether the weights of a problem may stay plain numbers: (B, N) -> (B,)."""
    return np.asarray(weight.max(axis=-1, initial=0.0) <= ORDINARY_WEIGHT)


def ordinary_utility(utility: FloatArray) -> BoolArray:
    """The same, given utilities: (B, N) -> (B,)."""
    low, high = ORDINARY_UTILITY
    return np.asarray((utility.max(axis=-1) <= high) & (utility.min(axis=-1) >= low))


def from_weight(weight: FloatArray) -> Weights:
    """Make weights from weights, infinity included."""
    if weight.max(initial=0.0) <= ORDINARY_WEIGHT:
        return Weights(weight, None)
    infinite = np.isinf(weight)
    fraction, exponent = np.frexp(np.where(infinite, 1.0, weight))
    return Weights(fraction, np.where(infinite, INFINITE, exponent))


def from_utility(utility: FloatArray, exp: Exponential = np.exp) -> Weights:
    """Make the weights ``exp(utility)`` for utilities within ±1e300."""
    low, high = ORDINARY_UTILITY
    if utility.max(initial=low) <= high and utility.min(initial=high) >= low:
        return Weights(exp(utility), None)
    ordinary = (utility >= low) & (utility <= high)
    fraction, exponent = np.frexp(exp(np.where(ordinary, utility, 0.0)))
    rest = np.fmod(utility, LN2)
    doublings = np.rint((utility - rest) / LN2)
    return Weights(np.where(ordinary, fraction, exp(rest)), np.where(ordinary, exponent, doublings))
