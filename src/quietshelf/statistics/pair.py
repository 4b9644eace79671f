"""The bounded pair of `quiet`: one visitor's weighted score and information at a released theta.

Contribution: ``(w g, w H)`` in public coordinates x' = L x,
    g = xbar - x'_chosen, H = sum_j p_j (x'_j - xbar)(x'_j - xbar)' over the items shown and none (x'_0 = 0), p at
    theta, w = min(1, C/M, B/trace H), M = max over every possible choice of |xbar - x'_choice|, C = B = 1.
    M does not look at what was chosen, so the weighted score keeps mean zero at the true theta. Where M, trace H
    or a utility is not finite the contribution is exactly zero.
Neighbours: one visitor replaced, features, offer and choice alike; theta and L fixed.
Sensitivity: |w g - w'g'| <= 2 C and |w H - w'H'|_F <= sqrt(2) B, both attained, whatever the features are. Rounded
    towards zero to a grid: 2 C, and sqrt(2) B + 2 grid sqrt(d(d+1)/2).
Assumes: nothing about the features. A relative margin of 1e-12 in w covers the rounding of w, g and H themselves.
Reference: docs/proofs.md, sections 4 and 5.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import numpy as np

from quietshelf.choice.likelihood import chosen_features, shares, utilities
from quietshelf.statistics.rows import Shown
from quietshelf.statistics.symmetric import svec, svec_dim
from quietshelf.types import BoolArray, FloatArray

SCORE_BOUND = 1.0
"""C: no weighted score is longer."""
INFORMATION_BOUND = 1.0
"""B: no weighted information has a larger trace."""
MARGIN = 1.0 - 1e-12
ROUNDING_ROOM = 8900
"""The margin covers all rounding while 7 K + d is at most this (docs/proofs.md, section 4)."""
TOGETHER = 2048
"""Visitors worked on at once: what they need then stays in the cache."""


class Pair(NamedTuple):
    """One visitor's contribution.

    Attributes:
        score: ``w g``, (..., d): gradient of the loss (minus the log-likelihood), in the coordinates x'.
        information: ``w H``, (..., d, d), likewise.
    """

    score: FloatArray
    information: FloatArray


class Total(NamedTuple):
    """A sum of contributions: score (..., d), and information in svec coordinates, (..., d (d + 1) / 2)."""

    score: FloatArray
    information: FloatArray

    def __add__(self, other: Total) -> Total:  # type: ignore[override]  # a sum of sums, not of tuples
        return Total(self.score + other.score, self.information + other.information)


def score_sensitivity() -> float:
    """The most that replacing one visitor moves the score sum, rounded or not: 2 C."""
    return 2.0 * SCORE_BOUND


def information_sensitivity(dim: int, grid: float = 0.0) -> float:
    """The most that replacing one visitor moves the information sum, in Frobenius norm, after rounding to ``grid``."""
    return math.sqrt(2.0) * INFORMATION_BOUND + 2.0 * grid * math.sqrt(svec_dim(dim))


def contribution(shown: Shown, theta: FloatArray, coordinates: FloatArray, counts: BoolArray | None = None) -> Pair:
    """The weighted pair of each visitor; zero for those who do not count.

    A visitor's pair has the same bits alone and beside others, with empty places and without: empty places are left
    out first, and every product is one of a visitor's own, of a shape that depends on nobody else.

    Args:
        shown: Rows (..., K, d), which places are offered, and the chosen place.
        theta: Released tastes (..., d), in raw coordinates.
        coordinates: L, (..., d, d), public.
        counts: Visitors who may contribute, (...); None means all.
    """
    theta, coordinates = np.ascontiguousarray(theta), np.ascontiguousarray(coordinates)
    with np.errstate(over="ignore", invalid="ignore"):
        full = shown.offered.shape[-1] > 0 and bool(shown.offered.all())
        pair = (_full if full else _with_gaps)(shown, theta, coordinates)
    if counts is not None and not counts.all():
        pair.score[~counts] = pair.information[~counts] = 0.0
    return pair


def _with_gaps(shown: Shown, theta: FloatArray, coordinates: FloatArray) -> Pair:
    """The pairs of visitors some of whose places are empty: together those who were offered equally many items."""
    lead, dim = shown.position.shape, shown.rows.shape[-1]
    pair = Pair(np.zeros((*lead, dim)), np.zeros((*lead, dim, dim)))
    if theta.ndim > 1 or coordinates.ndim > 2:
        theta, coordinates = np.broadcast_to(theta, (*lead, dim)), np.broadcast_to(coordinates, (*lead, dim, dim))
    count = np.count_nonzero(shown.offered, axis=-1)
    for places in np.unique(count[count > 0]).tolist():  # where nothing was offered, nothing is learned
        some = count == places
        offered, position = shown.offered[some], shown.position[some]
        rows = shown.rows[some][offered].reshape(-1, places, dim)
        chosen = offered & (np.arange(offered.shape[-1]) == position[:, None])
        place = np.where(chosen, np.cumsum(offered, axis=-1), 0).max(axis=-1) - 1
        part = Shown(rows, np.ones((len(rows), places), np.bool_), place)
        own = (theta, coordinates) if theta.ndim == 1 else (theta[some], coordinates[some])
        pair.score[some], pair.information[some] = _full(part, *own)
    return pair


def _full(shown: Shown, theta: FloatArray, coordinates: FloatArray) -> Pair:
    """The pairs of visitors all of whose places hold an item."""
    lead, (places, dim) = shown.rows.shape[:-2], shown.rows.shape[-2:]
    utility = utilities(shown.rows, theta).reshape(-1, places)
    rows = (shown.rows @ np.swapaxes(coordinates, -1, -2)).reshape(-1, places, dim)
    chosen = chosen_features(rows, shown.position.reshape(-1))
    parts = [
        _weighted(utility[part], rows[part], chosen[part])
        for part in (slice(begin, begin + TOGETHER) for begin in range(0, max(len(rows), 1), TOGETHER))
    ]
    score, information = (np.concatenate(both) if len(parts) > 1 else both[0] for both in zip(*parts, strict=True))
    return Pair(score.reshape(*lead, dim), information.reshape(*lead, dim, dim))


def _weighted(utility: FloatArray, rows: FloatArray, chosen: FloatArray) -> Pair:
    """The pairs of n visitors: utilities (n, K), rows (n, K, d) in the coordinates x', row chosen (n, d).

    The spread is centred before it is squared: the information is then positive semidefinite in floating point too, and
    nothing cancels when features share a large offset. The sensitivity rests on this. Visitors run along contiguous
    numbers, for speed; two at least, so that sums are taken in the same order however many there are.
    """
    if len(rows) == 1:
        twice = np.zeros(2, dtype=np.int64)
        pair = _weighted(utility[twice], rows[twice], chosen[twice])
        return Pair(pair.score[:1], pair.information[:1])
    x = np.ascontiguousarray(np.moveaxis(rows, 0, -1))  # (K, d, n)
    share = shares(np.ascontiguousarray(utility.T), axis=0)
    mean = np.einsum("kn,kdn->dn", share.items, x)
    away = x - mean
    square, none = np.einsum("kdn,kdn->kn", away, away), np.einsum("dn,dn->n", mean, mean)
    reach = np.sqrt(np.maximum(square.max(axis=0), none))
    trace = np.einsum("kn,kn->n", share.items, square) + share.none * none
    bounded = np.isfinite(reach) & np.isfinite(trace) & np.isfinite(utility).all(-1)
    weight = np.minimum(1.0, MARGIN * np.minimum(_ratio(SCORE_BOUND, reach), _ratio(INFORMATION_BOUND, trace)))
    score = np.where(bounded, weight * (mean - chosen.T), 0.0)
    away *= np.sqrt(weight * share.items)[:, None]
    mean *= np.sqrt(weight * share.none)
    information = np.einsum("kdn,ken->den", away, away) + mean[:, None] * mean
    information = np.where(bounded, information, 0.0).reshape(-1 if len(rows) else 0, len(rows))
    return Pair(np.ascontiguousarray(score.T), np.ascontiguousarray(information.T))


def summed(pairs: Pair, grid: float = 0.0, *, after: Total | None = None) -> Total:
    """Sum over the first axis, each visitor's svec rounded to the grid before (0: not at all).

    With ``after``, that sum goes on: visitors are added one after the other, and it does not matter how many at a time.
    """
    score, information = pairs.score, svec(pairs.information)
    if grid:
        score, information = on_grid(score, grid), on_grid(information, grid)
    if after is None:
        return Total(score.sum(0), information.sum(0))
    return Total(reduce(np.add, score, after.score), reduce(np.add, information, after.information))


def nothing(lead: tuple[int, ...], dim: int) -> Total:
    """The sum over nobody."""
    return Total(np.zeros((*lead, dim)), np.zeros((*lead, svec_dim(dim))))


def on_grid(values: FloatArray, grid: float) -> FloatArray:
    """Each number rounded towards zero to a multiple of ``grid``, a power of two: exact in float64, sums as well."""
    return np.asarray(np.trunc(values / grid) * grid)


def _ratio(bound: float, size: FloatArray) -> FloatArray:
    return bound / np.maximum(size, 1e-300)
