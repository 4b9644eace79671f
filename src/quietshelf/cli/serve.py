"""``quietshelf serve``: run the service."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quietshelf.cli.console import say
from quietshelf.cli.database_options import Config, Database, Secrets, check_extra, reaching, settings_of
from quietshelf.model.types import require

if TYPE_CHECKING:
    from quietshelf.serving.service.settings import ServiceSettings


def serve(
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    workers: Annotated[int | None, typer.Option(help="API processes on this machine.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    other: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, as NAME=VALUE (docs/service.md lists them); may be repeated.",
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Run a shop with simulated visitors; nothing is kept.")] = False,
) -> None:
    """Run the service. The first start creates an admin key and prints where it is stored.

    Example: quietshelf serve --database sqlite:///shop.db --secrets shop-secrets --port 8080
    """
    if demo:
        places = {"config": config, "database": database, "secrets": secrets}
        _demo(host, port, {**places, "workers": workers, "log-level": log_level, "set": other or None})
        return
    flags = {"database": database, "secrets": secrets, "host": host, "port": port, "workers": workers}
    settings = settings_of(config, {**flags, "log_level": log_level}, other or ())
    _run(settings)


def _run(settings: ServiceSettings) -> None:
    import uvicorn  # first: a failing import must not leave a key behind that cannot be used

    from quietshelf.serving.service import logs
    from quietshelf.serving.service.database.store import SteadyClock
    from quietshelf.serving.service.http.app import CLOCK
    from quietshelf.serving.service.http.protocol import options
    from quietshelf.serving.service.metrics import counted_together

    check_free(settings.host, settings.port)
    _prepare(settings)
    say(f"serving at http://{settings.host}:{settings.port}: pages at /, the API at /docs; Ctrl-C stops it")
    logs.take_over()
    with counted_together(settings.workers) as together:
        os.environ.update({**settings.to_environment(), CLOCK: repr(SteadyClock().offset), **together})
        uvicorn.run(
            "quietshelf.serving.service.http.app:from_environment",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            **options(settings),
        )


def _prepare(settings: ServiceSettings) -> None:
    """Create what is missing, and print where the first key is; never the key itself, since output ends up in logs."""
    from quietshelf.serving.service.access import keys
    from quietshelf.serving.service.service import Service

    given = Path(settings.admin_key).read_text(encoding="utf-8").strip() if settings.admin_key else ""
    with reaching(settings):
        first = Service(settings)
        first.prepare()
        key = keys.first(first.store, given)
        first.store.close()
    if key is not None:
        typer.echo(f"the first admin key is in {settings.admin_key or first.vault.admin_key}")


def _demo(host: str | None, port: int | None, others: dict[str, object]) -> None:
    """Serve the demo, which keeps nothing and so takes no database."""
    given = [f"--{name}" for name, value in others.items() if value is not None]
    require(not given, "--demo takes --host and --port only", given=given)
    check_extra()
    from quietshelf.demo.server import serve_demo

    place, door = host or "127.0.0.1", 8080 if port is None else port
    check_free(place, door)
    serve_demo(place, door, typer.echo)


def check_free(host: str, port: int) -> None:
    """Refuse an address that is taken, before a key is created for it."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server(address[:2], family=family).close()
    except OSError as error:
        rule = "host and port must be free to listen on (choose others with --host and --port)"
        raise ValueError(f"{rule}, got {host}:{port}: {error.strerror}") from None
