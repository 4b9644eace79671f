"""Databases that the whole session shares: each schedule empties them first."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.protocol.places import Place
from tests.protocol.shelf_user import scratch
from tests.serving.service.conftest import fresh_postgres, postgres

__all__ = ["place", "postgres"]


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Place]]:
    """A database by the name of its kind, prepared when it is first asked for."""
    folder = Path(tempfile.mkdtemp(dir=scratch()))
    made: dict[str, Place] = {}

    def of(store: str) -> Place:
        if store not in made:
            url = None if store == "sqlite" else fresh_postgres(request.getfixturevalue("postgres"))
            made[store] = Place(folder / f"{store}-{secrets.token_hex(4)}", url)
        return made[store]

    yield of
    for each in made.values():
        each.close()
    shutil.rmtree(folder)
