"""R6: what a slot contributes is a function of its own data and of what its batch froze (docs/proofs.md, section 6).

The same bits for one visitor and for many, whoever is computed beside them and wherever they are stored. A contribution
is kept as a score and K + 1 rows; the d (d + 1) / 2 numbers of an information matrix exist as a sum only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from quietshelf.release import batch_pair
from quietshelf.release.quiet import OpenBatch
from quietshelf.statistics import (
    OUTCOME_NUMBERS,
    Grids,
    Shown,
    Total,
    contribution,
    factors,
    on_grid,
    outcome,
    svec_dim,
    totalled,
    upper,
)
from quietshelf.types import BoolArray, FloatArray

NUMBERS = 2**20
"""How many numbers one step may hold: a group of many visitors in many dimensions is taken in steps."""


def width(dim: int, *, compares: bool = False) -> int:
    """Numbers in a sum: a score of length d, the upper triangle of an information matrix, outcomes if compared."""
    return dim + svec_dim(dim) + OUTCOME_NUMBERS * compares


def row_width(frozen: OpenBatch) -> int:
    """Numbers kept of each item shown: its features, and what it adds to a comparison if it is chosen."""
    return int(frozen.theta.shape[-1]) + OUTCOME_NUMBERS * frozen.compares


def at_once(dim: int, places: int) -> int:
    """How many contributions of visitors who were shown so many items one step may hold."""
    return max(2, NUMBERS // (dim * (places + 2)))


def total(sums: FloatArray, dim: int) -> Total:
    """A sum of contributions, (..., width), as what a release is made of."""
    end = width(dim)
    return Total(sums[..., :dim], sums[..., dim:end], sums[..., end:])


@np.errstate(all="ignore")  # what overflows contributes zero, and nobody is told of it
def added(
    sums: FloatArray,
    seen: Shown,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: FloatArray | float,
    grids: Grids,
    counts: BoolArray | None = None,
) -> FloatArray:
    """R6: the sums, (..., width), with the contributions of visitors (n, ...), zero if they do not count.

    On a grid sums are exact. Without one visitors are added one after the other: how many at a time changes no bit.
    """
    if grids.score:
        found = totalled(factors(seen, theta, coordinates, bound, grids, counts))
        return np.asarray(sums + np.concatenate([found.score, found.information], axis=-1))
    pair = contribution(seen, theta, coordinates, bound, counts)
    return np.asarray(reduce(np.add, np.concatenate([pair.score, upper(pair.information)], axis=-1), sums))


def contributions(
    rows: Sequence[FloatArray], chosen: Sequence[int], frozen: OpenBatch, grid: float
) -> list[FloatArray]:
    """R6: the contribution of each of some visitors, who may have seen different numbers of items.

    Each is a score (d,), outcomes if they are compared, and the rows of the information, (items shown + 1, d), flat.

    Args:
        rows: What is kept of the items that each was shown, (items shown, row_width).
        chosen: The place that each chose, -1 for none.
        frozen: What the batch froze when it opened.
        grid: To which scores are rounded; 0 for not at all.
    """
    step = at_once(frozen.theta.shape[-1], max(map(len, rows), default=0))
    steps = (slice(begin, begin + step) for begin in range(0, len(rows), step))
    return [each for some in steps for each in _together(rows[some], chosen[some], frozen, grid)]


@np.errstate(all="ignore")  # what overflows contributes zero, and nobody is told of it
def _together(rows: Sequence[FloatArray], chosen: Sequence[int], frozen: OpenBatch, grid: float) -> list[FloatArray]:
    """The same of one step."""
    dim, answers = frozen.theta.shape[-1], np.asarray(chosen, dtype=np.int64)
    shown = np.array([len(each) for each in rows], dtype=np.int64)
    places = int(shown.max(initial=0))
    offered = np.arange(places) < shown[:, None]
    padded = np.zeros((*offered.shape, row_width(frozen)))
    padded[offered] = np.concatenate(rows)
    seen = Shown(np.ascontiguousarray(padded[..., :dim]), offered, answers)
    grids = batch_pair.grids(frozen.scales, frozen.size, grid)
    found = factors(seen, frozen.theta, frozen.coordinates, frozen.scales.bound, grids)
    sold: FloatArray = np.zeros((len(rows), OUTCOME_NUMBERS * frozen.compares))
    if frozen.compares and places:
        sold = outcome(padded[..., dim:], answers)
        sold = on_grid(sold, grid) if grid else sold
    last = found.rows[:, places:].reshape(len(rows), dim)  # the rows of none
    return [
        np.concatenate([found.score[place], sold[place], found.rows[place, :own].ravel(), last[place]])
        for place, own in enumerate(shown.tolist())
    ]


def summed(parts: Sequence[FloatArray], dim: int, *, compares: bool = False) -> FloatArray:
    """The sum of some contributions, (width,): of their informations by one matrix product."""
    head = dim + OUTCOME_NUMBERS * compares
    if not parts:
        return np.zeros(width(dim, compares=compares))
    rows = np.concatenate([part[head:] for part in parts]).reshape(-1, dim)
    heads = np.sum([part[:head] for part in parts], axis=0)
    return np.concatenate([heads[:dim], upper(rows.T @ rows), heads[dim:]])
