"""How commands call a running service: its URL, a key, one-line errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from quietshelf.client import Client

Url = Annotated[str, typer.Option("--url", envvar="QUIETSHELF_URL", help="Where the service listens.")]
Key = Annotated[
    str,
    typer.Option(
        "--key",
        envvar="QUIETSHELF_KEY",
        help="An admin key. Pass it in the environment: other users can read command lines.",
    ),
]
SECONDS = 60.0
"""Timeout of a request."""


@contextmanager
def reached(url: str, key: str) -> Iterator[Client]:
    """A client of the service; names the missing extra if httpx is not installed."""
    try:
        from quietshelf.client import Client, ServiceDown
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the client needs `pip install '.[client]'` in a checkout ({error})") from None
    try:
        with Client(url, key, timeout=SECONDS) as client:
            yield client
    except ServiceDown as error:
        raise ValueError(str(error)) from None
