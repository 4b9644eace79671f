"""Who releases where several processes share a PostgreSQL, and who else knows (R7, R8; docs/proofs.md, section 6).

The releaser holds a lease: a row that names it, and until when by the database's clock. Everything it does for a
release locks that row and checks the name, so that a process that was stopped, or lost its lease, can finish nothing.

Witnesses are the epoch files that know the last announcement, each kept by the processes of one machine. A release is
drawn only after every witness that is alive has noted its announcement: whichever of them leads next knows of every
draw, and knows a database that has lost one.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.service import schema
from quietshelf.service.store import Store
from quietshelf.types import require

LEASE_SECONDS = 10.0
"""How long a releaser that is not heard of keeps its place; at least three times the pause between two looks."""
WITNESS_SECONDS = 5.0
"""How long a witness that is not heard of is waited for, likewise."""
LOST_LEASE = "a release must be made by the process that holds the lease, got one that has lost it"


class Announcement(NamedTuple):
    """A release that is under way."""

    id: str
    shelf: int
    batch: int
    previous: str | None


class Election:
    """One process among those that share a PostgreSQL; ``pause``: seconds between two looks."""

    def __init__(self, store: Store, *, pause: float) -> None:
        self._store = store
        self.name, self.file = secrets.token_hex(8), store.vault.place
        self._lease, self._alive = max(LEASE_SECONDS, 3 * pause), max(WITNESS_SECONDS, 3 * pause)
        self._first_look: dict[str, float] | None = None

    def lead(self) -> bool:
        """Take or keep the lease; False if another process has it, or is at work under it."""
        table = schema.releaser
        with self._store.write() as connection:
            row = connection.execute(sa.select(table).with_for_update(skip_locked=True)).one_or_none()
            now = self._store.now(connection)
            if row is None or (row.holder != self.name and row.until > now):
                return False
            connection.execute(sa.update(table).values(holder=self.name, until=now + self._lease))
        return True

    def fence(self, connection: Connection) -> None:
        """Refuse unless this process leads; until this transaction ends nobody else can."""
        row = connection.execute(sa.select(schema.releaser).with_for_update()).one()
        require(row.holder == self.name, LOST_LEASE)

    def testify(self, noted: str | None) -> None:
        """Let this epoch file be a witness: it knows the last announcement."""
        table = schema.witnesses
        with self._store.write() as connection:
            until = self._store.now(connection) + self._alive
            mine = {"until": until, "noted": noted}
            found = connection.execute(sa.update(table).where(table.c.process == self.file).values(mine))
            if not found.rowcount:
                connection.execute(sa.insert(table).values(process=self.file, **mine))
            connection.execute(sa.delete(table).where(table.c.until < until - 100 * self._alive))

    def witnessed(self, announcement: str) -> bool:
        """Whether every other witness that is alive has noted it."""
        with self._store.read() as connection:
            return all(noted == announcement for noted in self._others(connection).values())

    def vouched_for(self, connection: Connection) -> bool:
        """Whether another witness was alive after this process first looked: it has been compared since."""
        table, now = schema.witnesses, self._store.now(connection)
        others = sa.select(table.c.process, table.c.until).where(table.c.process != self.file)
        found = {row.process: row.until for row in connection.execute(others)}
        if self._first_look is None:
            self._first_look = found
        return any(until > max(now, self._first_look.get(name, 0.0)) for name, until in found.items())

    def alone(self, connection: Connection) -> bool:
        """Whether no other witness is alive."""
        return not self._others(connection)

    def leave(self) -> None:
        """Be neither releaser nor witness any longer."""
        releaser, witnesses = schema.releaser, schema.witnesses
        with self._store.write() as connection:
            connection.execute(sa.delete(witnesses).where(witnesses.c.process == self.file))
            connection.execute(sa.update(releaser).where(releaser.c.holder == self.name).values(until=0.0))

    def _others(self, connection: Connection) -> dict[str, str | None]:
        table, now = schema.witnesses, self._store.now(connection)
        alive = sa.select(table).where(table.c.process != self.file, table.c.until > now)
        return {row.process: row.noted for row in connection.execute(alive)}


def announced(connection: Connection) -> list[Announcement]:
    """Releases that are under way: one at most, by whoever leads."""
    return [Announcement(*row) for row in connection.execute(_ANNOUNCED)]


_ANNOUNCED = sa.select(*(schema.announcements.c[name] for name in Announcement._fields))


def withdraw(connection: Connection, announcement: str) -> bool:
    """Delete an announcement whose batch is released or burnt in the same transaction; whether it was there."""
    table = schema.announcements
    return bool(connection.execute(sa.delete(table).where(table.c.id == announcement)).rowcount)
