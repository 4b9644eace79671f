"""Where all items of a problem earn the same r > 0: the best sellers, in one sweep.

Expected revenue z stays below r, so the scores ``w (r - z)`` are ordered as the weights are.
"""

from __future__ import annotations

import numpy as np

from quietshelf.assortment.rules import Rules
from quietshelf.types import BoolArray, FloatArray, IntArray

CERTAIN = 1e300  # any larger weight is chosen as surely as this one
LARGEST = float(np.finfo(np.float64).max)


def common_revenue(revenue: FloatArray, batch: tuple[int, ...]) -> FloatArray | None:
    """What every item earns, (B,), or None where items of one problem differ or earn nothing."""
    earned = revenue if revenue.ndim else revenue[None]
    first = earned[..., :1]
    if earned.strides[-1] == 0 and (first > 0).all():  # one number, broadcast
        return np.broadcast_to(first[..., 0], batch).reshape(-1)
    if (earned[..., -1:] != first).any() or not (first > 0).all() or (earned != first).any():
        return None
    return np.broadcast_to(first[..., 0], batch).reshape(-1)


def by_utility(utility: FloatArray, rules: Rules) -> tuple[IntArray, BoolArray]:
    """Flat places (B, K), and which of them are shown."""
    return rules.pick(rules.restrict(utility.copy() if rules.constrained else utility), floor=-np.inf)


def chance(utility: FloatArray, flat: IntArray, kept: BoolArray) -> FloatArray:
    """The chance that some item is chosen, (B,)."""
    own = np.where(kept, utility.take(flat), -np.inf)
    largest = own.max(axis=-1, initial=0.0)
    sold = np.exp(own - largest[:, None]).sum(axis=-1)
    share: FloatArray = sold / (np.exp(-largest) + sold)
    return share


def by_weight(weight: FloatArray, rules: Rules) -> tuple[IntArray, BoolArray, FloatArray]:
    """The same for weights, infinity included, and the chance that some item is chosen, (B,)."""
    flat, kept = rules.pick(rules.restrict(np.minimum(weight, LARGEST)))
    sold = np.where(kept, np.minimum(weight.take(flat), CERTAIN), 0.0).sum(axis=-1)
    return flat, kept, sold / (1.0 + sold)
