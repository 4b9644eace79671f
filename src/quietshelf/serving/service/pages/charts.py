"""The charts on the pages, drawn by `quietshelf.report.charts`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.report.charts import Curve, Words, columns, line_chart
from quietshelf.report.frame import Axis, Content, Frame
from quietshelf.report.svg import BROAD, Markup, dot, drawn, line, path, short, text, ticks
from quietshelf.serving.service.pages.wording import MINUS, count, lapse, milliseconds, percent

HIGH = 206.0


def arrivals(per_minute: list[int | None]) -> Markup:
    """Bars: arrivals in each of the last thirty minutes."""
    return columns(per_minute, _minutes("arrivals", "Arrivals", "visitors", per_minute), feet=_age, whole=True)


def offers(minutes: list[dict[str, Any] | None]) -> Markup:
    """Bars: offers made in each of the last thirty minutes."""
    made = [None if each is None else each["offers"] for each in minutes]
    return columns(made, _minutes("offers", "Offers", "offers", made), feet=_age, whole=True)


def lateness(seconds: list[float | None]) -> Markup:
    """Bars: the worst lateness of a release in each of the last thirty minutes."""
    seen = [value for value in seconds if value is not None]
    told = f"At worst {lapse(max(seen, default=0.0))} in {len(seen)} minutes seen."
    words = Words("lateness", "How late releases were, at worst in each minute", told, y="seconds")
    return columns(seconds, words, feet=_age, widest=BROAD)


def latency(minutes: list[dict[str, Any] | None]) -> Markup:
    """Lines: the times within which 50 % and 95 % of each minute's offers were answered."""
    told = [(place + 1 - len(minutes), each) for place, each in enumerate(minutes) if each is not None]
    seen = [(place, each) for place, each in told if each["half_within"] and each["most_within"]]
    x = np.array([place for place, _ in seen], dtype=np.float64)
    curves = [
        Curve(label, x, np.array([each[key] for _, each in seen], dtype=np.float64), 0 * x, tone)
        for tone, (key, label) in enumerate((("half_within", "half within"), ("most_within", "95 % within")))
    ]
    now = seen[-1][1]
    says = f"Lately half within {milliseconds(now['half_within'])}, 95 % within {milliseconds(now['most_within'])}."
    words = Words("latency", "Time to answer an offer, over the last half hour", says, y="time (log scale)")
    every = Axis.of([curve.mean for curve in curves], log=True)
    low, high = every.low / 2, every.high * 2
    marks = [each for each in (0.001, 0.01, 0.1, 1.0, 10.0) if low <= each <= high]
    y = Axis(low, high, marks, log=True, name=milliseconds)
    past = Axis(1 - len(minutes), 0, (-20, -10, 0), name=lambda place: _age(-round(place)))
    return line_chart(curves, words, x=past, y=y, dots=len(seen) < 3, height=180)


def releases(found: list[dict[str, Any]], created: str, until: str) -> Markup:
    """Steps: the number of visitors learned from over time, with a dot at each release."""
    times = [datetime.fromisoformat(each["released"]).timestamp() for each in found]
    seen = [float(each["visitors_so_far"]) for each in found]
    begin = min(datetime.fromisoformat(created).timestamp(), times[0])
    end = max(datetime.fromisoformat(until).timestamp(), times[-1], begin + 1)
    y, x = Axis.of([np.array(seen)], whole=True), Axis(begin, end, ())

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, x, y, right=20, top=32, height=HIGH + 32)
        steps = [(begin, 0.0)]
        for moment, value in zip(times, seen, strict=True):
            steps += [(moment, steps[-1][1]), (moment, value)]
        corners = frame.points(*np.array([*steps, (end, seen[-1])]).T)
        below = (corners[-1][0], float(frame.y(0.0)))
        content = [*frame.grid(), path([*corners, below], "area", close=True), path(corners, "line t0")]
        content += [dot(*place, "t0") for place in frame.points(np.array(times), np.array(seen))]
        content.append(text(0, 12, "visitors", kind="title"))
        content.append(text(float(frame.x(begin)), frame.height - 9, _clock(begin, end - begin)))
        content.append(text(width - 20, frame.height - 9, _clock(end, end - begin), anchor="end"))
        return frame.height, content

    told = f"{len(found)} releases; the last brought the number of visitors learned from to {count(seen[-1])}."
    return drawn("releases", "Visitors learned from, over time", told, draw)


