"""Many worlds at a glance: a row per world, a column per contestant, coloured by the loss over no privacy."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from quietshelf.report.style import figures

FORMATS = ("svg", "png")
STUCK, WORSE = "■", "▼"
HIGHEST = 20.0
"""Multiples from here on have the strongest colour."""
PALE = 0.58
"""The share of the colour map that is pale enough for black text."""
NAMES, ROW, COLUMN = 2.9, 0.37, 1.62
"""Inches: the width of the names, the height of a row, the width of a column."""
MIDDLE, EDGE = 0.39, 0.97
"""Where in a cell text is centred, and where marks end."""
FOOT = 0.68
"""Height of a line of the footer, in rows."""
LETTERS = 13.5
"""Letters of the legend per inch."""
LEGEND = (
    "Large: regret as a share of that of random offers, mean over runs. Small: × the multiple of the regret without "
    "privacy (the darker, the more), and the 90 % quantile of the share over runs.",
    f"{STUCK} runs that are stuck: their later half loses more than a quarter of what random offers lose. "
    f"{WORSE} runs that are worse than random in one of ten equal parts.",
    "(!) More than 5 % is lost without privacy: too short a run to judge.",
)


@dataclass(frozen=True)
class GlanceCell:
    """One contestant in one world.

    Attributes:
        text: Its regret.
        below: More figures, in small print.
        tone: The multiple of the regret without privacy, which sets the colour; None for no colour.
        stuck: Number of runs that are stuck.
        worse: Number of runs that are worse than random.
    """

    text: str
    below: str
    tone: float | None = None
    stuck: int = 0
    worse: int = 0


@dataclass(frozen=True)
class GlanceRow:
    """One world: its name, its sizes, and a cell per column."""

    name: str
    note: str
    cells: tuple[GlanceCell, ...]


@dataclass(frozen=True)
class Glance:
    """The overview of many worlds, to be drawn or tabulated.

    Attributes:
        name: Its file name.
        title: Its title.
        heads: Headings of the columns.
        rows: One per world.
        foot: Footer lines for all worlds together: a name, and a text per column.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[GlanceRow, ...]
    foot: tuple[tuple[str, tuple[str, ...]], ...]


def draw_glance(glance: Glance, folder: Path) -> list[Path]:
    """Write ``folder/NAME.svg`` and ``.png``."""
    paths = [folder / f"{glance.name}.{suffix}" for suffix in FORMATS]
    lines = len(glance.rows) + FOOT * len(glance.foot)
    size = (NAMES + COLUMN * len(glance.heads) + 0.2, ROW * (lines + 4.4))
    with figures(paths, size=size) as (canvas, grid):
        axes = grid[0][0]
        axes.set_xlim(-NAMES / COLUMN, len(glance.heads))
        axes.set_ylim(lines + 2.4, -0.8)
        axes.axis("off")
        canvas.suptitle(glance.title)
        for place, head in enumerate(glance.heads):
            axes.text(place + MIDDLE, -0.4, head, ha="center", va="center", weight="bold")
        for number, row in enumerate(glance.rows):
            _row(axes, number, row)
        _foot(axes, glance)
    return paths


def write_glance_csv(glance: Glance, path: Path) -> Path:
    """Write what the overview shows, one row per cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["world", "sizes", "column", "text", "below", "multiple", "stuck", "worse"])
        for row in glance.rows:
            for head, cell in zip(glance.heads, row.cells, strict=True):
                tone = "" if cell.tone is None else f"{cell.tone:.10g}"
                writer.writerow([row.name, row.note, head, cell.text, cell.below, tone, cell.stuck, cell.worse])
    return path


def _row(axes: Any, number: int, row: GlanceRow) -> None:
    axes.text(-0.08, number + 0.32, row.name, ha="right", va="center", fontsize=9.5)
    axes.text(-0.08, number + 0.73, row.note, ha="right", va="center", fontsize=7, color="0.4")
    for place, cell in enumerate(row.cells):
        colour = "white" if cell.tone is None else _colour(cell.tone)
        from matplotlib.patches import Rectangle

        axes.add_patch(Rectangle((place, number), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
        axes.text(place + MIDDLE, number + 0.34, cell.text, ha="center", va="center", fontsize=10)
        axes.text(place + MIDDLE, number + 0.74, cell.below, ha="center", va="center", fontsize=7.2, color="0.2")
        for mark, count, height in ((STUCK, cell.stuck, 0.32), (WORSE, cell.worse, 0.72)):
            if count:
                axes.text(place + EDGE, number + height, f"{mark} {count}", ha="right", va="center", fontsize=7.5)


def _foot(axes: Any, glance: Glance) -> None:
    first = len(glance.rows) + 0.25
    axes.plot([-NAMES / COLUMN, len(glance.heads)], [first - 0.12] * 2, color="0.3", linewidth=0.8)
    for number, (name, texts) in enumerate(glance.foot):
        axes.text(-0.08, first + FOOT * (number + 0.5), name, ha="right", va="center", fontsize=9.5)
        for place, text in enumerate(texts):
            axes.text(place + MIDDLE, first + FOOT * (number + 0.5), text, ha="center", va="center", fontsize=9.5)
    below, width = first + FOOT * len(glance.foot) + 0.3, int(LETTERS * (NAMES + COLUMN * len(glance.heads)))
    legend = "\n".join(line for meaning in LEGEND for line in wrap(meaning, width))
    axes.text(-NAMES / COLUMN, below, legend, ha="left", va="top", fontsize=8, color="0.2", in_layout=False)


def _colour(tone: float) -> Any:
    """From pale yellow at 1 to orange at `HIGHEST`, on a log scale."""
    from matplotlib import colormaps

    place = math.log(max(tone, 1.0)) / math.log(HIGHEST)
    return colormaps["YlOrRd"](PALE * min(place, 1.0))
