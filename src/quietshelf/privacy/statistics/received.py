"""Check a contribution computed elsewhere for exactly what the sensitivity needs.

Contribution: a score, and rows A of an information ``A'A``, as `statistics.factors` makes them.
Test: every number finite and on its grid, and ``|score|²/C² + |A'A|_F²/B² <= 1``. It is decided in integers, so it is a
    statement about the numbers themselves, not about rounded ones.
Sensitivity: sqrt(2) in units u between any two that pass, however they were made: ``A'A`` is positive semidefinite
    whatever A is, and the proof of section 4 uses nothing else.
Sums: exact, as in `statistics.factors`, because they only need ``|A'A|_F <= B``.
Assumes: nothing about who computed it, or from what.
Reference: docs/proofs.md, sections 4 to 6.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.privacy.statistics.factors import Factors, Grids
from quietshelf.privacy.statistics.pair import SCORE_BOUND

BEYOND = 1.0 + 1e-6
"""Rows and columns longer than sqrt(B BEYOND) are refused before they are multiplied; products of all others are exact
in float64."""
NOT_FINITE = "numbers of a contribution must be finite"
OFF_GRID = "numbers of a contribution must be multiples of its batch's grids"
TOO_LONG = "|score|²/C² + |A'A|²/B² must be at most 1, for A the rows of a contribution and B its batch's bound"


@np.errstate(all="ignore")  # overflow is refused, and no warning may show it
def broken_rule(given: Factors, bound: float, grids: Grids) -> str | None:
    """The rule that a contribution, score (d,) and rows (n, d), breaks; None if it may enter a sum.

    Depends only on the contribution and on what its batch froze.
    """
    fine = float(grids.rows)
    if not (grids.score > 0 and fine > 0):
        return OFF_GRID
    if not (np.isfinite(given.score).all() and np.isfinite(given.rows).all()):
        return NOT_FINITE
    score, rows = np.rint(given.score / grids.score), np.rint(given.rows / fine)
    if not (np.array_equal(score * grids.score, given.score) and np.array_equal(rows * fine, given.rows)):
        return OFF_GRID
    square = given.rows**2
    longest = max(float(square.sum(axis=axis).max(initial=0.0)) for axis in (0, 1))
    small = float(np.abs(given.score).max(initial=0.0)) <= SCORE_BOUND and longest <= bound * BEYOND
    return None if small and _length(score, rows, bound, grids.score, fine) <= 1 else TOO_LONG


def _length(score: FloatArray, rows: FloatArray, bound: float, grid: float, fine: float) -> Fraction:
    """``|score|²/C² + |A'A|²/B²`` from multiples of the grids, exactly.

    No row or column is longer than sqrt(B BEYOND), and B is at most 2^52 q², so in any order the sums of their products
    stay within the integers that float64 holds.
    """
    products = rows.T @ rows if len(rows) > rows.shape[1] else rows @ rows.T  # both have the same length
    of_score, of_rows = (Fraction(sum(int(each) ** 2 for each in values.flat)) for values in (score, products))
    return of_score * Fraction(grid / SCORE_BOUND) ** 2 + of_rows * (Fraction(fine) ** 2 / Fraction(bound)) ** 2
