"""The best sellers where nothing else decides: one revenue, no constraint but capacity, no tie."""

from __future__ import annotations

import numpy as np

from quietshelf.types import BoolArray, FloatArray, IntArray


def leaders(utility: FloatArray, capacity: int, *, largest: float) -> tuple[IntArray, BoolArray]:
    """The K items of largest utility, (..., K) ascending, and where they are beyond doubt, (...).

    In doubt are ties for the last place, and numbers that are not within ±``largest``; the items then mean nothing.

    >>> leaders(np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0]]), 1, largest=1e9)
    (array([[0], [0]]), array([ True, False]))
    """
    *batch, count = utility.shape
    score = utility.reshape(-1, count)
    split = np.partition(score, count - capacity, axis=-1)[:, count - capacity :]
    last = split[:, :1]
    mask = score >= last
    within = (last[:, 0] >= -largest) & (split.max(axis=-1) <= largest)
    clear: BoolArray = within & (np.count_nonzero(mask, axis=-1) == capacity)
    if not clear.all():
        mask[~clear] = False
        mask[~clear, :capacity] = True
    places = np.flatnonzero(mask).reshape(-1, capacity)
    items: IntArray = places - np.arange(0, score.size, count)[:, None]
    return items.reshape(*batch, capacity), clear.reshape(batch)
