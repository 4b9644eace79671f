"""A study's figure as small charts of a page: a grid of panels on common axes, with one legend."""

from __future__ import annotations

import numpy as np

from quietshelf.report.charts import COLOURS, TONES, Curve, Words, legend, line_chart, log_axis
from quietshelf.report.frame import Axis
from quietshelf.report.plotted import LOST, VISITORS, Line, Panel, Plotted
from quietshelf.report.svg import BROAD, SMALL, Markup, tag, together


def multiples(figure: Plotted) -> Markup:
    """All panels; a single one is as wide as the page, and its lines are labelled."""
    tones = _tones(figure)
    panels = [_curves(panel, tones) for panel in figure.panels]
    if len(panels) == 1:
        return _chart(figure, 0, panels[0], panels[0], widest=BROAD, height=320)
    boxes = []
    for place, curves in enumerate(panels):
        first = place - place % figure.columns
        row = [curve for each in panels[first : first + figure.columns] for curve in each]
        heading = tag("h3", _name(figure.panels[place]))
        boxes.append(tag("div", heading, _chart(figure, place, curves, row, widest=SMALL, height=180)))
    every = [curve for curves in panels for curve in curves]
    return together([tag("div", *boxes, class_="panels"), legend(every, "always")])


def _chart(figure: Plotted, place: int, curves: list[Curve], row: list[Curve], *, widest: int, height: float) -> Markup:
    """One panel, on the axes its row shares."""
    log = figure.log_y and all((curve.mean > 0).all() for curve in row)
    above = [part for curve in row for part in (curve.mean, curve.mean + np.nan_to_num(curve.half))]
    title = f"{figure.title} {_name(figure.panels[place])}".strip()
    names = {"x": _axis(figure.x_label, log=figure.log_x), "y": _axis(LOST, log=log)}
    return line_chart(
        curves,
        Words(f"{figure.name}-{place}", title, _says(curves), **names),
        x=Axis.of([curve.x for curve in row], log=figure.log_x),
        y=log_axis(row) if log else Axis.of(above),
        dots=figure.x_label != VISITORS,
        named=widest == BROAD,
        widest=widest,
        height=height,
    )


def _tones(figure: Plotted) -> dict[str, int]:
    """One tone per line, the same in all panels; baselines are grey."""
    lines = {line.label: line.floor for panel in figure.panels for line in panel.lines}
    own = [label for label, floor in lines.items() if not floor]
    floors = [label for label, floor in lines.items() if floor]
    coloured = {label: place % COLOURS + TONES * (place // COLOURS) for place, label in enumerate(own)}
    return coloured | {label: COLOURS + place % (TONES - COLOURS) for place, label in enumerate(floors)}


def _curves(panel: Panel, tones: dict[str, int]) -> list[Curve]:
    found = [line.x[np.isfinite(line.x)] for line in panel.lines]
    ends = np.concatenate([x for x in found if x.size] or [np.array([0.0, 1.0])])
    return [_curve(line, tones[line.label], (float(ends.min()), float(ends.max()))) for line in panel.lines]


def _curve(line: Line, tone: int, ends: tuple[float, float]) -> Curve:
    """A line as a curve; one without x values is level from end to end."""
    if not np.isnan(line.x).any():
        return Curve(line.label, line.x, line.mean, line.half, tone)
    level = np.repeat(line.mean[:1], 2)
    return Curve(line.label, np.array(ends), level, 0 * level, tone)


def _name(panel: Panel) -> str:
    return ", ".join(part for part in (panel.column, panel.row) if part)


def _axis(label: str, *, log: bool) -> str:
    return f"{label} (log scale)" if log else label


def _says(curves: list[Curve]) -> str:
    return "; ".join(f"{curve.label}: {curve.mean[-1]:.4g}" for curve in curves if len(curve.mean))
