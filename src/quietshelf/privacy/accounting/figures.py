"""Numbers that must never be understated: validation, rounding up, printing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from quietshelf.model.types import require

TOLERANCE = 1e-12
"""Figures within this relative distance are the same: room for float rounding of calibrated parts."""


def at_least_zero(name: str, value: Any) -> float:
    """Check that a number is at least zero, possibly infinite; return it as a float.

    >>> at_least_zero("rho", -0.5)
    Traceback (most recent call last):
    ...
    ValueError: rho must be at least zero, got rho=-0.5
    """
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    require(is_number and value >= 0, f"{name} must be at least zero", **{name: value})
    try:
        return float(value)
    except OverflowError:  # a whole number beyond the floats
        return math.inf


def round_up(value: Fraction) -> float:
    """The least float that is not below an exact value.

    >>> round_up(Fraction(1)), round_up(Fraction(1, 10)) >= Fraction(1, 10)
    (1.0, True)
    """
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def added_up(prices: Iterable[float]) -> float:
    """The sum, computed exactly and rounded up; infinite if a term is.

    >>> added_up([0.1, 0.2]) >= Fraction(0.1) + Fraction(0.2), added_up([1.0, math.inf]), added_up([])
    (True, inf, 0.0)
    """
    known = list(prices)
    return math.inf if math.inf in known else round_up(sum(map(Fraction, known), Fraction(0)))


def rounded_up(value: float) -> str:
    """Format with four significant digits, rounded upwards, so that no sentence promises more than is proven.

    >>> rounded_up(8.97912), rounded_up(1.0), rounded_up(1.0 + 1e-15), rounded_up(1e-12), rounded_up(math.inf)
    ('8.98', '1', '1', '1e-12', 'infinite')
    """
    return _rounded(value * (1 - TOLERANCE), ROUND_CEILING)


def rounded_down(value: float) -> str:
    """Format rounded downwards, for figures that must not be overstated: noise, and the loss an attack has shown.

    >>> rounded_down(2.23608), rounded_down(0.8 - 1e-16), rounded_down(0.0), rounded_down(math.inf)
    ('2.236', '0.8', '0', 'infinite')
    """
    return _rounded(value * (1 + TOLERANCE), ROUND_FLOOR)


def _rounded(value: float, rounding: str) -> str:
    return "infinite" if math.isinf(value) else f"{float(Context(prec=4, rounding=rounding).plus(Decimal(value))):.4g}"
