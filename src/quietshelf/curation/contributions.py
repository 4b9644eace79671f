"""R6: what a slot contributes is a function of its own data and of what its batch froze (docs/proofs.md, section 6).

The same bits for one visitor and for many, whoever is computed beside them and wherever they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quietshelf.release.quiet import OpenBatch
from quietshelf.statistics import OUTCOME_NUMBERS, Shown, Total, contribution, on_grid, outcome, svec, svec_dim
from quietshelf.types import BoolArray, FloatArray

NUMBERS = 2**20
"""How many numbers one step may hold: a group of many visitors in many dimensions is taken in steps."""


def width(dim: int, *, compares: bool = False) -> int:
    """Numbers in one contribution: a score of length d, the svec of an information matrix, outcomes if compared."""
    return dim + svec_dim(dim) + OUTCOME_NUMBERS * compares


def row_width(frozen: OpenBatch) -> int:
    """Numbers kept of each item shown: its features, and what it adds to a comparison if it is chosen."""
    return int(frozen.theta.shape[-1]) + OUTCOME_NUMBERS * frozen.compares


def total(contributions: FloatArray, dim: int) -> Total:
    """A sum of contributions, (..., width), as what a release is made of."""
    end = width(dim)
    return Total(contributions[..., :dim], contributions[..., dim:end], contributions[..., end:])


@np.errstate(all="ignore")  # what overflows contributes zero, and nobody is told of it
def rounded(
    seen: Shown,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: FloatArray | float,
    grid: float,
    counts: BoolArray | None = None,
) -> FloatArray:
    """R6: the contribution of each visitor, (..., width), on the grid (0: not rounded); zero if it does not count."""
    pair = contribution(seen, theta, coordinates, bound, counts)
    both = np.concatenate([pair.score, svec(pair.information)], axis=-1)
    return on_grid(both, grid) if grid else both


def contributions(rows: Sequence[FloatArray], chosen: Sequence[int], frozen: OpenBatch, grid: float) -> FloatArray:
    """R6: the contribution of each of some visitors, (visitors, width), who may have seen different numbers of items.

    Args:
        rows: What is kept of the items that each was shown, (items shown, row_width).
        chosen: The place that each chose, -1 for none.
        frozen: What the batch froze when it opened.
        grid: To which contributions are rounded; 0 for not at all.
    """
    dim, kept = frozen.theta.shape[-1], row_width(frozen)
    shown = np.array([len(each) for each in rows], dtype=np.int64)
    places, answers = int(shown.max(initial=0)), np.asarray(chosen, dtype=np.int64)
    found = np.zeros((len(rows), width(dim, compares=frozen.compares)))
    step = max(2, NUMBERS // (dim * (dim + places)))  # one alone is computed as two
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        offered = np.arange(places) < shown[some, None]
        padded = np.zeros((*offered.shape, kept))
        padded[offered] = np.concatenate(rows[some])
        seen = Shown(np.ascontiguousarray(padded[..., :dim]), offered, answers[some])
        found[some, : width(dim)] = rounded(seen, frozen.theta, frozen.coordinates, frozen.scales.bound, grid)
        if frozen.compares and places:
            sold = outcome(padded[..., dim:], answers[some])
            found[some, width(dim) :] = on_grid(sold, grid) if grid else sold
    return found