def errors(found: list[dict[str, Any]]) -> Markup:
    """A line: the typical standard error of tastes after each release."""
    values = np.array([each["typical_standard_error"] for each in found])
    numbers = np.array([each["release"] for each in found], dtype=np.float64)
    told = f"From {values[0]:.2f} after the first release to {values[-1]:.2f} after release {numbers[-1]:.0f}."
    words = Words("errors", "Typical standard error of tastes, by release", told, x="release", y="utility")
    curve = Curve("standard error", numbers, values, np.zeros(len(values)), 0)
    return line_chart([curve], words, x=_numbered(numbers), dots=True, named=False, height=HIGH)


def compared(differences: list[dict[str, float]]) -> Markup:
    """Points with intervals: learned minus present revenue per visitor, after each release that compared them."""
    low, high = min(0.0, *(each["low"] for each in differences)), max(0.0, *(each["high"] for each in differences))
    step = ticks((high - low) or 1.0)[1]
    marks = [step * place for place in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]
    y = Axis(marks[0], marks[-1], marks, name=lambda mark: f"{mark:.3g}".replace("-", MINUS))
    numbers = np.arange(1.0, len(differences) + 1)
    x, last = _numbered(numbers), differences[-1]

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, x, y, height=HIGH + 50, top=32, bottom=46)
        zero, right = float(frame.y(0.0)), width - frame.right
        content = [*frame.grid(), *frame.feet(), line(float(frame.x(x.low)), zero, right, zero, "zero")]
        for place, each in zip(numbers, differences, strict=True):
            at, down, up, middle = (
                float(frame.x(place)),
                *(float(frame.y(each[k])) for k in ("low", "high", "estimate")),
            )
            content += [line(at, down, at, up, "whisker t0"), dot(at, middle, "t0")]
        content.append(text(0, 12, "revenue per visitor, difference", kind="title"))
        content.append(text(right, frame.height - 4, "release", anchor="end", kind="title"))
        return frame.height, content

    told = f"Now {last['estimate']:+.3g} per visitor, between {last['low']:+.3g} and {last['high']:+.3g}."
    return drawn("compared", "Learned minus present, revenue per visitor, by release", told, draw)


def lost(series: list[dict[str, Any]], times: list[int]) -> Markup:
    """Lines: the revenue each contestant has lost so far; each gridline is ten times the one below."""
    powers = math.ceil(math.log10(max(10.0, *(each["lost"][-1] for each in series))) - 1e-9)
    y = Axis(1.0, 10.0**powers, [10.0**power for power in range(powers + 1)], log=True)
    told = "; ".join(f"{each['label']}: {each['lost'][-1]:.0f}" for each in series)
    words = Words("regret", "Revenue lost so far against the best shelf", told, x="visitors", y="revenue (log scale)")
    return line_chart(_contest(series, times, "lost", least=1.0), words, y=y)


def earned(series: list[dict[str, Any]], times: list[int]) -> Markup:
    """Lines: the share of the best possible revenue that each contestant earned recently."""
    lowest = min(value for each in series for value in each["share"])
    step = 0.1 if lowest >= 0.5 else 0.25
    floor = min(0.5, math.floor(lowest / step) * step)
    marks = [floor + step * place for place in range(round((1 - floor) / step) + 1)]
    told = "; ".join(f"{each['label']}: {percent(each['share'][-1])}" for each in series)
    words = Words(
        "earned", "Recent revenue, as a share of the best possible", told, x="visitors", y="of the best possible"
    )
    return line_chart(_contest(series, times, "share"), words, y=Axis(floor, 1.0, marks, name=percent))


def _contest(series: list[dict[str, Any]], times: list[int], what: str, *, least: float = 0.0) -> list[Curve]:
    x = np.array(times, dtype=np.float64)
    values = (np.maximum(np.array(each[what], dtype=np.float64), least) for each in series)
    return [Curve(each["label"], x, mean, 0 * x, each["tone"]) for each, mean in zip(series, values, strict=True)]


def _minutes(name: str, what: str, unit: str, values: list[int | None]) -> Words:
    seen = [value for value in values if value is not None]
    told = f"{len(seen)} minutes seen, the busiest with {max(seen, default=0)} {unit}."
    return Words(name, f"{what} per minute over the last half hour", told, y=f"{unit} per minute")


def _age(minutes: int) -> str:
    return f"{MINUS}{minutes} min" if minutes else "now"


def _numbered(numbers: FloatArray) -> Axis:
    """An axis of whole numbers from the first to the last."""
    step = max(1, -(-len(numbers) // 10))
    marks = numbers[(numbers[-1] - numbers) % step == 0]
    return Axis(min(0.5, numbers[0] - 0.5), numbers[-1] + 0.5, marks.tolist(), name=short)


def _clock(seconds: float, span: float) -> str:
    """A time label, as precise as the span of the axis calls for."""
    moment = datetime.fromtimestamp(seconds, UTC)
    if span < 600:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M}" if span < 86400 else f"{moment.day} {moment:%b}"
