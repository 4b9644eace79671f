"""Signed in: a random cookie, stored as its hash, which stands for a key for an hour at most.

A session can do what its key can, no longer than the key itself: when that is revoked or expires, its sessions end.
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
    """A new session; the text returned is the cookie, and is stored nowhere. Sessions that are over are forgotten."""
    token, table = secrets.token_urlsafe(32), schema.sessions
    connection.execute(sa.delete(table).where(table.c.expires <= now))
    connection.execute(sa.insert(table), {"hash": _hash(token), "key": key.id, "expires": now + SECONDS})
    return token


def end(connection: Connection, token: str) -> None:
    """Make a cookie worthless."""
    table = schema.sessions
    connection.execute(sa.delete(table).where(table.c.hash == _hash(token)))


def key_of(store: Store, token: str) -> Key | None:
    """The key that a cookie stands for; None if it never did or no longer does."""
    table = schema.sessions
    with store.read() as connection:
        now = store.now(connection)
        live = (table.c.hash == _hash(token), table.c.expires > now)
        identity = connection.execute(sa.select(table.c.key).where(*live)).scalar_one_or_none()
        return None if identity is None else keys.valid(connection, now).get(identity)


def form_token(token: str) -> str:
    """What forms of this session carry: nobody without the cookie can work it out."""
    return hashlib.sha256(b"quietshelf form " + token.encode()).hexdigest()


def _hash(token: str) -> str:
    """The cookie has 256 random bits: a plain hash cannot be searched."""
    return hashlib.sha256(b"quietshelf session " + token.encode("utf-8", "surrogateescape")).hexdigest()
