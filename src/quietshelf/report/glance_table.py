"""Many worlds at a glance, as an HTML table."""

from __future__ import annotations

import math

from quietshelf.report.document import scrolling
from quietshelf.report.glance import HIGHEST, LEGEND, STUCK, WORSE, Glance, GlanceCell, GlanceRow
from quietshelf.report.svg import Markup, tag, together

HEATS = 5
"""Shades in the style sheet."""


def glance_table(glance: Glance) -> Markup:
    """A row per world, a column per contestant, the darker the more is lost; with a legend."""
    heads = [tag("th", "world", scope="col"), *(tag("th", head, scope="col") for head in glance.heads)]
    foot = [
        tag("tr", tag("th", name, scope="row"), *(tag("td", each) for each in texts)) for name, texts in glance.foot
    ]
    body = tag("tbody", *(_row(row) for row in glance.rows), *foot)
    made = scrolling(glance.title, tag("thead", tag("tr", *heads)), body, kind="seen")
    return together([made, *(tag("p", meaning, class_="small") for meaning in LEGEND)])


def _row(row: GlanceRow) -> Markup:
    return tag("tr", tag("th", row.name, tag("small", row.note), scope="row"), *(_cell(cell) for cell in row.cells))


def _cell(cell: GlanceCell) -> Markup:
    marks = "  ".join(f"{mark} {count}" for mark, count in ((STUCK, cell.stuck), (WORSE, cell.worse)) if count)
    heat = "" if cell.tone is None else f"h{heat_of(cell.tone)}"
    return tag(
        "td", tag("b", cell.text), tag("small", cell.below), *([tag("small", marks)] if marks else []), class_=heat
    )


def heat_of(multiple: float) -> int:
    """The shade of a multiple, on a log scale.

    >>> heat_of(1.0), heat_of(4.0), heat_of(100.0)
    (0, 2, 4)
    """
    share = math.log(max(multiple, 1.0)) / math.log(HIGHEST)
    return min(HEATS - 1, int(HEATS * share))
