"""Problems whose items all earn the same r > 0: the K largest weights, in one sweep.

The expected revenue z stays below r, so the scores ``w (r - z)`` are ordered like the weights.
"""

from __future__ import annotations

import numpy as np

from quietshelf.model.assortment.rules import Rules
from quietshelf.model.types import BoolArray, FloatArray, IntArray

CERTAIN = 1e300  # larger weights are chosen with the same certainty
LARGEST = float(np.finfo(np.float64).max)


def equal_revenue(revenue: FloatArray) -> BoolArray:
    """Whether all items of a problem earn the same positive revenue: (..., N) -> (...)."""
    first = revenue[..., 0]
    same = np.asarray(first > 0)
    if revenue.strides[-1] == 0:  # one number, broadcast
        return same
    same = same & (revenue[..., -1] == first)
    return np.asarray(same & (revenue == first[..., None]).all(axis=-1)) if same.any() else same


def by_utility(utility: FloatArray, rules: Rules) -> tuple[IntArray, BoolArray]:
    """Pick by utility: flat places (B, K), and which of them are shown."""
    return rules.pick(rules.restrict(utility.copy() if rules.constrained else utility), floor=-np.inf)


def chance(utility: FloatArray, flat: IntArray, kept: BoolArray) -> FloatArray:
    """The probability that some item is chosen, (B,)."""
    own = np.where(kept, utility.take(flat), -np.inf)
    largest = own.max(axis=-1, initial=0.0)
    sold = np.exp(own - largest[:, None]).sum(axis=-1)
    share: FloatArray = sold / (np.exp(-largest) + sold)
    return share


def by_weight(weight: FloatArray, rules: Rules) -> tuple[IntArray, BoolArray, FloatArray]:
    """Pick by weight, infinity included; also the probability that some item is chosen, (B,)."""
    flat, kept = rules.pick(rules.restrict(np.minimum(weight, LARGEST)))
    sold = np.where(kept, np.minimum(weight.take(flat), CERTAIN), 0.0).sum(axis=-1)
    return flat, kept, sold / (1.0 + sold)
