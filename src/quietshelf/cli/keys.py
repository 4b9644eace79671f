"""``quietshelf keys``: make, list and revoke API keys, on the database itself."""

from __future__ import annotations

from typing import Annotated

import typer

from quietshelf.cli.console import Json, strict_json
from quietshelf.cli.opening import Config, Database, Secrets, existing

keys = typer.Typer(name="keys", help="Make, list and revoke API keys.\n\nExample: quietshelf keys create --scope offer")


@keys.command()
def create(
    scope: Annotated[list[str], typer.Option(help="offer, choose, read or admin; may be given several times.")],
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    shelf: Annotated[str | None, typer.Option(help="The only shelf it may touch.")] = None,
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    as_json: Json = False,
) -> None:
    """Make a key and show it once.

    Example: quietshelf keys create --scope offer --scope choose --name web --shelf teas
    """
    from quietshelf.service import keys as rules

    with existing(config, database, secrets) as store, store.write() as connection:
        made = rules.create(connection, name=name, scopes=scope, shelf=shelf, now=store.now(connection))
    typer.echo(strict_json({"key": made}) if as_json else made)


@keys.command("list")
def list_keys(config: Config = None, database: Database = None, secrets: Secrets = None, as_json: Json = False) -> None:
    """List all keys, without their secrets.

    Example: quietshelf keys list --json
    """
    from quietshelf.service import keys as rules

    with existing(config, database, secrets) as store, store.read() as connection:
        found = rules.listed(connection)
    if as_json:
        typer.echo(strict_json({"keys": found}))
        return
    for key in found:
        state = "revoked" if key["revoked"] else "valid"
        typer.echo(f"{key['id']}  {state:8} {key['scopes']:24} {key['shelf'] or 'all shelves':20} {key['name']}")


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the key, as listed.")],
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
) -> None:
    """Make a key worthless, within a poll of every running worker (a second by default).

    Example: quietshelf keys revoke 3f9a0c12be77
    """
    from quietshelf.service import keys as rules

    with existing(config, database, secrets) as store, store.write() as connection:
        rules.revoke(connection, key, store.now(connection))
    typer.echo(f"{key} is revoked")
