"""Charts as SVG text that takes its colours from the page: readable in light and dark, on a phone and on paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from quietshelf.types import FloatArray

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 26, 12, 44
"""Margins; the box is small so that its letters stay readable when a phone shrinks it."""
TICKS = 5
"""About so many along a linear axis."""
TONES = 6
"""Looks that the page's style knows: a colour and a dash each."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band around it; ``tone`` is its look, from 0 on."""

    label: str
    x: FloatArray
    mean: FloatArray
    half: FloatArray
    tone: int


@dataclass(frozen=True)
class _Axis:
    """Values to places on the page."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: FloatArray | float) -> FloatArray:
        inside = np.clip(value, self.low, self.high)
        share = (self._of(inside) - self._of(self.low)) / (self._of(self.high) - self._of(self.low))
        return np.asarray(self.start + share * (self.end - self.start))

    def _of(self, value: FloatArray | float) -> FloatArray:
        return np.log10(value) if self.log else np.asarray(value, dtype=np.float64)

    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        if not self.log:
            return _round_numbers(self.low, self.high)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1.0,) if math.log10(self.high / self.low) > 2 else (1.0, 2.0, 5.0)
        every = (step * 10.0**decade for decade in decades for step in steps)
        return [tick for tick in every if self.low * 0.999 <= tick <= self.high * 1.001]


def line_chart(
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    points: bool = False,
) -> str:
    """Curves over a common axis, with their legend, as one HTML figure body.

    Args:
        curves: At least one; points that a logarithmic axis cannot show are left out.
        x_label: Below.
        y_label: Above.
        log_x: Logarithmic x.
        log_y: Logarithmic y.
        points: Whether each x is marked.
    """
    shown = [_visible(curve, log_x, log_y) for curve in curves]
    x_axis = _axis([curve.x for curve in shown], LEFT, WIDTH - RIGHT, log=log_x)
    ends = [end for curve in shown for end in (curve.mean + curve.half, _lower(curve))]
    y_axis = _axis(ends, HEIGHT - BOTTOM, TOP, log=log_y)
    body = "".join([*_grid(x_axis, y_axis), *(_curve(curve, x_axis, y_axis, points) for curve in shown)])
    label = f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">{escape(x_label)}</text>'
    return (
        f'<p class="axis">{escape(y_label)}</p>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label)} against {escape(x_label)}">'
        f"{body}{label}</svg>{_legend(curves)}"
    )


def bars(rows: Sequence[tuple[str, float, str, int]], *, label: str) -> str:
    """Horizontal bars on one linear scale from zero: (name, value, the value in words, tone)."""
    longest = max((value for _, value, _, _ in rows), default=0.0) or 1.0
    lines = [
        f'<div class="bar"><span>{escape(name)}</span><span class="track"><i class="t{tone % TONES}" '
        f'style="width:{100 * max(value, 0.0) / longest:.2f}%"></i></span><b>{escape(words)}</b></div>'
        for name, value, words, tone in rows
    ]
    return f'<div class="bars" role="img" aria-label="{escape(label)}">{"".join(lines)}</div>'


def _visible(curve: Curve, log_x: bool, log_y: bool) -> Curve:
    keep = np.isfinite(curve.mean) & ((curve.x > 0) | (not log_x)) & ((curve.mean > 0) | (not log_y))
    half = np.nan_to_num(curve.half[keep])
    return Curve(curve.label, curve.x[keep], curve.mean[keep], half, curve.tone)


def _lower(curve: Curve) -> FloatArray:
    """The lower end of a band, as far as a logarithmic axis need show it."""
    return np.maximum(curve.mean - curve.half, curve.mean / 2)


def _axis(values: Sequence[FloatArray], start: float, end: float, *, log: bool) -> _Axis:
    """From zero, or where that is impossible from the least value."""
    every = np.concatenate([np.ravel(part) for part in values])
    low, high = (float(every.min()), float(every.max())) if every.size else (1.0, 10.0)
    low = low if log else min(0.0, low)
    if high <= low:
        high = low * 2 if low > 0 else low + 1
    return _Axis(low, high, start, end, log)


def _round_numbers(low: float, high: float) -> list[float]:
    raw = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [step * place for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    lines = []
    for tick in y_axis.ticks():
        y = float(y_axis(tick))
        lines.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        lines.append(f'<text class="tick y" x="{LEFT - 6}" y="{y + 4:.1f}">{_figure(tick)}</text>')
    for tick in x_axis.ticks():
        x = float(x_axis(tick))
        lines.append(f'<text class="tick x" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}">{_figure(tick)}</text>')
    return [*lines, f'<path class="edge" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']


def _curve(curve: Curve, x_axis: _Axis, y_axis: _Axis, points: bool) -> str:
    x, tone = x_axis(curve.x), f"t{curve.tone % TONES}"
    upper, lower = y_axis(curve.mean + curve.half), y_axis(curve.mean - curve.half)
    band = _path(np.concatenate([x, x[::-1]]), np.concatenate([upper, lower[::-1]]))
    middle = y_axis(curve.mean)
    marks = "".join(
        f'<circle class="{tone}" cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>' for a, b in zip(x, middle, strict=True)
    )
    drawn = f'<path class="line {tone}" d="{_path(x, middle)}"/>'
    return f'<path class="band {tone}" d="{band}Z"/>{drawn}{marks if points else ""}'


def _path(x: FloatArray, y: FloatArray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _legend(curves: Sequence[Curve]) -> str:
    items = (
        f'<li><svg viewBox="0 0 28 8" aria-hidden="true"><path class="line t{curve.tone % TONES}" d="M0 4H28"/></svg>'
        f"{escape(curve.label)}</li>"
        for curve in curves
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _figure(value: float) -> str:
    """A tick.

    >>> _figure(20000), _figure(0.5), _figure(0.1 + 0.2)
    ('20,000', '0.5', '0.3')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
