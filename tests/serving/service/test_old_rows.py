"""Idempotency-Keys of released visitors go when they are old, however many there are and however few releases."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.serving.service.harness import FakeClock, inline, offered, service_of, stocked

from quietshelf.serving.service import old_rows
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.http import app

HOURS = 2.0


def test_old_keys_are_forgotten_without_a_release(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, all of them; those that are younger, or whose visitors are not released, stay."""
    monkeypatch.setattr(old_rows, "PIECE", 3)
    monkeypatch.setattr(app, "TEND_SECONDS", 0.1)
    clock = FakeClock()
    keys, old = schema.retries, clock.time - HOURS * 3600 - 1
    with inline(database, tmp_path, clock=clock, retry_hours=HOURS) as client:
        stocked(client)
        assert offered(client, retry="now").status_code == 200
        rows = [("young", None, old + 2), ("open", "x", old), *((f"old {n}", None, old) for n in range(10))]
        with service_of(client).store.write() as connection:
            for slot, (key, fingerprint, made) in enumerate(rows):
                about = {"shelf": 1, "batch": -1, "slot": slot, "fingerprint": fingerprint, "made": made}
                connection.execute(sa.insert(keys), {"key": key, **about})
        for _ in range(200):
            with service_of(client).store.read() as connection:
                left = set(connection.execute(sa.select(keys.c.key)).scalars())
            if len(left) <= 3:
                break
            time.sleep(0.05)
    assert len(left) == 3  # with that of the visitor who is here now, as a hash
    assert {"young", "open"} <= left
