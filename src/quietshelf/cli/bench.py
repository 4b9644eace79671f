"""``quietshelf bench``: speed ratios, measured in one run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import quietshelf
from quietshelf.model.types import one_of

PARTS = ("speed", "alternatives")


def bench(
    part: Annotated[
        list[str] | None, typer.Argument(help="speed (studies against a plain loop), alternatives; both by default.")
    ] = None,
) -> None:
    """Measure rounds per second against a plain NumPy/SciPy loop, and decisions against other libraries.

    Runs from a checkout of the repository, and takes about five minutes.

    Example: quietshelf bench speed
    """
    wanted = part or list(PARTS)
    for name in wanted:
        one_of("part", name, PARTS)
    for name in wanted:
        typer.echo(f"== {name} ==")
        _module(name).main()


def _module(name: str) -> ModuleType:
    """A benchmark of the checkout this package runs from; an installed package has none."""
    root = Path(quietshelf.__file__).parents[2]
    if not (root / "benchmarks" / f"{name}.py").is_file():
        raise ModuleNotFoundError("bench needs the benchmarks folder of a checkout: install from one with --editable")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"benchmarks.{name}")
