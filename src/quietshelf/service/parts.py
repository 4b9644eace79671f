"""Bounded contributions of many visitors at once: to the last bit what `Shelf` computes for each of them alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quietshelf.release.quiet import OpenBatch
from quietshelf.statistics import Shown, contribution, on_grid, svec, svec_dim
from quietshelf.types import FloatArray, IntArray

NUMBERS = 2**20
"""How many numbers one step may hold: a group of many visitors in many dimensions is taken in steps."""


def contributions(rows: Sequence[bytes], chosen: Sequence[int], frozen: OpenBatch, grid: float) -> FloatArray:
    """Score and information of each visitor, (visitors, d + d (d + 1) / 2).

    Args:
        rows: The features that each saw, as bytes of (items shown, d).
        chosen: The place that each chose, -1 for none.
        frozen: What the batch froze when it opened.
        grid: To which contributions are rounded; 0 for not at all.
    """
    dim = frozen.theta.size
    found = np.zeros((len(rows), dim + svec_dim(dim)))
    shown = np.array([len(each) // (8 * dim) for each in rows], dtype=np.int64)
    answers = np.asarray(chosen, dtype=np.int64)
    for count in np.unique(shown[shown > 0]).tolist():  # where nothing was shown, nothing is learned
        places = np.flatnonzero(shown == count)
        step = max(1, NUMBERS // (dim * (dim + count)))
        for start in range(0, places.size, step):
            some = places[start : start + step]
            content = np.frombuffer(b"".join([rows[place] for place in some.tolist()]), dtype=np.float64)
            found[some] = _alike(content.reshape(some.size, count, dim), answers[some], frozen, grid)
    return found


def _alike(rows: FloatArray, chosen: IntArray, frozen: OpenBatch, grid: float) -> FloatArray:
    """The same for visitors who all saw equally many items."""
    seen = Shown(rows, np.ones(rows.shape[:-1], dtype=np.bool_), chosen)
    pair = contribution(seen, frozen.theta, frozen.coordinates)
    both = np.concatenate([pair.score, svec(pair.information)], axis=-1)
    return on_grid(both, grid) if grid else both
