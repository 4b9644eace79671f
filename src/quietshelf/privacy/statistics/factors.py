"""The bounded pair in the form that is released: a score, and the rows of the information, on a public grid.

Contribution: score ``-w phi_chosen``, each number rounded towards zero to a grid; and the K + 1 rows
    ``a_j = sqrt(w p_j h_j s) (z_j - m)`` of `statistics.pair`, none last, each number rounded to the nearest multiple
    of another grid q. The information is ``A'A``: positive semidefinite and a multiple of q², exactly. Zero where
    anything is not finite.
Neighbours: one visitor replaced, features, offer and choice alike; theta, L, B and both grids fixed.
Sensitivity: sqrt(2) in units u = (score/(sqrt(2) C), svec(information)/B). Rounding moves A by E, |E|_F <= t sqrt(B),
    t = q sqrt((K + 1) d)/(2 sqrt(B)), hence A'A by at most (2 t + t²) B: w leaves room for that.
Sums: integers in units of q², which float64 adds exactly while visitors times B is at most 2^52 q² (`row_grid` sees to
    it): in any order and any grouping, by one matrix product, to the same bits.
Assumes: nothing about the features; a matrix product that adds products of its entries, in whatever order.
Reference: docs/proofs.md, sections 4 and 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quietshelf.model.choice.likelihood import utilities
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray
from quietshelf.privacy.statistics.pair import (
    NUMBERS,
    TOGETHER,
    Total,
    centred,
    on_grid,
    shrunk,
    valid_bound,
    weighed,
    without_gaps,
)
from quietshelf.privacy.statistics.rows import ObservedChoice
from quietshelf.privacy.statistics.symmetric import upper

EXACT = 2.0**52
"""The most units of the grid that a sum may reach: half of what float64 holds exactly."""
NOISE_ROOM = 2.0**47
"""The most units in one standard deviation of the noise: 32 deviations reach as far as a sum may."""
MARGIN = 1.0 - 2e-10
"""Covers all rounding of float64 (docs/proofs.md, section 4)."""


MOST_MOVED = 0.75
"""The most that rounding may move an information, in units of B; on coarser grids every contribution is zero."""


class Grids(NamedTuple):
    """Public powers of two to whose multiples contributions are rounded; 0 for no rounding.

    Attributes:
        score: Grid of the score, and of outcomes.
        rows: q, the grid of the rows of the information, (...).
    """

    score: float
    rows: FloatArray | float


class Factors(NamedTuple):
    """Contributions: score (..., d), and rows (..., K + 1, d), no choice last; rows of empty places are zero."""

    score: FloatArray
    rows: FloatArray


def row_grid(bound: FloatArray | float, noise: FloatArray | float, visitors: int) -> FloatArray:
    """q, the finest grid on which the informations of ``visitors`` and noise of that size add up exactly, (...).

    >>> float(row_grid(1.0, 1.0, 1000)) == 2.0**-21
    True
    """
    least = np.maximum(valid_bound(bound) * visitors / EXACT, np.asarray(noise) / NOISE_ROOM)
    _, exponent = np.frexp(least)  # q² is at least 2^exponent, more than needed
    return np.asarray(np.ldexp(1.0, -(-exponent // 2)))


def factors(
    shown: ObservedChoice,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: FloatArray | float,
    grids: Grids,
    counts: BoolArray | None = None,
) -> Factors:
    """The rounded contribution of each visitor; zero for visitors who do not count.

    It has the same bits alone and in a group, with empty places and without. Arguments are as in `pair.contribution`.
    """
    theta, coordinates = np.ascontiguousarray(theta), np.ascontiguousarray(coordinates)
    lead, (places, dim) = shown.position.shape, shown.rows.shape[-2:]
    limit = np.broadcast_to(valid_bound(bound), lead)
    grid = np.broadcast_to(np.asarray(grids.rows, dtype=np.float64), lead)
    found = Factors(np.zeros((*lead, dim)), np.zeros((*lead, places + 1, dim)))
    with np.errstate(over="ignore", invalid="ignore"):
        for some, part, mine, frame, most in without_gaps(shown, theta, coordinates, limit):
            score, rows = _full(part, mine, frame, most, grid[some])
            found.score[some], found.rows[some, : rows.shape[-2] - 1] = score, rows[:, :-1]
            found.rows[some, -1] = rows[:, -1]
    if counts is not None:
        found.score[~counts] = found.rows[~counts] = 0.0
    return found._replace(score=on_grid(found.score, grids.score)) if grids.score else found


def totalled(found: Factors) -> Total:
    """Sum over the first axis with one matrix product."""
    _, *worlds, _, dim = found.rows.shape
    rows = np.moveaxis(found.rows, 0, -3).reshape(*worlds, -1, dim)
    return Total(found.score.sum(0), upper(rows.mT @ rows))


def _full(
    part: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: FloatArray, grid: FloatArray
) -> Factors:
    """The contributions of n visitors without empty places."""
    count, places, dim = part.rows.shape
    utility = utilities(part.rows, theta)
    rows = part.rows @ coordinates.mT
    position = np.maximum(part.position, NOTHING)
    score, factored = np.empty((count, dim)), np.empty((count, places + 1, dim))
    step = max(2, min(TOGETHER, NUMBERS // ((places + 1) * dim)))
    for begin in range(0, count, step):
        own = slice(begin, begin + step)
        score[own], factored[own] = _some(utility[own], rows[own], position[own], bound[own], grid[own])
    return Factors(score, factored)


def _some(utility: FloatArray, rows: FloatArray, position: IntArray, bound: FloatArray, grid: FloatArray) -> Factors:
    """Contributions from utilities (n, K), rows z (n, K, d), place chosen, B and q (n,); at least two, as in `pair`."""
    count, places, dim = rows.shape
    if count == 1:
        twice = np.zeros(2, dtype=np.int64)
        both = _some(utility[twice], rows[twice], position[twice], bound[twice], grid[twice])
        return Factors(both.score[:1], both.rows[:1])
    around = centred(np.ascontiguousarray(utility.T), rows)
    everyone = np.arange(count)
    score = around.cut[position, everyone] * around.away[position, :, everyone].T - around.rest  # NOTHING is the last
    shrink, reach = shrunk(around)
    around.away[...] *= np.sqrt(around.chance * around.cut * shrink)[:, None]
    factored = np.ascontiguousarray(np.moveaxis(around.away, -1, 0))
    products = factored @ factored.mT  # |A'A| is |AA'|, a matrix of K + 1 by K + 1
    large = (products * products).sum(-1).sum(-1)  # row by row: errors grow with K, not K²
    off = 0.5 * grid * math.sqrt((places + 1) * dim) / np.sqrt(bound)
    moved = (2.0 + off) * off
    weight, known = weighed(shrink, reach, large, bound, np.where(moved <= MOST_MOVED, MARGIN - moved, 0.0))
    score *= -weight * shrink
    factored *= np.sqrt(weight)[:, None, None]
    unbounded = ~(known & np.isfinite(utility).all(axis=-1))
    score[:, unbounded] = factored[unbounded] = 0.0
    if grid.any():
        factored = np.rint(factored / grid[:, None, None]) * grid[:, None, None]
    return Factors(np.ascontiguousarray(score.T), factored)
