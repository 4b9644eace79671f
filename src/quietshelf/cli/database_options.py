"""How commands open a service's database: settings from flags, an existing store, one-line errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quietshelf.cli.console import say
from quietshelf.model.types import require

if TYPE_CHECKING:
    from quietshelf.serving.service.database.store import Store
    from quietshelf.serving.service.settings import ServiceSettings

Config = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]
Database = Annotated[str | None, typer.Option(help="SQLite file or PostgreSQL, as a URL.")]
Secrets = Annotated[str | None, typer.Option(help="Folder that holds the person key and the epoch file.")]


def settings_of(config: Path | None, flags: dict[str, str | int | None], other: Sequence[str] = ()) -> ServiceSettings:
    """Read the settings; name the missing extra if the service is not installed."""
    check_extra()
    from quietshelf.serving.service import settings

    named = {name: value for name, value in flags.items() if value is not None}
    found = settings.read(config, flags={**settings.assigned(other), **named})
    say(f"database {found.shown}, secrets in {found.secrets}")
    return found


@contextmanager
def existing(config: Path | None, database: str | None, secrets: str | None) -> Iterator[Store]:
    """Open the store of a service that has run before."""
    settings = settings_of(config, {"database": database, "secrets": secrets})
    from quietshelf.serving.service.database.store import Store
    from quietshelf.serving.service.database.vault import Vault

    check_made(settings)
    with reaching(settings):
        store = Store(settings.url, Vault(settings.secrets, make=False))
        store.migrate()
        try:
            yield store
        finally:
            store.close()


def check_made(settings: ServiceSettings) -> None:
    """Refuse a database that no service has used: a mistyped name must not create an empty ledger."""
    from quietshelf.serving.service.database.store import made

    with reaching(settings):
        found = made(settings.url)
    advice = "name it with --database, or create one with `quietshelf serve`"
    require(found, f"database must be one that a service has used ({advice})", database=settings.shown)


@contextmanager
def reaching(settings: ServiceSettings) -> Iterator[None]:
    """Turn database errors into one line that names the database."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        rule = "database must be one that can be opened and written"
        raise ValueError(f"{rule}, got database={settings.shown!r}: {error.orig}") from None


def check_extra() -> None:
    """Refuse to go on without the extra ``service``."""
    try:
        import fastapi  # noqa: F401 - only to check that the extra is installed
        import sqlalchemy  # noqa: F401 - the same
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the service needs `pip install '.[service]'` in a checkout ({error})") from None
