"""Contributions in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from quietshelf.privacy.statistics import (
    Factors,
    Grids,
    row_grid,
)

SCORE_GRID = 2.0**-20
SIZES = st.sampled_from([5e-324, 1e-320, 1e-160, 1e-8, 1.0, 1e6, 1e150, 1e154, 1e300])


def grids(bound: float, visitors: int = 1000, noise: float = 1.0) -> Grids:
    """The grids of a batch whose noise is ``noise`` times the bound."""
    return Grids(SCORE_GRID, row_grid(bound, noise * bound, visitors))


def integers(found: Factors, fine: Grids) -> tuple[list[Fraction], list[list[Fraction]]]:
    """One visitor's score and information, in exact arithmetic."""
    rows = [[Fraction(float(x)) / Fraction(float(fine.rows)) for x in row] for row in found.rows]
    assert all(x.denominator == 1 for row in rows for x in row)
    unit = Fraction(float(fine.rows)) ** 2
    dim = len(rows[0])
    information = [[unit * sum(row[i] * row[j] for row in rows) for j in range(dim)] for i in range(dim)]
    return [Fraction(float(x)) for x in found.score], information


def exact_distance(one: Factors, other: Factors, bound: float, fine: Grids) -> Fraction:
    """The squared distance of two visitors in units u, without rounding."""
    (g, H), (g2, H2) = integers(one, fine), integers(other, fine)
    score = sum((a - b) ** 2 for a, b in zip(g, g2, strict=True)) / 2
    informed = sum((a - b) ** 2 for row, row2 in zip(H, H2, strict=True) for a, b in zip(row, row2, strict=True))
    return Fraction(score) + Fraction(informed) / Fraction(bound) ** 2
