"""Small drawings inside table rows. The tables read well without them."""

from __future__ import annotations

import math
from typing import Any

from quietshelf.report.charts import bar, spark
from quietshelf.report.svg import Markup, strip, tag

__all__ = ["bar", "gauge", "interval", "reach_of", "spark", "strength"]


def gauge(share: float) -> Markup:
    """How much of a promise has been used. The figures stand beside it."""
    return strip(
        tag("rect", x=0, y=0, width=100, height=10, class_="track"),
        tag("rect", x=0, y=0, width=100 * share, height=10, class_="fill"),
        kind="gauge",
    )


def interval(taste: dict[str, Any], reach: float) -> Markup:
    """An estimate with one (thick) and two (thin) standard errors on either side, on an axis of ±``reach``."""
    value, error = taste["estimate"], taste["standard_error"]

    def place(at: float) -> float:
        return 50 + 50 * max(-1.0, min(1.0, at / reach))

    def span(times: float) -> str:
        return f"M{place(value - times * error):.2f} 5H{place(value + times * error):.2f}"

    return strip(
        tag("path", d="M50 0V10", class_="zero"),
        tag("path", d=span(2), class_="thin"),
        tag("path", d=span(1), class_="thick"),
        tag("path", d=f"M{place(value):.2f} 5h0", class_="point"),
        kind="interval",
    )


def reach_of(tastes: list[dict[str, Any]]) -> float:
    """Half the width of the axis: a round number that fits every interval."""
    widest = max((abs(each["estimate"]) + 2 * each["standard_error"] for each in tastes), default=1.0) or 1.0
    size = 10.0 ** math.floor(math.log10(widest))
    return next(size * factor for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * factor >= widest * (1 - 1e-9))


def strength(direction: dict[str, Any]) -> Markup:
    """Information in a direction relative to the noise, on a scale from 1/100 to 100."""
    ratio = direction["information"] / direction["noise"]
    place = 50 + 25 * max(-2.0, min(2.0, math.log10(max(ratio, 1e-9))))
    kind = "fill" if ratio >= 1 else "fill weak"
    return strip(
        tag("rect", x=0, y=1, width=place, height=8, class_=kind),
        tag("path", d="M50 0V10", class_="zero"),
        kind="strength",
    )
