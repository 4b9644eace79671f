"""``quietshelf ledger``: every promise and event in a store, checked against its releases."""

from __future__ import annotations

from typing import Any

import typer

from quietshelf.cli.console import Delta, Json, counted, strict_json
from quietshelf.cli.database_options import Config, Database, Secrets, existing
from quietshelf.privacy.accounting import DELTA, LOG, Event
from quietshelf.privacy.accounting.figures import rounded_down, rounded_up


def ledger(
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    delta: Delta = DELTA,
    as_json: Json = False,
) -> None:
    """Show what was promised to whom, and verify it against the stored releases; exit status 1 if anything differs.

    Example: quietshelf ledger --database sqlite:///shop.db --secrets shop-secrets --json
    """
    with existing(config, database, secrets) as store:
        from quietshelf.serving.service import queries
        from quietshelf.serving.service.releases.verify import forgotten, verify

        known = store.vault.epoch  # read first: a running service takes the database further before the file
        with store.read() as connection:
            found = queries.everything(connection, delta)
            for shelf, row in zip(found["shelves"], queries.shelf_rows(connection), strict=True):
                shelf["wrong"] = verify(connection, row)
            found["wrong"] = forgotten(connection, known)
    wrong = bool(found["wrong"]) or any(shelf["wrong"] for shelf in found["shelves"])
    if as_json:
        typer.echo(strict_json({**found, "verified": not wrong}))
    else:
        _print(found)
    if wrong:
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    if not found["shelves"]:
        typer.echo("no shelf was ever created here: nothing is promised, and there is nothing to verify")
    for shelf in found["shelves"]:
        gone = f", deleted {shelf['deleted']}" if shelf["deleted"] else ""
        which = f"shelf {shelf['shelf']} (number {shelf['number']})"
        typer.echo(f"{which}, {counted(shelf['arrivals'], 'visitor')}, {counted(shelf['releases'], 'release')}{gone}")
        typer.echo(f"  {shelf['words']}")
        for note in shelf["notes"]:
            typer.echo(f"  {note}")
        for event in map(Event.from_dict, shelf["events"]):
            typer.echo(f"  {_line(event)}" + (f"; {event.detail}" if event.detail else ""))
        costliest = "costliest batch counts" if shelf["visits"] == 1 else f"{shelf['visits']} costliest batches count"
        log = ", and the log" if any(event["batch"] == LOG for event in shelf["events"]) else ""
        typer.echo(f"  to one {shelf['unit']} the {costliest}{log}: rho {rounded_up(float(shelf['rho']))}")
        well = "what is stored agrees with itself, see below" if found["wrong"] else "verified"
        typer.echo("  ledger and releases differ: " + "; ".join(shelf["wrong"]) if shelf["wrong"] else f"  {well}")
    typer.echo(f"to a person on all shelves: rho = {rounded_up(float(found['rho']))}")
    for line in found["wrong"]:
        typer.echo(f"not verified: {line}")


def _line(event: Event) -> str:
    """One event, with the figures from which its cost can be recomputed if they are known."""
    cost = f"rho {rounded_up(event.rho)}"
    if event.batch == LOG:
        return f"{event.name}, {cost}"
    if event.cost_alone:
        return f"{event.name}: {cost} at most to each visit, their sensitivity and noise are not known here"
    figures = f"sensitivity {rounded_up(event.sensitivity)}, noise {rounded_down(event.noise)}"
    return f"batch {event.batch}: {event.name}, {figures}, {cost}"
