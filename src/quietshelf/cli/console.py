"""Shared by the commands: options, consoles, a progress bar, strict JSON, lists."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from quietshelf.cli.interrupts import NOTHING_KEPT, stoppable
from quietshelf.model.types import integer, require
from quietshelf.privacy.accounting.figures import rounded_up

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Delta = Annotated[
    float, typer.Option(callback=lambda given: _delta(given), help="The delta that epsilon is stated for.")
]
Workers = Annotated[int, typer.Option(help="Processes; 0: one per core.")]
Items = Annotated[int, typer.Option(help="Items in the shop, N.")]
Capacity = Annotated[int, typer.Option(help="The most items shown at once, K.")]
Separator = Annotated[str | None, typer.Option(help="Separator of a CSV file; read from its first line by default.")]
Products = Annotated[Path, typer.Argument(help="The product table: CSV (.gz too) or Parquet. It must be public.")]

talk = Console(stderr=True)
"""For progress and remarks. Rich colours them only on a terminal, and never if NO_COLOR is set."""
out = Console(width=None if sys.stdout.isatty() else 120)
"""For results; 120 columns if stdout is not a terminal."""


class Move(Protocol):
    """Updates a progress bar and the note beside it."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None:
        """Report that ``done`` of ``total`` is finished."""


@contextmanager
def progress(title: str, *, unit: str, kept: str = NOTHING_KEPT) -> Iterator[Move]:
    """Show a progress bar if stderr is a terminal; yield the function that updates it.

    Ctrl-C stops the work and prints what is ``kept``.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with stoppable(kept), Progress(*columns, console=talk, disable=not talk.is_terminal) as bar:
        task = bar.add_task(title, total=None, note="")

        def move(done: int, total: int, note: str = "", /) -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield move


def _delta(given: float) -> float:
    require(0 < given < 1, "delta must be in (0, 1)", delta=given)
    return given


def processes(workers: int) -> int:
    """The number of processes to start: as given, or one per core for 0."""
    return integer("workers", workers, low=0) or os.cpu_count() or 1


def writable(path: Path | None) -> None:
    """Refuse an output file that cannot be written, before the work starts; missing folders are made later."""
    if path is None:
        return
    standing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if path.is_dir():
        wrong = errno.EISDIR
    elif standing != path and not standing.is_dir():
        wrong = errno.ENOTDIR
    else:
        wrong = 0 if os.access(standing, os.W_OK) else errno.EACCES
    if wrong:
        raise OSError(wrong, os.strerror(wrong), str(path))


def drawable(path: Path | None) -> None:
    """The same for a figure, which also needs a format we can draw."""
    from quietshelf.report.style import can_draw

    if path is not None:
        can_draw(path)
    writable(path)


def figures(*headings: str, **options: Any) -> list[Column]:
    """Columns of numbers, aligned right."""
    return [Column(heading, justify="right", **options) for heading in headings]


def say(text: str) -> None:
    """Print a remark to stderr without wrapping, so that paths can be copied; a closed stderr is ignored."""
    with suppress(OSError):
        talk.print(text, markup=False, highlight=False, soft_wrap=True)


def promised(value: float) -> str:
    """A privacy figure for a table, rounded up.

    >>> promised(1.0004), promised(math.inf)
    ('1.001', '∞')
    """
    return "∞" if math.isinf(value) else rounded_up(value)


def counted(number: int, what: str) -> str:
    """A count with its noun, in the plural if need be.

    >>> counted(1, "visitor"), counted(1200, "visitor")
    ('1 visitor', '1,200 visitors')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def strict_json(value: Any) -> str:
    """Strict JSON: infinity becomes a word, NaN becomes null.

    >>> strict_json({"rho": math.inf, "error": math.nan})
    '{"rho": "infinity", "error": null}'
    """
    return json.dumps(_plain(value), allow_nan=False)


def listed(given: Sequence[str]) -> list[str]:
    """The values of an option that may be repeated or separated by commas.

    >>> listed(["quiet, greedy", "uniform"])
    ['quiet', 'greedy', 'uniform']
    """
    return [word.strip() for text in given for word in text.split(",")]


def numbers(name: str, words: Sequence[str]) -> list[float]:
    """Parse numbers from the command line.

    >>> numbers("rho", ["0.1", "1"])
    [0.1, 1.0]
    """
    try:
        return [float(word) for word in words]
    except ValueError:
        text = ",".join(words)
        raise ValueError(f"{name} must be numbers separated by commas, got {name}={text!r}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "infinity" if value > 0 else None
    return value
