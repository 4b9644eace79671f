"""The best sellers where nothing else decides: one revenue, no constraint but capacity and availability, no tie."""

from __future__ import annotations

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray

SORTED = 256
"""Items that are sorted in less time than their best are set apart."""


def top_k(
    utility: FloatArray, capacity: int, *, available: BoolArray | None = None, largest: float, doubt: float
) -> tuple[IntArray, BoolArray]:
    """The K available items of largest utility, (..., K) ascending, and where they are beyond doubt, (...).

    In doubt are ties for the last place, to within ``doubt`` times the largest size of a utility (1 at least), fewer
    than K available items, and utilities that are not within ±``largest``; the items then mean nothing.

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
    split = np.partition(score, first - 1, axis=-1) if first else score  # at one place: for two NumPy is 5 times slower
    last, next_best = split[:, first:].min(axis=-1), split[:, first - 1] if first else -np.inf
    with np.errstate(invalid="ignore", over="ignore"):  # numbers out of range are in doubt anyway
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
    """The same of one problem, (N,), with as few calls of NumPy as there can be: most offers are to one visitor."""
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
