"""The K largest utilities: the best assortment if revenues are equal, nothing else constrains, and no item ties."""

from __future__ import annotations

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray

SORTED = 256
"""Up to this many items, sorting is faster than partitioning."""


def top_k(
    utility: FloatArray, capacity: int, *, available: BoolArray | None = None, largest: float, doubt: float
) -> tuple[IntArray, BoolArray]:
    """Find the K available items of largest utility, (..., K) ascending, and whether they are beyond doubt, (...).

    A problem is in doubt if items tie for the last place to within ``doubt`` times the largest absolute utility (at
    least 1), if fewer than K items are available, or if utilities exceed ±``largest``; its items are then meaningless.

    >>> top_k(np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0]]), 1, largest=1e9, doubt=1e-12)
    (array([[0], [0]]), array([ True, False]))
    """
    *batch, count = utility.shape
    if not batch:
        found, sure = _of_one(utility, capacity, available, largest, doubt)
        return found, np.asarray(sure)
    score = utility.reshape(-1, count)
    if len(score) == 1:
        mask = None if available is None else available.reshape(count)
        found, sure = _of_one(score[0], capacity, mask, largest, doubt)
        return found.reshape(*batch, capacity), np.full(batch, sure)
    size = np.maximum(np.maximum(score.max(axis=-1), -score.min(axis=-1)), 1.0)
    if available is not None:
        score = np.where(np.broadcast_to(available, utility.shape).reshape(-1, count), score, -np.inf)
    first = count - capacity
    split = np.partition(score, first - 1, axis=-1) if first else score  # at one place: NumPy is 5 times slower for two
    last, next_best = split[:, first:].min(axis=-1), split[:, first - 1] if first else -np.inf
    with np.errstate(invalid="ignore", over="ignore"):  # out-of-range numbers are in doubt anyway
        apart = last - next_best > doubt * size
    clear: BoolArray = apart & (last > -np.inf) & (size <= largest)
    mask = score >= last[:, None]
    if not clear.all():
        mask[~clear] = False
        mask[~clear, :capacity] = True
    places = np.flatnonzero(mask).reshape(-1, capacity)
    items: IntArray = places - np.arange(0, score.size, count)[:, None]
    return items.reshape(*batch, capacity), clear.reshape(batch)


def _of_one(
    score: FloatArray, capacity: int, available: BoolArray | None, largest: float, doubt: float
) -> tuple[IntArray, bool]:
    """`top_k` for one problem, (N,), with as few NumPy calls as possible: most offers are to one visitor."""
    first = score.size - capacity
    if score.size <= SORTED and available is None:
        order = score.argsort()
        size = max(float(score[order[-1]]), -float(score[order[0]]), 1.0)  # NaN comes last
    else:
        size = max(float(score.max()), -float(score.min()), 1.0)
        if available is not None:
            score = np.where(available, score, -np.inf)
        order = score.argsort() if score.size <= SORTED or not first else score.argpartition((first - 1, first))
    last, next_best = float(score[order[first]]), float(score[order[first - 1]]) if first else -np.inf
    if size <= largest and last > -np.inf and last - next_best > doubt * size:
        best = order[first:]
        best.sort()
        return best, True
    return np.arange(capacity), False
