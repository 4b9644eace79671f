"""``quietshelf ledger``: every promise and every event of a store, checked against the releases it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quietshelf.cli.serve import Config, Database, Secrets, settings_of
from quietshelf.types import require

if TYPE_CHECKING:
    from quietshelf.service.settings import Settings


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
    from quietshelf.service.verify import forgotten, verify

    _demand(settings)
    store = Store(settings.url, Vault(settings.secrets))
    store.migrate()
    known = store.vault.marks  # read first: a running service takes the database further before the file
    with store.read() as connection:
        found = reading.everything(connection, delta)
        for shelf, row in zip(found["shelves"], reading.shelf_rows(connection), strict=True):
            shelf["wrong"] = verify(connection, row)
        found["wrong"] = forgotten(connection, known)
    store.close()
    wrong = bool(found["wrong"]) or any(shelf["wrong"] for shelf in found["shelves"])
    if as_json:
        typer.echo(json.dumps({**found, "verified": not wrong}))
    else:
        _print(found)
    if wrong:
        raise typer.Exit(1)


def _demand(settings: Settings) -> None:
    """Refuse what is not there: it would be made, empty, and an empty ledger looks like a good one."""
    from sqlalchemy import make_url

    url = make_url(settings.url)
    if url.get_backend_name() == "sqlite":
        require(Path(url.database or "").is_file(), "database must exist to be verified", database=settings.database)
    require((Path(settings.secrets) / "key").is_file(), "secrets must hold the key file", secrets=settings.secrets)


def _print(found: dict[str, Any]) -> None:
    if not found["shelves"]:
        typer.echo("no shelf was ever made here: nothing is promised, and there is nothing to verify")
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
        dearest = "dearest batch counts" if shelf["visits"] == 1 else f"{shelf['visits']} dearest batches count"
        typer.echo(f"  to one {shelf['unit']} the {dearest}: rho {shelf['rho']}")
        typer.echo("  ledger and releases differ: " + "; ".join(shelf["wrong"]) if shelf["wrong"] else "  verified")
    for line in found["wrong"]:
        typer.echo(f"not verified: {line}")
    typer.echo(f"to somebody on all shelves: rho = {found['rho']}")
