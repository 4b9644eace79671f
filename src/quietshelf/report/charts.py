"""The charts of every page: SVG, with colours from the style sheet and labels on the lines.

Each chart is drawn in several widths, down to a phone's, so that its text keeps its size. There are no scripts and no
inline styles: the content security policy of the service's pages forbids both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.report import svg
from quietshelf.report.frame import BOTTOM, HEIGHT, LETTER, TOP, Axis, Content, Frame
from quietshelf.report.svg import Markup, dot, drawn, line, path, strip, tag, text, together

ROW = 15.0
"""Height of a line of text."""
LONGEST = 30
"""Letters of a label before it wraps."""
COLOURS, TONES = 5, 7
"""Tones in the style sheet: colours first, then two greys; from ``TONES`` on they repeat with other dashes."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band, ``half`` around its mean or within ``outline``; ``tone``, from 0 on, is its look."""

    label: str
    x: FloatArray
    mean: FloatArray
    half: FloatArray
    tone: int
    outline: FloatArray | None = None

    @property
    def kind(self) -> str:
        """Its CSS class."""
        again = self.tone // TONES
        return f"t{self.tone % TONES}" + (f" d{again}" if again else "")


@dataclass(frozen=True)
class Words:
    """The text of a chart: id, title, description, axis labels."""

    name: str
    title: str
    says: str
    x: str = ""
    y: str = ""


def line_chart(
    curves: Sequence[Curve],
    words: Words,
    *,
    x: Axis | None = None,
    y: Axis | None = None,
    dots: bool = False,
    named: bool = True,
    at: float | None = None,
    widest: int = svg.WIDE,
    height: float = HEIGHT,
) -> Markup:
    """Draw curves over common axes.

    Args:
        curves: At least one; points that a logarithmic axis cannot show are left out.
        words: Title, description, axis labels.
        x: The x axis; by default from zero to the last value.
        y: The y axis.
        dots: Whether to mark each point.
        named: Whether to label the lines; narrow drawings have a legend instead.
        at: Where along x labels stand, left of their line; by default right of its end.
        widest: Width of the widest drawing.
        height: Height of all drawings.
    """
    x_axis = x or Axis.of([curve.x for curve in curves])
    y_axis = y or Axis.of([part for curve in curves for part in _ends(curve, log=False)])
    shown = [_visible(curve, x_axis, y_axis) for curve in curves]

    def draw(width: int) -> tuple[float, Content]:
        labels = named and width > svg.NARROW
        right = 14.0 if not labels or at is not None else _room(curves, width)
        top, bottom = TOP + (18 if words.y else 0), BOTTOM + (16 if words.x else 0)
        frame = Frame(width, x_axis, y_axis, right=right, height=height + top + bottom - 44, top=top, bottom=bottom)
        content = [*frame.grid(), *frame.feet(), *_titles(frame, words)]
        content += [part for curve in shown for part in _band(frame, curve)]
        content += [part for curve in shown for part in _line(frame, curve, dots)]
        content += _names(frame, shown, at) if labels else []
        return frame.height, content

    chart = drawn(words.name, words.title, words.says, draw, widest=widest)
    return together([chart, legend(curves)]) if named and len(curves) > 1 else chart


def legend(curves: Sequence[Curve], kind: str = "") -> Markup:
    """A legend, one entry per label."""
    once = {curve.label: curve for curve in curves}.values()
    swatch = {"viewBox": "0 0 28 8", "aria_hidden": "true"}
    items = [
        tag("li", tag("svg", tag("path", d="M0 4H28", class_=f"line {curve.kind}"), **swatch), curve.label)
        for curve in once
    ]
    return tag("ul", *items, class_=f"legend {kind}".strip())


def columns(
    values: Sequence[float | None],
    words: Words,
    *,
    feet: Callable[[int], str],
    whole: bool = False,
    widest: int = svg.WIDE,
) -> Markup:
    """A bar per period, the present one last and lighter; None is unknown, not zero.

    Args:
        values: In order of time.
        words: Title and description; the label of y is above.
        feet: The label below a bar, by how many bars it is before the last.
        whole: Whether values are counts.
        widest: Width of the widest drawing.
    """
    size = len(values)
    seen = np.array([value for value in values if value is not None], dtype=np.float64)

    def draw(width: int) -> tuple[float, Content]:
        top = TOP + (18 if words.y else 0)
        frame = Frame(width, Axis(0, size, ()), Axis.of([seen], whole=whole), height=166 + top, top=top)
        found = [*frame.grid(), *_titles(frame, words)]
        wide, base = float(frame.x(1) - frame.x(0)), float(frame.y(0))
        for place, value in enumerate(values):
            left = float(frame.x(place))
            if value is None:
                found.append(line(left + 1, base, left + wide - 1, base, "unknown"))
            elif value:
                up, kind = float(frame.y(value)), "bar now" if place == size - 1 else "bar"
                found.append(tag("rect", x=left + 1, y=up, width=wide - 2, height=base - up, rx=1, class_=kind))
        for age in range(0, size, 10 if width > svg.NARROW else 15):
            foot = float(frame.x(size - age))
            found.append(text(foot, frame.height - 9, feet(age), anchor="middle" if age else "end"))
        return frame.height, found

    return drawn(words.name, words.title, words.says, draw, widest=widest)


