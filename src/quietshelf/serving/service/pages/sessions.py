"""Sessions: a random cookie, stored as a hash, that stands for a key for up to an hour.

A session can do what its key can. It ends when the key expires or is revoked.
"""

from __future__ import annotations

import hashlib
import secrets

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.access import keys
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store

SECONDS = 3600


def begin(connection: Connection, key: Key, now: float) -> str:
    """Start a session and delete expired ones; returns the cookie, which is stored nowhere."""
    token, table = secrets.token_urlsafe(32), schema.sessions
    connection.execute(sa.delete(table).where(table.c.expires <= now))
    connection.execute(sa.insert(table), {"hash": _hash(token), "key": key.id, "expires": now + SECONDS})
    return token


def end(connection: Connection, token: str) -> None:
    """End the session of a cookie."""
    table = schema.sessions
    connection.execute(sa.delete(table).where(table.c.hash == _hash(token)))


def key_of(store: Store, token: str) -> Key | None:
    """The key that a cookie stands for; None if the session is unknown or over."""
    table = schema.sessions
    with store.read() as connection:
        now = store.now(connection)
        live = (table.c.hash == _hash(token), table.c.expires > now)
        identity = connection.execute(sa.select(table.c.key).where(*live)).scalar_one_or_none()
        return None if identity is None else keys.valid(connection, now).get(identity)


def form_token(token: str) -> str:
    """The token in this session's forms. It cannot be computed without the cookie."""
    return hashlib.sha256(b"quietshelf form " + token.encode()).hexdigest()


def _hash(token: str) -> str:
    """A plain hash: the cookie has 256 random bits, too many to search."""
    return hashlib.sha256(b"quietshelf session " + token.encode("utf-8", "surrogateescape")).hexdigest()
