"""API keys: shown once, stored as hashes, compared in constant time, limited by scope, shelf and expiry."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.atomic_write import atomic_write
from quietshelf.model.types import require
from quietshelf.serving.service.access import admin_log
from quietshelf.serving.service.access.admin_log import Act
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.timestamps import timestamp, timestamp_or_none
from quietshelf.serving.service.problems import Forbidden, NotFound, Unauthorised

Scope = Literal["offer", "choose", "read", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""``offer`` requests offers, ``choose`` answers them, ``read`` sees releases and metrics, ``admin`` may do all."""
MOST = 10_000
"""Most valid keys of a store."""
_table = schema.keys


@dataclass(frozen=True)
class Key:
    """A key as it is stored.

    Attributes:
        id: Its public half.
        name: What it is for.
        hash: Hash of its secret half.
        scopes: What it may do.
        shelf: The only shelf it may touch; None for all.
        expires: When it expires; None for never.
    """

    id: str
    name: str
    hash: str
    scopes: frozenset[str]
    shelf: str | None
    expires: float | None = None

    def has(self, scope: str) -> bool:
        """Whether it has that scope; ``admin`` has all."""
        return bool(self.scopes & {scope, "admin"})

    def may(self, scope: str, shelf: str | None = None) -> None:
        """Refuse if the key lacks the scope. A key for one shelf gets "not found" for all others."""
        if not self.has(scope):
            rule = f"the key must have the scope {scope} (`quietshelf keys create --scope {scope}` makes one)"
            raise Forbidden(f"{rule}, got {', '.join(sorted(self.scopes))}")
        if self.shelf is not None and shelf != self.shelf:
            raise NotFound("this shelf does not exist for this key")


def create(
    connection: Connection,
    *,
    name: str,
    scopes: Iterable[str],
    shelf: str | None,
    now: float,
    expires: float | None = None,
    by: str = "",
    halves: tuple[str, str] | None = None,
) -> str:
    """Create a key, from ``halves`` if they are given. The returned text is the only copy of its secret.

    ``by`` is the id of the key that asked for it, empty for a command.
    """
    wanted = sorted(set(scopes))
    known = bool(wanted) and set(wanted) <= set(SCOPES)
    require(known, f"scopes must be among {', '.join(SCOPES)}", scopes=wanted)
    until = None if expires is None else timestamp(expires)
    require(expires is None or expires > now, "expires must be in the future", expires=until)
    _check_room(connection, now)
    identity, secret = halves or (secrets.token_hex(6), secrets.token_urlsafe(32))
    rule = "a key must be written qs_ID_SECRET, with 6 letters or more in its id and 32 or more in its secret"
    require(len(identity) >= 6 and len(secret) >= 32, f"{rule}, got {len(identity)} and {len(secret)}")
    row = {"id": identity, "name": name, "hash": _hash(secret), "scopes": ",".join(wanted), "shelf": shelf}
    connection.execute(sa.insert(schema.keys), {**row, "created": now, "expires": expires})
    told = {"key": identity, "name": name, "scopes": wanted, "expires": until}
    admin_log.enter(connection, Act(by, "key created", shelf, told), now)
    return f"qs_{identity}_{secret}"


def revoke(connection: Connection, identity: str, now: float, by: str = "") -> None:
    """Revoke a key; ``by`` as for `create`."""
    live = (_table.c.id == identity) & _table.c.revoked.is_(None)
    found = connection.execute(sa.update(_table).where(live).values(revoked=now)).rowcount
    require(found == 1, "key must be one that is not revoked (`quietshelf keys list` shows them)", key=identity)
    admin_log.enter(connection, Act(by, "key revoked", details={"key": identity}), now)


def listed(connection: Connection, now: float) -> list[dict[str, Any]]:
    """All keys, oldest first, without their hashes."""
    rows = connection.execute(sa.select(_table).order_by(_table.c.created, _table.c.id))
    return [
        {
            "id": row.id,
            "state": _state(row, now),
            "scopes": row.scopes.split(","),
            "shelf": row.shelf,
            "name": row.name,
            "created": timestamp(row.created),
            "expires": timestamp_or_none(row.expires),
            "revoked": timestamp_or_none(row.revoked),
        }
        for row in rows
    ]


def exists(connection: Connection, identity: str) -> bool:
    """Whether there ever was such a key."""
    return connection.execute(sa.select(_table.c.id).where(_table.c.id == identity)).first() is not None


def valid(connection: Connection, now: float) -> dict[str, Key]:
    """Keys that are neither revoked nor expired, by id."""
    rows = connection.execute(sa.select(_table).where(_alive(now)))
    return {
        row.id: Key(row.id, row.name, row.hash, frozenset(row.scopes.split(",")), row.shelf, row.expires)
        for row in rows
    }


def _alive(now: float) -> sa.ColumnElement[bool]:
    return _table.c.revoked.is_(None) & (_table.c.expires.is_(None) | (_table.c.expires > now))


def _state(row: Any, now: float) -> str:
    if row.revoked is not None:
        return "revoked"
    return "valid" if row.expires is None or row.expires > now else "expired"


def _check_room(connection: Connection, now: float) -> None:
    """Refuse too many keys: every process keeps all of them in memory and reads them often."""
    held = connection.execute(sa.select(sa.func.count()).select_from(_table).where(_alive(now))).scalar_one()
    require(held < MOST, f"there must be fewer than {MOST} valid keys (revoke some)", keys=held)


def first(store: Store, given: str = "") -> str | None:
    """Create a store's first admin key: ``given``, or a new one, kept in the secrets folder. None if it had a key."""
    with store.write() as connection:
        connection.execute(sa.select(schema.store).with_for_update())  # of several first starts, one creates it
        if connection.execute(sa.select(sa.func.count()).select_from(schema.keys)).scalar_one():
            return None
        told = None if not given else presented(f"Bearer {given}")
        text = create(connection, name="first", scopes=["admin"], shelf=None, now=store.now(connection), halves=told)
        if not given:
            atomic_write(store.vault.admin_key, f"{text}\n".encode())  # before the commit, since there is no other copy
        return text


def presented(header: str | None) -> tuple[str, str]:
    """Id and secret of the key in an Authorization header."""
    word, _, text = (header or "").partition(" ")
    parts = text.strip().split("_", 2)
    if word.lower() != "bearer" or len(parts) != 3 or parts[0] != "qs":
        raise Unauthorised("the header must be `Authorization: Bearer qs_...`")
    return parts[1], parts[2]


def matches(key: Key | None, secret: str, now: float) -> Key:
    """The key, if the secret is right and it has not expired. Unknown and expired keys take the same time."""
    right = secrets.compare_digest(_hash(secret), key.hash if key is not None else _hash(""))
    if key is None or expired(key, now) or not right:
        raise Unauthorised(
            "the key must be valid, neither expired nor revoked (`quietshelf keys list` shows all, without secrets)"
        )
    return key


def expired(key: Key, now: float) -> bool:
    """Whether the key has expired."""
    return key.expires is not None and now >= key.expires


def _hash(secret: str) -> str:
    """A plain hash: the secret has 256 random bits, too many to search."""
    return hashlib.sha256(b"quietshelf key " + secret.encode("utf-8", "surrogateescape")).hexdigest()