def spark(values: Sequence[float | None]) -> Markup:
    """A sparkline: bars without axes, as high as a line of text."""
    highest = max((value for value in values if value is not None), default=0) or 1
    wide = 100 / max(1, len(values))
    bars = [
        tag("rect", x=place * wide, y=10 - 9.5 * value / highest, width=0.75 * wide, height=9.5 * value / highest)
        for place, value in enumerate(values)
        if value
    ]
    return strip(tag("path", d="M0 10H100", class_="zero"), *bars, kind="spark")


def bar(share: float, kind: str = "fill") -> Markup:
    """A bar for a share, within a table row."""
    return strip(tag("rect", x=0, y=1, width=100 * min(max(share, 0.0), 1.0), height=8, class_=kind), kind="bar")


def bars(rows: Sequence[tuple[str, float, str, int]], *, caption: str) -> Markup:
    """Horizontal bars on one scale from zero, as a table: (name, value, value as text, tone)."""
    longest = max((value for _, value, _, _ in rows), default=0.0) or 1.0
    lines = [
        tag("tr", tag("th", name, scope="row"), tag("td", bar(value / longest, f"fill t{tone % TONES}"), class_="draw"),
            tag("td", words, class_="num"))
        for name, value, words, tone in rows
    ]  # fmt: skip
    return tag("table", tag("caption", caption), tag("tbody", *lines), class_="drawn")


def _titles(frame: Frame, words: Words) -> Content:
    found: Content = []
    if words.y:
        found.append(text(0, 12, words.y, kind="title"))
    if words.x:
        end = frame.width - frame.right
        found.append(text(end, frame.height - 4, words.x, anchor="end", kind="title"))
    return found


def _visible(curve: Curve, x: Axis, y: Axis) -> Curve:
    keep = np.isfinite(curve.mean) & ((curve.x > 0) | (not x.log)) & ((curve.mean > 0) | (not y.log))
    return replace(curve, x=curve.x[keep], mean=curve.mean[keep], half=np.nan_to_num(curve.half[keep]))


def log_axis(curves: Sequence[Curve]) -> Axis:
    """A logarithmic axis that holds the bands, each cut at half its mean."""
    return Axis.of([part for curve in curves for part in _ends(curve, log=True)], log=True)


def _ends(curve: Curve, *, log: bool) -> tuple[FloatArray, FloatArray]:
    half = np.nan_to_num(curve.half)
    low = curve.mean - half
    return np.maximum(low, curve.mean / 2) if log else low, curve.mean + half


def _band(frame: Frame, curve: Curve) -> Content:
    if curve.outline is not None:
        return [path(frame.points(*curve.outline), f"band {curve.kind}", close=True)]
    if not curve.half.any():
        return []
    x, low, high = curve.x, curve.mean - curve.half, curve.mean + curve.half
    if len(x) == 1:
        (at, down), (_, up) = frame.points(x, low)[0], frame.points(x, high)[0]
        return [line(at, down, at, up, f"whisker {curve.kind}")]
    outline = frame.points(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))
    return [path(outline, f"band {curve.kind}", close=True)]


def _line(frame: Frame, curve: Curve, dots: bool) -> Content:
    points = frame.points(curve.x, curve.mean)
    through = [path(points, f"line {curve.kind}")] if len(points) > 1 else []
    return [*through, *(dot(*point, curve.kind) for point in points if dots or len(points) == 1)]


def _room(curves: Sequence[Curve], width: float) -> float:
    longest = max((len(part) for curve in curves for part in wrap(curve.label, LONGEST)), default=0)
    return min(0.4 * width, LETTER * longest + 20)


def _names(frame: Frame, curves: Sequence[Curve], at: float | None) -> Content:
    """A label per line, in its colour, at its end or left of a point on it; labels do not overlap."""
    shown = [curve for curve in curves if len(curve.x)]
    parts = [wrap(curve.label, LONGEST) or [""] for curve in shown]
    if at is None:
        places = [(float(frame.x(curve.x[-1])) + 9, float(frame.y(curve.mean[-1]))) for curve in shown]
    else:
        places = [(float(frame.x(at)) - 8, float(frame.y(np.interp(at, curve.x, curve.mean)))) for curve in shown]
    heights = apart([y for _, y in places], [ROW * len(part) for part in parts], frame.height - frame.bottom)
    anchor = "start" if at is None else "end"
    return [
        text(x, y + 4 + ROW * (row - (len(part) - 1) / 2), words, anchor=anchor, kind=f"name {curve.kind}")
        for curve, part, (x, _), y in zip(shown, parts, places, heights, strict=True)
        for row, words in enumerate(part)
    ]


def apart(places: Sequence[float], sizes: Sequence[float], end: float) -> list[float]:
    """Middles of labels of these heights, moved down, then up from the end, until none overlap.

    >>> apart([10, 12, 50], [15, 15, 15], 100)
    [10, 25.0, 50]
    >>> apart([92, 96], [15, 15], 100)
    [77.5, 92.5]
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    moved, reached = list(places), float("-inf")
    for index in order:
        moved[index] = max(places[index], reached + sizes[index] / 2)
        reached = moved[index] + sizes[index] / 2
    reached = end
    for index in reversed(order):
        moved[index] = min(moved[index], reached - sizes[index] / 2)
        reached = moved[index] - sizes[index] / 2
    return moved
