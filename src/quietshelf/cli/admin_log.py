"""``quietshelf admin-log``: list admin actions, straight from the database."""

from __future__ import annotations

from typing import Annotated

import typer

from quietshelf.cli.console import Json, strict_json
from quietshelf.cli.database_options import Config, Database, Secrets, existing


def admin_log(
    most: Annotated[int, typer.Option("--most", min=1, help="The most entries to print.")] = 100,
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    as_json: Json = False,
) -> None:
    """List what admins did, latest first: time, key and action.

    Example: quietshelf admin-log --database sqlite:///shop.db --secrets shop-secrets
    """
    with existing(config, database, secrets) as store, store.read() as connection:
        from quietshelf.serving.service.access import admin_log as rules

        found = rules.entries(connection, most=most)["entries"]
    if as_json:
        typer.echo(strict_json({"entries": found}))
        return
    for each in found:
        who, where = each["key"] or "a command", each["shelf"] or ""
        typer.echo(f"{each['time']}  {who:14} {each['what']:20} {where:20} {rules.words(each['details'])}".rstrip())
