"""Numbers as text, for tables on a terminal or a page."""

from __future__ import annotations

import math


def number(value: float, digits: int = 3) -> str:
    """Format to significant digits, rounded to nearest; for privacy figures see `accounting.figures.rounded_up`.

    >>> number(1234.5678), number(0.04567), number(0.99999), number(2e-7), number(math.inf), number(math.nan)
    ('1,235', '0.0457', '1.00', '2e-07', '∞', '-')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) < 1e-4:
        return f"{rounded:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"


def plus_minus(mean: float, half: float, unit: str = "") -> str:
    """Format a mean and its uncertainty, with two significant digits of the latter.

    >>> plus_minus(67.8123, 6.312, " %"), plus_minus(115.2, 13.8), plus_minus(3.0, math.nan)
    ('67.8 ± 6.3 %', '115 ± 14', '3.0')
    """
    digits = 1 if math.isnan(half) or half == 0 else max(0, 1 - math.floor(math.log10(half)))
    told = "" if math.isnan(half) else f" ± {half:,.{digits}f}"
    return f"{mean:,.{digits}f}{told}{unit}"
