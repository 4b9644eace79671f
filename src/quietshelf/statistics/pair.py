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
from typing import NamedTuple

import numpy as np

from quietshelf.choice import chosen_features, moments, utilities
from quietshelf.statistics.rows import Shown
from quietshelf.statistics.symmetric import svec, svec_dim
from quietshelf.types import BoolArray, FloatArray

SCORE_BOUND = 1.0
"""C: no weighted score is longer."""
INFORMATION_BOUND = 1.0
"""B: no weighted information has a larger trace."""
MARGIN = 1.0 - 1e-12


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

    Args:
        shown: Rows (..., K, d), which places are offered, and the chosen place.
        theta: Released tastes (..., d), in raw coordinates.
        coordinates: L, (..., d, d), public.
        counts: Visitors who may contribute, (...); None means all.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        utility = utilities(shown.rows, theta)
        rows = shown.rows @ np.swapaxes(coordinates, -1, -2)
        mean, spread = moments(rows, utility, shown.offered)
        away = np.where(shown.offered, ((rows - mean[..., None, :]) ** 2).sum(-1), 0.0).max(-1, initial=0.0)
        reach = np.sqrt(np.maximum(away, (mean**2).sum(-1)))
        trace = (spread**2).sum((-2, -1))
        bounded = np.isfinite(reach) & np.isfinite(trace) & np.isfinite(utility).all(-1)
        if counts is not None:
            bounded = bounded & counts
        weight = np.minimum(1.0, MARGIN * np.minimum(_ratio(SCORE_BOUND, reach), _ratio(INFORMATION_BOUND, trace)))
        score = weight[..., None] * (mean - chosen_features(rows, shown.position))
        information = weight[..., None, None] * (np.swapaxes(spread, -1, -2) @ spread)
    return Pair(
        np.where(bounded[..., None], score, 0.0),
        np.where(bounded[..., None, None], information, 0.0),
    )


def summed(pairs: Pair, grid: float = 0.0) -> Total:
    """Sum over the first axis, each visitor's svec rounded to the grid before (0: not at all)."""
    if grid == 0:
        return Total(pairs.score.sum(0), svec(pairs.information.sum(0)))
    return Total(on_grid(pairs.score, grid).sum(0), on_grid(svec(pairs.information), grid).sum(0))


def nothing(lead: tuple[int, ...], dim: int) -> Total:
    """The sum over nobody."""
    return Total(np.zeros((*lead, dim)), np.zeros((*lead, svec_dim(dim))))


def on_grid(values: FloatArray, grid: float) -> FloatArray:
    """Each number rounded towards zero to a multiple of ``grid``, a power of two: exact in float64, sums as well."""
    return np.asarray(np.trunc(values / grid) * grid)


def _ratio(bound: float, size: FloatArray) -> FloatArray:
    return bound / np.maximum(size, 1e-300)
