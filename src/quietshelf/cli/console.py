"""What commands share: options, consoles, a progress bar with the time left, strict JSON, lists."""

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

talk = Console(stderr=True)
"""Progress and remarks; results go to stdout. Colours only on a terminal, and never where NO_COLOR is set."""
out = Console(width=None if sys.stdout.isatty() else 120)
"""Results; where nobody's terminal says how wide it is, tables have room."""


class Move(Protocol):
    """Moves a bar, with a note beside it."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None:
        """So much is done."""


@contextmanager
def progress(title: str, *, unit: str, kept: str = NOTHING_KEPT) -> Iterator[Move]:
    """A bar on stderr, where that is a terminal; yields what moves it. Ctrl-C ends the work and says what is kept."""
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
    """How many processes to start: the number given, or one per core."""
    return integer("workers", workers, low=0) or os.cpu_count() or 1


def writable(path: Path) -> None:
    """Refuse a file that could not be written, before the work that it is to hold; missing folders are made later."""
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
    """The same of a figure, if one is wanted."""
    from quietshelf.report.style import can_draw

    if path is not None:
        can_draw(path)
        writable(path)


def say(text: str) -> None:
    """A remark on stderr, on one line however long: paths can be copied. One that nobody can read stops no work."""
    with suppress(OSError):
        talk.print(text, markup=False, highlight=False, soft_wrap=True)


def promised(value: float) -> str:
    """A figure of a promise for a table, rounded upwards.

    >>> promised(1.0004), promised(math.inf)
    ('1.001', '∞')
    """
    return "∞" if math.isinf(value) else rounded_up(value)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "visitor"), counted(1200, "visitor")
    ('1 visitor', '1,200 visitors')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def strict_json(value: Any) -> str:
    """Strict JSON: infinity is a word, what is unknown is null.

    >>> strict_json({"rho": math.inf, "error": math.nan})
    '{"rho": "infinity", "error": null}'
    """
    return json.dumps(_plain(value), allow_nan=False)


def listed(given: Sequence[str]) -> list[str]:
    """The words of an option that takes commas and may be repeated.

    >>> listed(["quiet, greedy", "uniform"])
    ['quiet', 'greedy', 'uniform']
    """
    return [word.strip() for text in given for word in text.split(",")]


def numbers(name: str, words: Sequence[str]) -> list[float]:
    """Words as numbers.

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
