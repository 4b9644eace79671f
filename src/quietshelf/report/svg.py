"""SVG and HTML elements as text. Colours are CSS classes, so the style sheet decides light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

SMALL, NARROW, WIDE, BROAD = 270, 340, 560, 880
"""Widths in which a chart is drawn; the style sheet shows the one that fits, so that text keeps its size."""
KINDS = {NARROW: "narrow", WIDE: "wide", BROAD: "broad"}


class Markup(str):
    """Text that is already markup: neither `tag` nor a template escapes it."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def tag(name: str, *inside: str, **attributes: str | float) -> Markup:
    """An element; text that is not `Markup` is escaped, and empty attributes are left out.

    >>> print(tag("text", "a < b", x=1.25, class_="small"))
    <text x="1.25" class="small">a &lt; b</text>
    """
    given = {key.rstrip("_").replace("_", "-"): _number(value) for key, value in attributes.items() if value != ""}
    words = [f' {key}="{escape(value)}"' for key, value in given.items()]
    body = "".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in inside)
    return Markup(f"<{name}{''.join(words)}>{body}</{name}>")


def together(parts: Sequence[Markup]) -> Markup:
    """Join pieces of markup."""
    return Markup("".join(parts))


def drawn(
    name: str, title: str, says: str, draw: Callable[[int], tuple[float, Sequence[Markup]]], *, widest: int = WIDE
) -> Markup:
    """Draw a chart in all widths up to the widest, each with its title and description.

    Args:
        name: Prefix of the ids.
        title: Its title.
        says: What it shows, for screen readers.
        draw: Returns height and content for a width.
        widest: One of the widths; a chart whose widest is ``SMALL`` is drawn in that width only.
    """
    found = []
    for width, kind in KINDS.items() if widest > SMALL else ((SMALL, "only"),):
        if width > widest:
            break
        height, content = draw(width)
        head, told = f"{name}-{kind}-title", f"{name}-{kind}-says"
        found.append(
            tag(
                "svg",
                tag("title", title, id=head),
                tag("desc", says, id=told),
                *content,
                viewBox=f"0 0 {width} {_number(height)}",
                class_=f"chart {kind}",
                role="img",
                aria_labelledby=f"{head} {told}",
            )
        )
    return together(found)


def strip(*inside: Markup, kind: str) -> Markup:
    """A small decorative drawing within a table row, 100 by 10, that stretches to its cell."""
    options = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none", "class_": f"strip {kind}"}
    return tag("svg", *inside, **options, aria_hidden="true", focusable="false")


def ticks(high: float, *, whole: bool = False) -> list[float]:
    """Round tick values from zero to ``high`` or just above, four steps at most; ``whole`` for counts.

    >>> ticks(7.3), ticks(0.9), ticks(0), ticks(1, whole=True)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 1.0], [0.0, 1.0])
    """
    if high <= 0:
        return [0.0, 1.0]
    rough = max(high / 4, 1.0 if whole else 0.0)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * (1 - 1e-9))
    return [step * place for place in range(math.ceil(high / step - 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Round tick values from ``low`` to ``high`` for a logarithmic axis.

    >>> decades(0.5, 2000), decades(0.03, 0.6)
    ([1.0, 10.0, 100.0, 1000.0], [0.05, 0.1, 0.2, 0.5])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0,) if high / low > 1000 else (1.0, 3.0) if high / low > 100 else (1.0, 2.0, 5.0)
    every = (step * 10.0**power for power in powers for step in steps)
    return [tick for tick in every if low * 0.999 <= tick <= high * 1.001]


def short(value: float) -> str:
    """The label of a tick.

    >>> short(0), short(2500), short(30000), short(1.5), short(0.1 + 0.2), short(2e6)
    ('0', '2,500', '30k', '1.5', '0.3', '2M')
    """
    if abs(value) >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "label") -> Markup:
    """A short text."""
    return tag("text", words, x=x, y=y, text_anchor=anchor, class_=kind)


def dot(x: float, y: float, kind: str) -> Markup:
    """A point."""
    return tag("circle", cx=x, cy=y, r=3.5, class_=f"dot {kind}")


def path(points: Sequence[tuple[float, float]], kind: str, *, close: bool = False) -> Markup:
    """A line through points."""
    where = " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return tag("path", d=f"M{where}{'Z' if close else ''}", class_=kind)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
