"""Benchmarks: the ``main`` of each module measures one part of the package and prints its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from timeit import repeat


def seconds(call: Callable[[], object], *, number: int = 1, runs: int = 7) -> float:
    """The time of one call: the best of ``runs`` rounds of ``number`` calls."""
    return min(repeat(call, number=number, repeat=runs)) / number


def duration(value: float) -> str:
    """Seconds, in the unit that fits.

    >>> duration(0.00125)
    '1.25 ms'
    """
    unit, size = ("s", 1.0) if value >= 1 else ("ms", 1e-3) if value >= 1e-3 else ("µs", 1e-6)
    return f"{value / size:.3g} {unit}"


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a plain table: the first column aligned left, the others right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    print(title)
    for line in lines:
        cells = [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
        print("  " + "  ".join(cells))
