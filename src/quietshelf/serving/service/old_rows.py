"""Deletes old rows piece by piece: Idempotency-Keys of released visitors, and entries of the admin log.

The age of these rows is public.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.access.tickets import LONGEST
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.pieces import Piece
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

PIECE, MOST, SECONDS = 64, 4096, 0.02
"""Rows in the first piece and in the largest, and how long a piece should take: on SQLite visitors wait for it."""
RESTS = 3.0
"""Pause after each piece, as a multiple of the time the piece took."""
HOUR, DAY = 3_600.0, 86_400.0


def old(settings: ServiceSettings, now: float) -> dict[sa.Table, sa.Select[Any]]:
    """Queries for the primary keys of old rows, by table."""
    log, keys = schema.admin_log, schema.retries
    released, kept = keys.c.fingerprint.is_(None), max(settings.retry_hours * HOUR, LONGEST + 1)  # a ticket is a key
    return {
        log: sa.select(log.c.number).where(log.c.time < now - settings.admin_log_days * DAY),
        keys: sa.select(keys.c.shelf, keys.c.key).where(released, keys.c.made < now - kept),
    }


def waiting(connection: Connection, settings: ServiceSettings, now: float) -> bool:
    """Whether there are old rows."""
    return any(connection.execute(rows.limit(1)).first() for rows in old(settings, now).values())


def forget(connection: Connection, settings: ServiceSettings, now: float, most: int) -> int:
    """Delete and count up to ``most`` rows per table, by key: one DELETE would make SQLite scan the table."""
    gone = 0
    for table, rows in old(settings, now).items():
        piece = [dict(row) for row in connection.execute(rows.limit(most)).mappings()]
        if piece:
            this = [column == sa.bindparam(column.name) for column in table.primary_key.columns]
            connection.execute(sa.delete(table).where(*this), piece)
        gone += len(piece)
    return gone


async def tend(service: Service) -> None:
    """Delete all old rows, in another thread than the writer's."""
    piece = Piece(PIECE, MOST, SECONDS)

    def look() -> bool:
        with service.store.read() as connection:
            return waiting(connection, service.settings, service.time.now(connection))

    def some() -> float:
        began = time.monotonic()
        with service.store.write() as connection:
            gone = forget(connection, service.settings, service.time.now(connection), piece.rows)
        piece.took(gone, time.monotonic() - began)
        return time.monotonic() - began

    while await asyncio.to_thread(look):
        await asyncio.sleep(RESTS * await asyncio.to_thread(some))
