"""Parse, call, print: results to stdout (``--json`` for machines), talk to stderr."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from quietshelf.__about__ import __version__
from quietshelf.cli.audit import audit
from quietshelf.cli.bench import bench
from quietshelf.cli.demo import demo
from quietshelf.cli.expedia import expedia
from quietshelf.cli.fit import fit
from quietshelf.cli.keys import keys
from quietshelf.cli.ledger import ledger
from quietshelf.cli.replay import replay
from quietshelf.cli.reproduce import reproduce
from quietshelf.cli.serve import restore, serve
from quietshelf.cli.simulate import simulate

__all__ = ["app", "main"]

app = typer.Typer(
    name="quietshelf",
    help="Choose what to show each visitor, learn from what they choose, and prove that nobody's data leaks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(audit)
app.command()(bench)
app.command()(demo)
app.add_typer(keys)
app.command()(ledger)
app.command()(restore)
app.command()(serve)
app.add_typer(expedia, name="expedia")
app.command()(fit)
app.command()(replay)
app.command()(reproduce)
app.command()(simulate)


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
    """Choose what to show each visitor, learn from what they choose, and prove that nobody's data leaks."""


def main() -> None:
    """The command; mistakes of the caller end in one line that says what to do, not in a traceback."""
    try:
        app()
    except (ValueError, ModuleNotFoundError) as error:
        typer.echo(f"quietshelf: {error}", err=True)
        sys.exit(2)
