"""The constraints of a problem, and the allowed set with the largest sum of scores.

Sets of at most K items with limits per group are the independent sets of a laminar matroid, so the greedy choice is
exact: required items first, then the best of each group up to its limit, then the best K of those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray

CHUNKS_A_PLACE = 32
WORTH_NARROWING = 8  # items per chunk


@dataclass(frozen=True)
class Rules:
    """What may be shown, in each of B problems.

    Attributes:
        capacity: K, the most items shown.
        exactly: Whether exactly K are shown, whatever their scores.
        barred: Items that must not be shown, (B, N).
        required: Items that must be shown, (B, N).
        groups: Group of each item, (N,); None if no limit can bind.
        surplus: Positions beyond the limit of their group once items are sorted by group and falling score.
    """

    capacity: int
    exactly: bool = False
    barred: BoolArray | None = None
    required: BoolArray | None = None
    groups: IntArray | None = None
    surplus: IntArray | None = None

    @property
    def constrained(self) -> bool:
        """Whether `restrict` overwrites anything."""
        return not (self.barred is None and self.required is None and self.groups is None)

    def rows(self, index: IntArray) -> Rules:
        """Some of the problems."""
        if self.barred is None and self.required is None:
            return self
        barred = None if self.barred is None else self.barred[index]
        required = None if self.required is None else self.required[index]
        return replace(self, barred=barred, required=required)

    def restrict(self, score: FloatArray) -> FloatArray:
        """Overwrite scores (B, N): infinity for required items, minus infinity for those that cannot be shown."""
        if self.barred is not None:
            np.putmask(score, self.barred, -np.inf)
        if self.required is not None:
            np.putmask(score, self.required, np.inf)
        if self.groups is not None and self.surplus is not None:
            order = np.lexsort((-score, np.broadcast_to(self.groups, score.shape)), axis=-1)
            np.put_along_axis(score, order[:, self.surplus], -np.inf, axis=-1)
        return score

    def pick(self, score: FloatArray, floor: float = 0.0) -> tuple[IntArray, BoolArray]:
        """The K largest restricted scores of each row: their flat places, ascending, and which are shown, (B, K).

        Items above ``floor`` are shown, or all that are allowed if exactly K are asked for.
        """
        flat = _largest(score, self.capacity)
        return flat, score.take(flat) > (-np.inf if self.exactly else floor)

    def confirm(self, score: FloatArray, flat: IntArray, kept: BoolArray) -> bool:
        """Whether `pick` would choose the same set without a tie; much faster than picking."""
        own = score.take(flat)
        if np.count_nonzero(score >= own.min(axis=-1, keepdims=True)) != flat.size:
            return False
        return bool(((own > (-np.inf if self.exactly else 0.0)) == kept).all())


def surplus_positions(groups: IntArray, limits: IntArray) -> IntArray:
    """Positions beyond the limit of their group once items are sorted by group; they do not depend on the scores."""
    ordered = np.sort(groups)
    place = np.arange(groups.size) - np.searchsorted(ordered, ordered)
    limit = np.append(limits, groups.size)[ordered]  # -1, no group, reads the appended one
    return np.flatnonzero(place >= limit)


def _largest(score: FloatArray, count: int) -> IntArray:
    """Flat places of the ``count`` largest entries per row, ascending; ties go to the lower index."""
    rows, items = score.shape
    if items < CHUNKS_A_PLACE * WORTH_NARROWING * count:
        places: IntArray = _mask(score, count).ravel().nonzero()[0]
        return places.reshape(rows, count)
    columns = _candidates(score, count)
    inside = np.flatnonzero(_mask(score[:, columns], count)).reshape(rows, count)
    flat: IntArray = np.arange(rows)[:, None] * items + columns[inside % columns.size]
    return flat


def _candidates(score: FloatArray, count: int) -> IntArray:
    """Columns that hold the ``count`` largest of every row: entries no smaller than the count-th best chunk maximum."""
    rows, items = score.shape
    chunks = CHUNKS_A_PLACE * count
    whole = score[:, : items - items % chunks].reshape(rows, -1, chunks)
    bound = np.partition(whole.max(axis=1), chunks - count, axis=-1)[:, chunks - count, None]
    return np.flatnonzero((score >= bound).any(axis=0))


def _mask(score: FloatArray, count: int) -> BoolArray:
    """Mark the ``count`` largest entries per row; ties go to the lower index."""
    rows, items = score.shape
    split = score.copy()
    split.partition(items - count, axis=-1)
    last = split[:, items - count, None]
    mask: BoolArray = score >= last
    if np.count_nonzero(mask) == rows * count:
        return mask
    above, level = score > last, score == last
    room = count - np.count_nonzero(above, axis=-1, keepdims=True)
    return np.asarray(above | (level & (np.cumsum(level, axis=-1) <= room)))
