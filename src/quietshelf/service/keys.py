"""API keys: shown once, stored as hashes, compared in constant time, limited to scopes and, if wished, one shelf."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.atomic_write import atomic_write
from quietshelf.service import schema
from quietshelf.service.problems import Forbidden, NotFound, Unauthorised
from quietshelf.service.store import Store
from quietshelf.types import require

SCOPES = ("offer", "choose", "read", "admin")
"""``offer`` asks for offers, ``choose`` answers them, ``read`` looks at releases and metrics, ``admin`` may do all."""


@dataclass(frozen=True)
class Key:
    """A key as it is stored.

    Attributes:
        id: Its public half.
        name: What it is for.
        hash: Of its secret half.
        scopes: What it may do.
        shelf: The only shelf it may touch; None for all.
    """

    id: str
    name: str
    hash: str
    scopes: frozenset[str]
    shelf: str | None

    def has(self, scope: str) -> bool:
        """Whether it has that scope; ``admin`` has all."""
        return bool(self.scopes & {scope, "admin"})

    def may(self, scope: str, shelf: str | None = None) -> None:
        """Refuse what the key is not for; another shelf does not exist for it."""
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
    halves: tuple[str, str] | None = None,
) -> str:
    """A new key, or one whose ``halves`` are given; the text returned is the only place where its secret is."""
    wanted = sorted(set(scopes))
    known = bool(wanted) and set(wanted) <= set(SCOPES)
    require(known, f"scopes must be among {', '.join(SCOPES)}", scopes=wanted)
    identity, secret = halves or (secrets.token_hex(6), secrets.token_urlsafe(32))
    rule = "a key must be written qs_ID_SECRET, with 6 letters or more in its id and 32 or more in its secret"
    require(len(identity) >= 6 and len(secret) >= 32, f"{rule}, got {len(identity)} and {len(secret)}")
    row = {"id": identity, "name": name, "hash": _hash(secret), "scopes": ",".join(wanted), "shelf": shelf}
    connection.execute(sa.insert(schema.keys), {**row, "created": now})
    return f"qs_{identity}_{secret}"


def revoke(connection: Connection, identity: str, now: float) -> None:
    """Make a key worthless."""
    table = schema.keys
    live = (table.c.id == identity) & table.c.revoked.is_(None)
    found = connection.execute(sa.update(table).where(live).values(revoked=now)).rowcount
    require(found == 1, "key must be one that is not revoked (`quietshelf keys list` shows them)", key=identity)


def listed(connection: Connection) -> list[dict[str, object]]:
    """All keys, without their hashes."""
    table = schema.keys
    wanted = [column for column in table.c if column.name != "hash"]
    return [dict(row) for row in connection.execute(sa.select(*wanted).order_by(table.c.created)).mappings()]


def valid(connection: Connection) -> dict[str, Key]:
    """Keys that are not revoked, by id."""
    table = schema.keys
    rows = connection.execute(sa.select(table).where(table.c.revoked.is_(None)))
    return {row.id: Key(row.id, row.name, row.hash, frozenset(row.scopes.split(",")), row.shelf) for row in rows}


def first(store: Store, given: str = "") -> str | None:
    """An admin key, if the store has never had one: that ``given``, or a new one, written to the secrets folder."""
    with store.write() as connection:
        connection.execute(sa.select(schema.store).with_for_update())  # of several first starts one makes it
        if connection.execute(sa.select(sa.func.count()).select_from(schema.keys)).scalar_one():
            return None
        told = None if not given else presented(f"Bearer {given}")
        text = create(connection, name="first", scopes=["admin"], shelf=None, now=store.now(connection), halves=told)
        if not given:
            atomic_write(store.vault.admin_key, f"{text}\n".encode())  # before the commit: nobody else has it
        return text


def presented(header: str | None) -> tuple[str, str]:
    """Id and secret of the key in an Authorization header."""
    word, _, text = (header or "").partition(" ")
    parts = text.strip().split("_", 2)
    if word.lower() != "bearer" or len(parts) != 3 or parts[0] != "qs":
        raise Unauthorised("the header must be `Authorization: Bearer qs_...`")
    return parts[1], parts[2]


def matches(key: Key | None, secret: str) -> Key:
    """The key, if the secret is its own; an unknown key takes as long."""
    right = secrets.compare_digest(_hash(secret), key.hash if key is not None else _hash(""))
    if key is None or not right:
        raise Unauthorised(
            "the key must be valid and not revoked: `quietshelf keys list` shows all, without their secrets"
        )
    return key


def _hash(secret: str) -> str:
    """The secret has 256 random bits: a plain hash cannot be searched."""
    return hashlib.sha256(b"quietshelf key " + secret.encode("utf-8", "surrogateescape")).hexdigest()
