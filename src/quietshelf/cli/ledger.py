"""``quietshelf ledger``: every promise and every event of a store, checked against the releases it holds."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from quietshelf.cli.serve import Config, Database, Secrets, settings_of


def ledger(
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    delta: Annotated[float, typer.Option(help="The delta that epsilon is stated for.")] = 1e-6,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say what was promised to whom, and verify it against the stored releases; status 1 if anything differs.

    Example: quietshelf ledger --database sqlite:///shop.db --secrets shop-secrets --json
    """
    settings = settings_of(config, {"database": database, "secrets": secrets})
    from quietshelf.service import reading
    from quietshelf.service.store import Store
    from quietshelf.service.vault import Vault
    from quietshelf.service.verify import verify

    store = Store(settings.url, Vault(settings.secrets))
    store.migrate()
    with store.read() as connection:
        found = reading.everything(connection, delta)
        for shelf, row in zip(found["shelves"], reading.shelf_rows(connection), strict=True):
            shelf["wrong"] = verify(connection, row)
    store.close()
    wrong = any(shelf["wrong"] for shelf in found["shelves"])
    if as_json:
        typer.echo(json.dumps({**found, "verified": not wrong}))
    else:
        _print(found)
    if wrong:
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    for shelf in found["shelves"]:
        gone = f", deleted {shelf['deleted']}" if shelf["deleted"] else ""
        which = f"shelf {shelf['shelf']} (number {shelf['number']})"
        typer.echo(f"{which}, {shelf['arrivals']} visitors, {shelf['releases']} releases{gone}")
        typer.echo(f"  {shelf['words']}")
        for note in shelf["notes"]:
            typer.echo(f"  {note}")
        for event in shelf["events"]:
            typer.echo(
                f"  batch {event['visitors']}: {event['name']}, sensitivity {event['sensitivity']}, "
                f"noise {event['noise']}, rho {event['rho']} {event['detail']}".rstrip()
            )
        typer.echo("  ledger and releases differ: " + "; ".join(shelf["wrong"]) if shelf["wrong"] else "  verified")
    typer.echo(f"to somebody on all shelves: rho = {found['rho']}")
