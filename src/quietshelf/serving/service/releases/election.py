"""Who releases where several processes share a PostgreSQL, and who else knows (R7, R8; docs/proofs.md, section 6).

The releaser holds a lease: a row that names it, and until when by the database's clock. Everything it does for a
release locks that row and checks the name, so that a process that was stopped, or lost its lease, can finish nothing.

Every process that may release says at every look that it lives, and what its epoch file has noted. A release is drawn
only after all that live have noted its announcement. One that is not heard of for a while is not waited for: its row
is deleted, and it is no member any longer, which it knows by its own clock even where the database forgets.

Members are the processes whose epoch file knows of every release, and only they lead. A process becomes one if a member
has heard of it, which from then on waits for it; or if its file is complete and all processes whose files may know more
have heard of it and found nothing missing. For that each file names the others, its view, before it hears of them; a
member takes out of its view whoever is gone.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store

LEASE_SECONDS = 10.0
"""How long a releaser that is not heard of keeps its place; at least three times the pause between two looks."""
WITNESS_SECONDS = 20.0
"""How long a process that is not heard of is waited for, on the same terms."""
LOST_LEASE = "a release must be made by the process that holds the lease, got one that has lost it"
MARGIN = 0.9
"""Of the time for which others wait for it, how much a process trusts by its own clock."""


class Announcement(NamedTuple):
    """A release that is under way."""

    id: str
    shelf: int
    batch: int
    previous: str | None


class Election:
    """One process among those that share a PostgreSQL; ``pause``: seconds between two looks.

    Attributes:
        name: Another one whenever it was not waited for.
        member: Whether its epoch file knew of every release when it last spoke.
    """

    def __init__(self, store: Store, *, pause: float) -> None:
        self._store = store
        self.name, self.member = secrets.token_hex(8), False
        self._lease, self._alive = max(LEASE_SECONDS, 3 * pause), max(WITNESS_SECONDS, 3 * pause)
        self._until, self._spoke = 0.0, 0.0
        self._unanimous: str | None = None

    def lead(self) -> bool:
        """Take or keep the lease; False if this is no member, or another process has it, or is at work under it."""
        table = schema.releaser
        with self._store.write() as connection:
            row = connection.execute(sa.select(table).with_for_update(skip_locked=True)).one_or_none()
            now = self._store.now(connection)
            if row is None or (row.holder != self.name and row.until > now) or not self._stands(connection, now):
                return False
            connection.execute(sa.update(table).values(holder=self.name, until=now + self._lease))
        return True

    def fence(self, connection: Connection) -> None:
        """Refuse unless this process leads; until this transaction ends nobody else can."""
        row = connection.execute(sa.select(schema.releaser).with_for_update()).one()
        require(row.holder == self.name and self._stands(connection, self._store.now(connection)), LOST_LEASE)

    def testify(self, noted: str | None) -> None:
        """Say that this process lives and what its file has noted, hear of the others, and be a member if it can."""
        table, spoke = schema.witnesses, _own_clock()
        with self._store.write() as connection:
            now = self._store.now(connection)
            mine = connection.execute(sa.select(table).where(table.c.process == self.name).with_for_update()).first()
            if mine is None or not self._waited_for(now):
                self._begin_again(connection)
            self.member = self.member and self._store.vault.epoch["complete"]
            if self.member:
                connection.execute(sa.delete(table).where(table.c.process != self.name, table.c.until <= now))
            others = connection.execute(sa.select(table).where(table.c.process != self.name)).all()
            last = connection.execute(sa.select(schema.store.c.releaser_id)).scalar_one()
            member, view = self._seen(others, last, fresh=noted == last)
            place = self._store.vault.place
            known = {"noted": noted, "file": self._store.vault.epoch["file"], "place": place, "member": member}
            lists = {"view": json.dumps(view), "heard": json.dumps([row.process for row in others])}
            connection.execute(sa.delete(table).where(table.c.process == self.name))
            connection.execute(sa.insert(table).values(process=self.name, until=now + self._alive, **known, **lists))
        self.member, self._until, self._spoke = member, now + self._alive, spoke
        told = {(place, known["file"]), *((row.place, row.file) for row in others if row.noted == noted)}
        agreed = member and all((row.place, row.file) in told for row in others)  # one folder is one file
        self._unanimous = noted if agreed else None

    def witnessed(self, announcement: str) -> bool:
        """Whether all that were alive when this process last spoke had noted it."""
        return self._unanimous == announcement

    def alone(self, connection: Connection) -> bool:
        """Whether no other process that may release is alive."""
        table, now = schema.witnesses, self._store.now(connection)
        alive = sa.select(table.c.process).where(table.c.process != self.name, table.c.until > now)
        return connection.execute(alive).first() is None

    def leave(self) -> None:
        """Be neither releaser nor witness any longer."""
        with self._store.write() as connection:
            self._begin_again(connection)

    def _waited_for(self, now: float) -> bool:
        """Whether nobody can have drawn without this process since it last spoke."""
        return now < self._until and _own_clock() - self._spoke < MARGIN * self._alive

    def _stands(self, connection: Connection, now: float) -> bool:
        table = schema.witnesses
        there = connection.execute(sa.select(table.c.process).where(table.c.process == self.name)).first()
        return self.member and there is not None and self._waited_for(now)

    def _begin_again(self, connection: Connection) -> None:
        """Let go of lease and membership, which another name alone can get."""
        releaser, witnesses = schema.releaser, schema.witnesses
        connection.execute(sa.delete(witnesses).where(witnesses.c.process == self.name))
        connection.execute(sa.update(releaser).where(releaser.c.holder == self.name).values(until=0.0))
        self.name, self.member, self._unanimous = secrets.token_hex(8), False, None

    def _seen(self, others: Sequence[Any], last: str | None, *, fresh: bool) -> tuple[bool, list[str]]:
        """Whether this process is a member, and its view, which its file has when this returns."""
        file = self._store.vault.epoch
        heard = [row for row in others if self.name in json.loads(row.heard)]
        vouched = fresh and any(row.member for row in heard)
        sure = [row for row in heard if row.noted == last]
        closed = fresh and _closed(file["file"], file["witnesses"], sure)
        member = self.member or vouched or (closed and file["complete"])
        view = {row.file for row in others} | (set() if self.member else set(file["witnesses"]))
        found = sorted(view - {file["file"]})
        changed = {**file, "witnesses": found, "complete": member or file["complete"]}
        if changed != file:
            self._store.vault.note(changed)
        return member, found


def _closed(own: str, view: list[str], heard: list[Any]) -> bool:
    """Whether all files of a view, and of the views of these, belong to processes that have heard of this one."""
    known, more = {own}, set(view)
    while more:
        rows = [row for row in heard if row.file in more]
        if more - {row.file for row in rows}:
            return False
        known |= more
        more = {file for row in rows for file in json.loads(row.view)} - known
    return True


def _own_clock() -> float:
    """Seconds that passed on this machine, asleep or awake."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def announced(connection: Connection) -> list[Announcement]:
    """Releases that are under way: one at most, by whoever leads."""
    return [Announcement(*row) for row in connection.execute(_ANNOUNCED)]


_ANNOUNCED = sa.select(*(schema.announcements.c[name] for name in Announcement._fields))


def withdraw(connection: Connection, announcement: str) -> bool:
    """Delete an announcement whose batch is released or burnt in the same transaction; whether it was there."""
    table = schema.announcements
    return bool(connection.execute(sa.delete(table).where(table.c.id == announcement)).rowcount)
