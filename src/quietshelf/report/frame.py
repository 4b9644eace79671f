"""The coordinate system of a chart: axes with their ticks, and the grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.report.svg import Markup, decades, line, short, text, ticks

Content = list[Markup]
LEFT, TOP, BOTTOM, HEIGHT = 48.0, 14.0, 30.0, 260.0
LETTER = 6.9
"""The approximate width of a letter."""


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, linear or logarithmic, with labelled ticks."""

    low: float
    high: float
    marks: Sequence[float]
    log: bool = False
    name: Callable[[float], str] = short

    @classmethod
    def of(cls, values: Sequence[FloatArray], *, log: bool = False, whole: bool = False) -> Axis:
        """An axis that holds all values: from zero if it is linear, else from the smallest."""
        every = np.concatenate([np.ravel(part) for part in values])
        every = every[np.isfinite(every) & ((every > 0) | (not log))]
        low, high = (float(every.min()), float(every.max())) if every.size else (1.0, 10.0)
        if log:
            high = high if high > low else 2 * low
            return cls(low, high, decades(low, high), log=True)
        low = min(0.0, low)
        marks = ticks(high - low, whole=whole)
        step = marks[1]
        floor, top = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) or 1
        marks = [step * place for place in range(floor, top + 1)]
        return cls(marks[0], marks[-1], marks)

    def share(self, value: FloatArray | float) -> FloatArray:
        """Positions of values along the axis, from 0 to 1, clipped at its ends."""
        inside = np.clip(np.asarray(value, dtype=np.float64), self.low, self.high)
        if self.log:
            return np.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / ((self.high - self.low) or 1.0)


@dataclass(frozen=True)
class Frame:
    """A drawing area with its two axes and margins."""

    width: float
    x_axis: Axis
    y_axis: Axis
    right: float = 14.0
    height: float = HEIGHT
    top: float = TOP
    bottom: float = BOTTOM

    def x(self, value: FloatArray | float) -> FloatArray:
        """Horizontal positions of values."""
        return LEFT + self.x_axis.share(value) * (self.width - LEFT - self.right)

    def y(self, value: FloatArray | float) -> FloatArray:
        """Vertical positions of values."""
        return self.height - self.bottom - self.y_axis.share(value) * (self.height - self.top - self.bottom)

    def points(self, x: FloatArray, y: FloatArray) -> list[tuple[float, float]]:
        """Positions of points."""
        return list(zip(self.x(x).tolist(), self.y(y).tolist(), strict=True))

    def grid(self) -> Content:
        """Horizontal grid lines with their labels; the lowest is the base."""
        found: Content = []
        for mark in self.y_axis.marks:
            y = float(self.y(mark))
            found.append(line(LEFT, y, self.width - self.right, y, "base" if mark == self.y_axis.low else "grid"))
            found.append(text(LEFT - 8, y + 4, self.y_axis.name(mark), anchor="end"))
        if self.y_axis.low not in self.y_axis.marks:
            base = self.height - self.bottom
            found.append(line(LEFT, base, self.width - self.right, base, "base"))
        return found

    def feet(self) -> Content:
        """Labels below the x axis; the outermost stay within the drawing."""
        found: Content = []
        y, end = self.height - self.bottom + 18, float("-inf")
        for mark in self.x_axis.marks:
            x, name = float(self.x(mark)), self.x_axis.name(mark)
            half = LETTER * len(name) / 2
            x = min(x, self.width - half)
            if x - half > end + LETTER:
                found.append(text(x, y, name, anchor="middle"))
                end = x + half
        return found
