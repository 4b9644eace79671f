"""``quietshelf restore``: resume after restoring a backup; prints the cost before changing anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quietshelf.cli.console import Json, counted, say, strict_json
from quietshelf.cli.database_options import Config, Database, Secrets, check_made, reaching, settings_of
from quietshelf.model.types import require
from quietshelf.privacy.accounting.figures import rounded_up

if TYPE_CHECKING:
    from quietshelf.serving.service.releases.restore_command import Plan, Promised, ShelfCost

UNASKED = "restore changes the promise, so it must be confirmed (at a terminal, or with --yes); nothing was changed"


def restore(
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to the cost without being asked, in scripts.")] = False,
    as_json: Json = False,
) -> None:
    """Resume with a database restored from a backup: show the cost, ask, then do it.

    Refused while a service uses the database, and if its epoch file shows that nothing was lost.

    Without a terminal, or with --json, there is no question: --yes agrees in advance, else nothing is changed.

    Example: quietshelf restore --database sqlite:///shop.db --secrets shop-secrets
    """
    settings = settings_of(config, {"database": database, "secrets": secrets})
    from quietshelf.privacy.release.noise import DiscreteGaussian
    from quietshelf.serving.service.database.vault import EPOCH
    from quietshelf.serving.service.releases import restore_command

    if not (Path(settings.secrets) / EPOCH).exists():  # else the database may be gone: its promises are there
        check_made(settings)
    with reaching(settings), restore_command.sole_use(settings):
        found = restore_command.plan(settings, DiscreteGaussian())
        if not as_json:
            for line in _lines(found):
                say(line)
        agreed = yes or (not as_json and _agreed())
        if agreed:
            restore_command.carry_out(settings, DiscreteGaussian(), found)
    if as_json:
        typer.echo(strict_json({"restored": agreed, **asdict(found)}))
        require(agreed, UNASKED)
    elif agreed:
        typer.echo(f"{_total(found)} in the ledger")
    else:
        say("nothing was changed")
        raise typer.Exit(1)


def _agreed() -> bool:
    """Ask for confirmation at the terminal."""
    require(sys.stdin.isatty() and sys.stderr.isatty(), UNASKED)
    try:
        with redirect_stdout(sys.stderr):
            return typer.confirm("This cannot be undone. Continue?", default=False)
    except typer.Abort:
        typer.echo(err=True)
        return False


def _lines(found: Plan) -> Iterator[str]:
    yield f"{found.reason} Restoring will cost:"
    for shelf in found.shelves:
        yield from _shelf_lines(shelf)
    both = f"rho = {rounded_up(found.rho_before)} now, {rounded_up(found.rho)} afterwards"
    yield f"in all: {_total(found)}; to a person on all shelves {both}"


def _total(found: Plan) -> str:
    return f"{counted(found.visitors, 'visitor')} left out, {counted(found.lost_releases, 'lost release')} entered"


def _shelf_lines(cost: ShelfCost) -> Iterator[str]:
    each = f" at rho {rounded_up(cost.rho_per_lost_release)} each" if cost.lost_releases else ""
    left = f"{counted(cost.visitors, 'visitor')} of open batches left out"
    entered = f"{counted(cost.lost_releases, 'lost release')} entered{each}"
    yield f"shelf {cost.shelf} (number {cost.number}): {left}, {entered}"
    if cost.before is None:
        yield "  this database does not know it; it comes back as a deleted shelf"
    now = "" if cost.before is None else f"promised now: {_words(cost.before)}; "
    yield f"  {now}promised afterwards: {_words(cost.after)}"


def _words(promised: Promised) -> str:
    whom = "each person" if promised.unit == "person" else "each visit, not each person"
    return f"rho = {rounded_up(promised.rho)} to {whom}"
