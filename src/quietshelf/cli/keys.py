"""``quietshelf keys``: create, list and revoke API keys, straight in the database."""

from __future__ import annotations

from typing import Annotated

import typer

from quietshelf.cli.console import Json, strict_json
from quietshelf.cli.database_options import Config, Database, Secrets, existing

keys = typer.Typer(
    name="keys", help="Create, list and revoke API keys.\n\nExample: quietshelf keys create --scope offer"
)


@keys.command()
def create(
    scope: Annotated[list[str], typer.Option(help="offer, choose, read or admin; may be given several times.")],
    name: Annotated[str, typer.Option(help="What the key is for, as listed later.")] = "",
    shelf: Annotated[str | None, typer.Option(help="The only shelf the key may use.")] = None,
    expires: Annotated[str | None, typer.Option(help="When the key expires: a day or a time, in UTC.")] = None,
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    as_json: Json = False,
) -> None:
    """Create a key and show it once.

    Example: quietshelf keys create --scope offer --scope choose --name web --shelf teas --expires 2027-01-31
    """
    from quietshelf.serving.service.access import keys as rules
    from quietshelf.serving.service.database.timestamps import seconds

    until = None if expires is None else seconds(expires)
    with existing(config, database, secrets) as store, store.write() as connection:
        now = store.now(connection)
        made = rules.create(connection, name=name, scopes=scope, shelf=shelf, now=now, expires=until)
    typer.echo(strict_json({"key": made}) if as_json else made)


@keys.command("list")
def list_keys(config: Config = None, database: Database = None, secrets: Secrets = None, as_json: Json = False) -> None:
    """List all keys, without their secrets.

    Example: quietshelf keys list --json
    """
    from quietshelf.serving.service.access import keys as rules

    with existing(config, database, secrets) as store, store.read() as connection:
        found = rules.listed(connection, store.now(connection))
    if as_json:
        typer.echo(strict_json({"keys": found}))
        return
    for key in found:
        scopes, until = ",".join(key["scopes"]), f"until {key['expires']}" if key["expires"] else ""
        place = key["shelf"] or "all shelves"
        typer.echo(f"{key['id']}  {key['state']:8} {scopes:24} {place:20} {until:30} {key['name']}".rstrip())


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the key, as listed.")],
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
) -> None:
    """Revoke a key; running workers stop accepting it at their next poll (every second by default).

    Example: quietshelf keys revoke 3f9a0c12be77
    """
    from quietshelf.serving.service.access import keys as rules

    with existing(config, database, secrets) as store, store.write() as connection:
        rules.revoke(connection, key, store.now(connection))
    typer.echo(f"{key} is revoked")


@keys.command()
def signing(config: Config = None, database: Database = None, secrets: Secrets = None, as_json: Json = False) -> None:
    """Show the public key with which visitors' devices verify signed documents.

    Example: quietshelf keys signing
    """
    from quietshelf.serving.service.access.signing import public_key

    with existing(config, database, secrets) as store:
        found = public_key(store.vault)
    typer.echo(strict_json({"algorithm": "Ed25519", "key": found}) if as_json else found)
