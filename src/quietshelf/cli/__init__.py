"""The ``quietshelf`` command: each subcommand parses, calls, prints. Results go to stdout, remarks to stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Annotated, NoReturn

import typer

from quietshelf.__about__ import __version__
from quietshelf.cli.admin_log import admin_log
from quietshelf.cli.audit import audit
from quietshelf.cli.bench import bench
from quietshelf.cli.compare import compare
from quietshelf.cli.demo import demo
from quietshelf.cli.doctor import doctor
from quietshelf.cli.expedia import expedia
from quietshelf.cli.fit import fit
from quietshelf.cli.items import items, shelf
from quietshelf.cli.keys import keys
from quietshelf.cli.ledger import ledger
from quietshelf.cli.plan import plan
from quietshelf.cli.replay import replay
from quietshelf.cli.reproduce import reproduce
from quietshelf.cli.restore import restore
from quietshelf.cli.schema import schema
from quietshelf.cli.serve import serve
from quietshelf.cli.simulate import simulate

__all__ = ["app", "main"]

app = typer.Typer(
    name="quietshelf",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, plan, schema, doctor),
    "Studies and audits": (simulate, reproduce, audit, bench),
    "A log": (fit, replay),
    "The service": (serve, compare, ledger, admin_log, restore),
}
for panel, commands in PANELS.items():
    for each in commands:
        app.command(rich_help_panel=panel)(each)
app.add_typer(expedia, name="expedia", rich_help_panel="A log")
app.add_typer(keys, name="keys", rich_help_panel="The service")
app.add_typer(shelf, name="shelf", rich_help_panel="The service")
app.add_typer(items, name="items", rich_help_panel="The service")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quietshelf {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Choose what to show each visitor, learn from what they choose, and prove a limit to what it reveals."""


def main() -> None:
    """Run the command line; a caller's mistake prints what to do instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an unprintable sign must not lose a result
    try:
        app(prog_name="quietshelf")  # the name that completion is made for, also under python -m
    except ModuleNotFoundError as error:
        _end(f"{error}", "`quietshelf doctor` lists what is missing and how to install it.")
    except BrokenExecutor:
        _end("a worker process died, most likely because memory ran out", "Try again with --workers 1.")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(f"{where}{error.strerror or error}", "Check the path and its permissions.")
    except ValueError as error:
        _end(f"{error}", f"`quietshelf {_command()}--help` shows an example.")


def _end(what: str, advice: str) -> NoReturn:
    typer.echo(f"quietshelf: {what}", err=True)
    typer.echo(advice, err=True)
    sys.exit(2)


def _command() -> str:
    """The subcommand on the command line, for the hint; empty if there is none."""
    names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    first, second = (*sys.argv[1:3], "", "")[:2]
    if first in groups:
        return f"{first} {second} "
    return f"{first} " if first in names else ""
