"""What commands share: a console for talk, a progress bar with the time left, tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

talk = Console(stderr=True)
"""Progress and remarks; results go to stdout."""
out = Console(width=None if sys.stdout.isatty() else 120)
"""Results; where nobody's terminal says how wide it is, tables have room."""


@contextmanager
def progress(title: str, *, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr; yields the function that moves it: (done, total)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=talk, transient=not talk.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def number(value: float, digits: int = 3) -> str:
    """A figure for a table.

    >>> number(1234.5678), number(0.04567), number(math.inf), number(math.nan)
    ('1,235', '0.0457', '∞', '-')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"
