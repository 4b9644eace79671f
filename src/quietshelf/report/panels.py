"""A study's figure as SVG and PNG files: a grid of panels with one legend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.report.plotted import LOST, VISITORS, Line, Panel, Plotted
from quietshelf.report.style import curve, dots, figures, look

FLOOR_STYLE = {"color": "0.35", "linewidth": 1.1}
FLOOR_DASHES = ((0, (1, 1)), (0, (5, 2)), (0, (3, 1, 1, 1)))
FORMATS = ("svg", "png")


def draw(figure: Plotted, folder: Path) -> list[Path]:
    """Write ``folder/NAME.svg`` and ``.png``; bands are 95 % confidence intervals of the mean over replicates."""
    count = figure.columns
    rows = [figure.panels[begin : begin + count] for begin in range(0, len(figure.panels), count)]
    paths = [folder / f"{figure.name}.{suffix}" for suffix in FORMATS]
    size = (max(2.9 * count + 0.6, 6.0), 2.5 * len(rows) + 1.6)
    with figures(paths, size=size, shape=(len(rows), count)) as (canvas, grid):
        looks = _looks(figure)
        for axes_row, row in zip(grid, rows, strict=True):
            for axes, panel in zip(axes_row, row, strict=True):
                _panel(axes, panel, figure, looks)
            axes_row[0].set_ylabel(f"{row[0].row}\n\n{LOST}" if row[0].row else LOST)
        for axes, panel in zip(grid[0], rows[0], strict=True):
            axes.set_title(panel.column)
        for axes in grid[-1]:
            axes.set_xlabel(figure.x_label)
        canvas.suptitle(figure.title)
        _legend(canvas, grid)
    return paths


def _looks(figure: Plotted) -> dict[str, dict[str, Any]]:
    """One look per line, the same in all panels."""
    lines = {line.label: line for panel in figure.panels for line in panel.lines}
    own = [label for label, line in lines.items() if not line.floor]
    floors = [label for label, line in lines.items() if line.floor]
    dashes = {label: FLOOR_DASHES[place % len(FLOOR_DASHES)] for place, label in enumerate(floors)}
    return {
        **{label: look(place) for place, label in enumerate(own)},
        **{label: {**FLOOR_STYLE, "linestyle": dash} for label, dash in dashes.items()},
    }


def _panel(axes: Any, panel: Panel, figure: Plotted, looks: dict[str, dict[str, Any]]) -> None:
    points = figure.x_label != VISITORS
    for line in panel.lines:
        _line(axes, line, looks[line.label], points=points)
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y and all((line.mean > 0).all() for line in panel.lines):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    if not points:
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _line(axes: Any, line: Line, style: dict[str, Any], *, points: bool) -> None:
    if np.isnan(line.x).any():  # no x value: level
        axes.axhline(line.mean[0], label=line.label, **style)
        return
    drawn = dots if points else curve
    drawn(axes, line.x, line.mean, line.half, label=line.label, **style)


def _legend(canvas: Any, grid: Any) -> None:
    """One for all panels, below them."""
    found: dict[str, Any] = {}
    for axes in np.ravel(grid):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    columns = max(1, min(4, len(found), int(canvas.get_figwidth() // 2.4)))
    canvas.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=columns,
        title="mean; bands and bars: 95 % confidence",
    )
