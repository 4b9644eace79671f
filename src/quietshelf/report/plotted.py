"""The numbers of a study's figure: panels of lines with bands. `panels` and `multiples` draw them."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.model.types import FloatArray, one_of
from quietshelf.report.series import Series, band, described, from_the_start, matching, values_of, words

KINDS = ("curves", "final")
KEYS = ("name", "title", "kind", "x", "log_x", "log_y", "where", "rows", "columns", "lines", "floor")
VISITORS, LOST = "visitors", "revenue lost (regret)"


@dataclass(frozen=True, eq=False)
class Line:
    """A line and its 95 % band; ``floor`` marks a baseline."""

    label: str
    x: FloatArray
    mean: FloatArray
    half: FloatArray
    floor: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes."""

    row: str
    column: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Plotted:
    """A figure, ready to be drawn.

    Attributes:
        name: Its file name.
        title: Its title.
        x_label: Label of the x axis.
        columns: Panels per row.
        panels: All panels, row by row.
        log_x: Whether x is on a log scale.
        log_y: Whether regret is.
    """

    name: str
    title: str
    x_label: str
    columns: int
    panels: tuple[Panel, ...]
    log_x: bool = False
    log_y: bool = False


def plotted(figure: Mapping[str, Any], series: Sequence[Series]) -> Plotted:
    """Compute a figure from the series of a study.

    Args:
        figure: ``name``, ``title``, ``kind`` ("curves": regret over visitors; "final": regret at the horizon against
            ``x``), ``log_x``, ``log_y``, ``where``, the settings that split ``rows`` and ``columns`` of panels and
            ``lines``, and ``floor``: baseline policies drawn in every panel of their world.
        series: All series of a study.
    """
    kind = figure.get("kind", "curves")
    one_of("kind", kind, KINDS)
    chosen = matching(series, figure.get("where", {}))
    floor = matching(series, {"policy": figure.get("floor", [])})
    rows, columns = (_split(chosen, figure.get(key)) for key in ("rows", "columns"))
    panels = []
    for row_name, row in rows:
        for column_name, column in columns:
            members = [one for one in row if one in column]
            beside = [one for one in floor if _same_world(one, members)]
            lines = _curves if kind == "curves" else _final
            drawn = (*lines(figure, members, False), *lines(figure, beside, True))
            panels.append(Panel(row_name, column_name, drawn))
    label = VISITORS if kind == "curves" else _axis(str(figure["x"]))
    scales = (bool(figure.get("log_x", False)), bool(figure.get("log_y", False)))
    return Plotted(figure["name"], figure["title"], label, len(columns), tuple(panels), *scales)


def write_csv(figures: Sequence[Plotted], path: Path) -> Path:
    """Write every point of every figure: its mean and the ends of its band."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["figure", "row", "column", "line", "x", "mean", "low", "high"])
        for figure in figures:
            for panel in figure.panels:
                for line in panel.lines:
                    for x, mean, half in zip(line.x, line.mean, line.half, strict=True):
                        ends = (f"{value:.10g}" for value in (x, mean, mean - half, mean + half))
                        writer.writerow([figure.name, panel.row, panel.column, line.label, *ends])
    return path


def _split(series: Sequence[Series], key: str | None) -> list[tuple[str, list[Series]]]:
    if key is None:
        return [("", list(series))]
    return [(words(key, value), matching(series, {key: value})) for value in values_of(series, key)]


def _curves(figure: Mapping[str, Any], members: Sequence[Series], floor: bool) -> list[Line]:
    keys = ["policy"] if floor else figure["lines"]
    found = []
    for one in _in_order(members, keys):
        mean, half = band(from_the_start(one.regret))
        found.append(Line(_label(one, keys, floor), np.pad(one.times, (1, 0)), mean, half, floor))
    return found


def _final(figure: Mapping[str, Any], members: Sequence[Series], floor: bool) -> list[Line]:
    """One point per series; series that differ only in x form a line."""
    keys, key = ["policy"] if floor else figure["lines"], figure["x"]
    found: dict[str, list[Series]] = {}
    for one in _in_order(members, keys):
        found.setdefault(_label(one, keys, floor), []).append(one)
    lines = []
    for label, group in found.items():
        points = sorted(((_place(one, key), *band(one.final)) for one in group), key=lambda point: point[0])
        x, mean, half = (np.array(values, dtype=np.float64) for values in zip(*points, strict=True))
        lines.append(Line(label, x, mean, half, floor))
    return lines


def _in_order(members: Sequence[Series], keys: Sequence[str]) -> list[Series]:
    places = [{value: place for place, value in enumerate(values_of(members, key))} for key in keys]
    return sorted(members, key=lambda one: [place[one[key]] for place, key in zip(places, keys, strict=True)])


def _same_world(one: Series, members: Sequence[Series]) -> bool:
    """Whether a baseline belongs in a panel: a contestant there serves the same world."""
    keys = set(one.settings) - {"policy"}
    return any(all(one[key] == member[key] for key in keys & set(member.settings)) for member in members)


def _label(one: Series, keys: Sequence[str], floor: bool) -> str:
    return f"{one['policy']}, no privacy" if floor and one["policy"] != "uniform" else described(one, keys)


def _place(one: Series, key: str) -> float:
    """The x value of a series; NaN for a baseline without that setting, which is drawn level."""
    value = one[key] if key in one.settings or one["rho"] is not None else None
    return math.nan if value is None else float(value)


def _axis(key: str) -> str:
    names = {
        "capacity": "assortment size K",
        "rho": "ρ",
        "rho_proven": "ρ proven by the ledger",
        "dim": "dimension d",
    }
    return names.get(key, key)
