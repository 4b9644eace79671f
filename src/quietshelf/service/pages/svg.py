"""Drawings as text: elements, and what every chart needs. Colours are classes: light and dark are the sheet's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

WIDE, NARROW = 560, 340
"""Widths in which a chart is drawn; the style sheet shows the one that fits, so that letters keep their size."""


def tag(name: str, *inside: str | Markup, **attributes: str | float) -> Markup:
    """An element; whatever is not markup is escaped.

    >>> print(tag("text", "a < b", x=1.25, class_="small"))
    <text x="1.25" class="small">a &lt; b</text>
    """
    words = [f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"' for key, value in attributes.items()]
    body = Markup("").join(escape(part) for part in inside)
    return Markup(f"<{name}{''.join(words)}>{body}</{name}>")  # noqa: S704 - every part is escaped above


def both(name: str, title: str, says: str, draw: Callable[[int], tuple[float, Sequence[Markup]]]) -> Markup:
    """A chart in both widths, each with its title and description; ``draw`` gives height and content."""
    found = []
    for kind, width in (("wide", WIDE), ("narrow", NARROW)):
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
    return Markup("").join(found)


def ticks(high: float, *, whole: bool = False) -> list[float]:
    """Round numbers from zero that reach ``high``, four steps at most; ``whole`` ones for counts.

    >>> ticks(7.3), ticks(0.9), ticks(0), ticks(1, whole=True)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 1.0], [0.0, 1.0])
    """
    if high <= 0:
        return [0.0, 1.0]
    rough = max(high / 4, 1.0 if whole else 0.0)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * (1 - 1e-9))
    return [step * place for place in range(math.ceil(high / step - 1e-9) + 1)]


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "label") -> Markup:
    """A few letters."""
    return tag("text", words, x=x, y=y, text_anchor=anchor, class_=kind)


def path(points: Sequence[tuple[float, float]], kind: str, *, close: bool = False) -> Markup:
    """A line through points."""
    where = " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return tag("path", d=f"M{where}{'Z' if close else ''}", class_=kind)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
