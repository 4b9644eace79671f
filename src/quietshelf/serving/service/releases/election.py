"""Elects the process that releases when several share a PostgreSQL (R7, R8; docs/proofs.md, section 6).

The releaser holds a lease: a row with its name and an end by the database's clock. Every step of a release locks that
row and checks the name, so a process that was paused, or lost its lease, can finish nothing.

At every poll, each process that may release reports that it is alive and what its epoch file has noted. A release is
drawn only after all live processes have noted its announcement. Nobody waits for a process that has been silent for a
while: its row is deleted and its membership ends, which it can tell by its own clock even if the database forgets.

Members are processes whose epoch file knows of every release; only they may lead. A process becomes a member if a
member has heard of it, which from then on waits for it; or if its file is complete, and all processes whose files may
know more have heard of it and found nothing missing. To make that safe, each file lists the others (its view) before it
hears of them; a member removes files that are gone from its view.
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
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.store import Store

LEASE_SECONDS = 10.0
"""How long a silent releaser keeps its lease; at least three times the pause between two polls."""
RENEWED = 2 / 3
"""A holder renews its lease once less than this part of it is left."""
WITNESS_SECONDS = 20.0
"""How long others wait for a silent process; also at least three pauses."""
LOST_LEASE = "a release must be made by the process that holds the lease, got one that has lost it"
MARGIN = 0.9
"""The part of that time that a process relies on by its own clock."""


class Announcement(NamedTuple):
    """A release under way."""

    id: str
    shelf: int
    batch: int
    previous: str | None


class Lease(NamedTuple):
    """Who leads, and until when."""

    holder: str
    until: float


class Witness(NamedTuple):
    """The row of a process."""

    process: str
    until: float
    noted: str | None
    file: str
    place: str
    member: bool
    view: str
    heard: str


_announcements, _witnesses = schema.announcements.c, schema.witnesses.c
_ANNOUNCED = Prepared(sa.select(*(_announcements[name] for name in Announcement._fields)))
_WITHDRAW = Prepared(sa.delete(schema.announcements).where(_announcements.id == sa.bindparam("told")))
_lease_of = sa.select(*(schema.releaser.c[name] for name in Lease._fields))
_RELEASER, _RELEASER_LOCKED = Prepared(_lease_of), Prepared(_lease_of.with_for_update())
_RELEASER_UNLESS_LOCKED = Prepared(_lease_of.with_for_update(skip_locked=True))
_LEAD = Prepared(sa.update(schema.releaser).values(holder=sa.bindparam("mine"), until=sa.bindparam("to")))
_LAST = Prepared(sa.select(schema.store.c.releaser_id))
_mine, _alive = _witnesses.process == sa.bindparam("mine"), _witnesses.until > sa.bindparam("now")
_witness = sa.select(_witnesses.process).where(_mine)
_WITNESS, _WITNESS_LOCKED = Prepared(_witness), Prepared(_witness.with_for_update())
_WITNESS_GONE = Prepared(sa.delete(schema.witnesses).where(_mine))
_SILENT_GONE = Prepared(sa.delete(schema.witnesses).where(~_mine, ~_alive))
_OTHERS = Prepared(sa.select(schema.witnesses).where(~_mine))
_ALIVE = Prepared(sa.select(_witnesses.process).where(~_mine, _alive))


class Election:
    """One of the processes that share a PostgreSQL; ``pause``: seconds between two polls.

    Attributes:
        name: Its name, a new one whenever others stopped waiting for it.
        member: Whether its epoch file knew of every release at its last report.
        noted: The last announcement that its file had noted by then.
    """

    def __init__(self, store: Store, *, pause: float) -> None:
        self._store = store
        self.name, self.member = secrets.token_hex(8), False
        self.noted: str | None = None
        self._lease, self._alive = max(LEASE_SECONDS, 3 * pause), max(WITNESS_SECONDS, 3 * pause)
        self._until, self._spoke = 0.0, 0.0
        self._unanimous: str | None = None

    def holds(self, connection: Connection) -> bool | None:
        """Whether this process leads, by a read without a lock; None if it has to `take` or renew the lease to know."""
        row, now = _lease(connection, _RELEASER), self._store.now(connection)
        assert row is not None  # noqa: S101 - there is always one
        if row.holder == self.name:  # one that ends too late, since the clock went back, is renewed as well
            return self._stands(connection, now) if RENEWED * self._lease < row.until - now <= self._lease else None
        return False if row.until > now else None

    def take(self) -> bool:
        """Take or renew the lease; False if this is not a member, or another process holds or is using the lease."""
        with self._store.write() as connection:
            seen = _lease(connection, _RELEASER)
            mine = seen is not None and seen.holder == self.name
            row = _lease(connection, _RELEASER_LOCKED if mine else _RELEASER_UNLESS_LOCKED)
            now = self._store.now(connection)
            if row is None or (row.holder != self.name and row.until > now) or not self._stands(connection, now):
                return False
            _LEAD.run(connection, {"mine": self.name, "to": now + self._lease})
        return True

    def fence(self, connection: Connection) -> None:
        """Refuse unless this process leads. Nobody else can until this transaction ends."""
        row = _lease(connection, _RELEASER_LOCKED)
        mine = row is not None and row.holder == self.name
        require(mine and self._stands(connection, self._store.now(connection)), LOST_LEASE)

    def testify(self, noted: str | None) -> None:
        """Report that this process is alive and what its file has noted, read others' reports, and join if possible."""
        spoke = _own_clock()
        with self._store.write() as connection:
            now = self._store.now(connection)
            if not _WITNESS_LOCKED.rows(connection, {"mine": self.name}) or not self._waited_for(now):
                self._begin_again(connection)
            self.member = self.member and self._store.vault.epoch["complete"]
            if self.member:
                _SILENT_GONE.run(connection, {"mine": self.name, "now": now})
            others = [Witness(**row) for row in _OTHERS.rows(connection, {"mine": self.name})]
            last = _LAST.value(connection)
            member, view = self._seen(others, last, fresh=noted == last)
            place = self._store.vault.place
            known = {"noted": noted, "file": self._store.vault.epoch["file"], "place": place, "member": member}
            lists = {"view": json.dumps(view), "heard": json.dumps([row.process for row in others])}
            _WITNESS_GONE.run(connection, {"mine": self.name})
            mine = {"process": self.name, "until": now + self._alive, **known, **lists}
            connection.execute(sa.insert(schema.witnesses), mine)
        self.member, self.noted, self._until, self._spoke = member, noted, now + self._alive, spoke
        told = {(place, known["file"]), *((row.place, row.file) for row in others if row.noted == noted)}
        agreed = member and all((row.place, row.file) in told for row in others)  # one folder holds one file
        self._unanimous = noted if agreed else None

    def witnessed(self, announcement: str) -> bool:
        """Whether every process alive at this one's last report had noted the announcement."""
        return self._unanimous == announcement

    def alone(self, connection: Connection) -> bool:
        """Whether no other live process may release."""
        return _ALIVE.value(connection, {"mine": self.name, "now": self._store.now(connection)}) is None

    def leave(self) -> None:
        """Give up lease and membership."""
        with self._store.write() as connection:
            self._begin_again(connection)

    def _waited_for(self, now: float) -> bool:
        """Whether nobody can have drawn without waiting for this process since its last report."""
        return now < self._until and _own_clock() - self._spoke < MARGIN * self._alive

    def _stands(self, connection: Connection, now: float) -> bool:
        there = _WITNESS.value(connection, {"mine": self.name}) is not None
        return self.member and there and self._waited_for(now)

    def _begin_again(self, connection: Connection) -> None:
        """Drop lease and membership; this process continues under a new name."""
        releaser = schema.releaser
        _WITNESS_GONE.run(connection, {"mine": self.name})
        connection.execute(sa.update(releaser).where(releaser.c.holder == self.name).values(until=0.0))
        self.name, self.member, self._unanimous = secrets.token_hex(8), False, None

    def _seen(self, others: Sequence[Any], last: str | None, *, fresh: bool) -> tuple[bool, list[str]]:
        """Whether this process is a member, and its view, which is in its file when this returns."""
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
    """Whether every file in a view, and in their views in turn, belongs to a process that has heard of this one."""
    known, more = {own}, set(view)
    while more:
        rows = [row for row in heard if row.file in more]
        if more - {row.file for row in rows}:
            return False
        known |= more
        more = {file for row in rows for file in json.loads(row.view)} - known
    return True


def _own_clock() -> float:
    """Seconds on this machine, including sleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _lease(connection: Connection, query: Prepared) -> Lease | None:
    (row,) = query.tuples(connection, {}) or (None,)
    return None if row is None else Lease(*row)


def announced(connection: Connection) -> list[Announcement]:
    """The releases under way: at most one, by the process that leads."""
    return [Announcement(*row) for row in _ANNOUNCED.tuples(connection, {})]


def withdraw(connection: Connection, announcement: str) -> bool:
    """Delete an announcement whose batch this transaction releases or burns; whether it existed."""
    return bool(_WITHDRAW.run(connection, {"told": announcement}))
