"""The charts of the pages, drawn here and sent as they are: no script draws anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from quietshelf.service.pages.svg import both, line, path, tag, text, ticks
from quietshelf.service.pages.wording import MINUS, count, percent

Content = list[Markup]
LEFT, TOP, BOTTOM, HEIGHT = 44.0, 14.0, 30.0, 220.0
LETTERS = 16.0
"""The height of a name."""


@dataclass(frozen=True)
class Frame:
    """Where data lie on a chart: x from ``low`` to ``high``, y from 0 to ``most``."""

    width: float
    low: float
    high: float
    most: float
    right: float = 14.0
    height: float = HEIGHT

    def x(self, value: float) -> float:
        """The place of a value along the chart."""
        span = self.high - self.low or 1.0
        return LEFT + (value - self.low) / span * (self.width - LEFT - self.right)

    def y(self, value: float) -> float:
        """The place of a value up the chart."""
        return self.height - BOTTOM - value / self.most * (self.height - TOP - BOTTOM)

    def grid(
        self, marks: Sequence[float], name: Callable[[float], str], height: Callable[[float], float] = float
    ) -> Content:
        """Lines across, each as high as its value stands, with their names; the first is the base."""
        found: Content = []
        for mark in marks:
            y = self.y(height(mark))
            found.append(line(LEFT, y, self.width - self.right, y, "base" if mark == marks[0] else "grid"))
            found.append(text(LEFT - 8, y + 4, name(mark), anchor="end"))
        return found


def arrivals(per_minute: list[int | None]) -> Markup:
    """Bars: arrivals in each of the last thirty minutes."""
    seen = [value for value in per_minute if value is not None]
    marks = ticks(max(seen, default=0), whole=True)
    size = len(per_minute)

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, 0, size, marks[-1], height=180.0)
        found = frame.grid(marks, _short)
        for place, value in enumerate(per_minute):
            left, wide = frame.x(place), frame.x(place + 1) - frame.x(place)
            if value is None:
                found.append(line(left + 1, frame.y(0), left + wide - 1, frame.y(0), "unknown"))
            elif value:
                kind = "bar now" if place == size - 1 else "bar"
                high = frame.y(0) - frame.y(value)
                found.append(tag("rect", x=left + 1, y=frame.y(value), width=wide - 2, height=high, rx=1, class_=kind))
        step = 10 if width > 400 else 15
        for age in range(0, size, step):
            words = "now" if age == 0 else f"−{age} min"
            found.append(text(frame.x(size - age), 180 - 9, words, anchor="end" if age == 0 else "middle"))
        return 180, found

    told = f"{len(seen)} minutes seen, the busiest with {max(seen, default=0)} arrivals."
    return both("arrivals", "Arrivals per minute over the last half hour", told, draw)


def releases(found: list[dict[str, Any]], created: str, until: str) -> Markup:
    """Steps: how many visitors have been learned from, over time, with a mark at each release."""
    times = [datetime.fromisoformat(each["released"]).timestamp() for each in found]
    seen = [float(each["visitors_so_far"]) for each in found]
    begin = min(datetime.fromisoformat(created).timestamp(), times[0])
    end = max(datetime.fromisoformat(until).timestamp(), times[-1])
    marks = ticks(seen[-1], whole=True)

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, begin, end, marks[-1], right=20)
        content = frame.grid(marks, _short)
        corners, level = [(frame.x(begin), frame.y(0))], 0.0
        for moment, value in zip(times, seen, strict=True):
            corners += [(frame.x(moment), frame.y(level)), (frame.x(moment), frame.y(value))]
            level = value
        corners.append((frame.x(end), frame.y(level)))
        content.append(path([*corners, (corners[-1][0], frame.y(0))], "area", close=True))
        content.append(path(corners, "line first"))
        content += [
            tag("circle", cx=frame.x(moment), cy=frame.y(value), r=3.5, class_="dot first")
            for moment, value in zip(times, seen, strict=True)
        ]
        content.append(text(LEFT, HEIGHT - 9, _clock(begin, end - begin)))
        content.append(text(width - 20, HEIGHT - 9, _clock(end, end - begin), anchor="end"))
        return HEIGHT, content

    told = f"{len(found)} releases; the last brought the number of visitors learned from to {count(seen[-1])}."
    return both("releases", "Visitors learned from, over time", told, draw)


def errors(found: list[dict[str, Any]]) -> Markup:
    """A line: the typical standard error of tastes after each release."""
    values = [each["typical_standard_error"] for each in found]
    marks = ticks(max(values))
    last = found[-1]["release"]

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, min(0.5, found[0]["release"] - 0.5), last + 0.5, marks[-1])
        content = frame.grid(marks, lambda mark: f"{mark:g}")
        points = [(frame.x(each["release"]), frame.y(each["typical_standard_error"])) for each in found]
        content.append(path(points, "line second"))
        content += [tag("circle", cx=x, cy=y, r=3.5, class_="dot second") for x, y in points]
        step = max(1, -(-len(found) // (10 if width > 400 else 6)))
        content += [
            text(frame.x(each["release"]), HEIGHT - 9, str(each["release"]), anchor="middle")
            for each in found
            if (last - each["release"]) % step == 0
        ]
        return HEIGHT, content

    told = f"From {values[0]:.2f} after the first release to {values[-1]:.2f} after release {last}."
    return both("errors", "Typical standard error of tastes, by release", told, draw)


def compared(differences: list[dict[str, float]]) -> Markup:
    """A line within its interval: learned less present in revenue per visitor, after each release that compared."""
    low, high = min(0.0, *(each["low"] for each in differences)), max(0.0, *(each["high"] for each in differences))
    step = ticks((high - low) or 1.0)[1]
    floor, top = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = [step * place for place in range(floor, top + 1)]
    count_of, last = len(differences), differences[-1]

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, 0.5, count_of + 0.5, marks[-1] - marks[0])

        def at(value: float) -> float:
            return frame.y(value - marks[0])

        content = frame.grid(marks, lambda mark: f"{mark:.3g}".replace("-", MINUS), lambda mark: mark - marks[0])
        content.append(line(LEFT, at(0.0), width - frame.right, at(0.0), "zero"))
        for place, each in enumerate(differences, start=1):
            x = frame.x(place)
            content.append(line(x, at(each["low"]), x, at(each["high"]), "whisker"))
            content.append(tag("circle", cx=x, cy=at(each["estimate"]), r=3.5, class_="dot first"))
        every = max(1, -(-count_of // (10 if width > 400 else 6)))
        content += [
            text(frame.x(place), HEIGHT - 9, str(place), anchor="middle")
            for place in range(1, count_of + 1)
            if (count_of - place) % every == 0
        ]
        return HEIGHT, content

    told = f"Now {last['estimate']:+.3g} per visitor, between {last['low']:+.3g} and {last['high']:+.3g}."
    return both("compared", "Learned less present, revenue per visitor, by release", told, draw)


def lost(series: list[dict[str, Any]], times: list[int]) -> Markup:
    """Lines: what each contestant has lost so far, by visitors; each line across is ten times the one below."""
    powers = math.ceil(math.log10(max(10.0, *(each["lost"][-1] for each in series))) - 1e-9)
    marks = [10.0**power for power in range(powers + 1)]
    told = "; ".join(f"{each['label']}: {each['lost'][-1]:.0f}" for each in series)

    def height(value: float) -> float:
        return math.log10(max(1.0, value))

    scale = Scale(height, float(powers), marks, _short)
    return _curves("regret", "Revenue lost so far against the best shelf", told, series, times, "lost", scale)


def earned(series: list[dict[str, Any]], times: list[int]) -> Markup:
    """Lines: the share of the best possible revenue that each contestant earned of late."""
    lowest = min(value for each in series for value in each["share"])
    step = 0.1 if lowest >= 0.5 else 0.25
    floor = min(0.5, math.floor(lowest / step) * step)
    marks = [floor + step * place for place in range(round((1 - floor) / step) + 1)]
    told = "; ".join(f"{each['label']}: {percent(each['share'][-1])}" for each in series)
    scale = Scale(lambda value: value - floor, 1 - floor, marks, percent)
    return _curves("earned", "Revenue earned of late, of the best possible", told, series, times, "share", scale)


@dataclass(frozen=True)
class Scale:
    """How high a value stands, how high the chart reaches, and which heights are marked and named."""

    height: Callable[[float], float]
    most: float
    marks: list[float]
    name: Callable[[float], str]


def _curves(
    name: str, title: str, told: str, series: list[dict[str, Any]], times: list[int], what: str, scale: Scale
) -> Markup:
    end = float(times[-1])

    def draw(width: int) -> tuple[float, Content]:
        frame = Frame(width, 0, end, scale.most, right=150 if width > 400 else 14, height=280.0)
        content = frame.grid(scale.marks, scale.name, scale.height)
        tips = _apart([frame.y(scale.height(each[what][-1])) for each in series])
        for place, each in enumerate(series):
            points = [(frame.x(t), frame.y(scale.height(value))) for t, value in zip(times, each[what], strict=True)]
            content.append(path(points, f"line {each['kind']}"))
            if width > 400:
                content.append(text(points[-1][0] + 8, tips[place] + 4, each["label"], kind=f"name {each['kind']}"))
        content.append(text(LEFT, 271, "0"))
        content.append(text(frame.x(end), 271, f"{count(end)} visitors", anchor="end"))
        return 280, content

    return both(name, title, told, draw)


def _apart(places: list[float]) -> list[float]:
    """Places of names, moved so far down that none covers another."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved, reached = list(places), float("-inf")
    for index in order:
        moved[index] = reached = max(places[index], reached + LETTERS)
    return moved


def _short(value: float) -> str:
    """A number on an axis.

    >>> _short(0), _short(2500), _short(30000), _short(1.5)
    ('0', '2,500', '30k', '1.5')
    """
    if value >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"


def _clock(seconds: float, span: float) -> str:
    """A moment on an axis, as fine as the axis is long."""
    moment = datetime.fromtimestamp(seconds, UTC)
    if span < 600:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M}" if span < 86400 else f"{moment.day} {moment:%b}"
