"""When this process releases, and what it checks first, running as at its start: memory (R8), and who leads.

On SQLite the epoch file's lock decides. On PostgreSQL the releaser is elected (`election`), and a release has three
steps: it is announced in the database, noted in the epoch file of every witness, drawn and committed. A releaser that
dies in between costs the batch that was announced; whoever leads next burns it.
"""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from quietshelf.release.noise import NoiseSource
from quietshelf.service import election, epochs, logs, restore
from quietshelf.service.election import Announcement, Election
from quietshelf.service.inbox import Inbox
from quietshelf.service.releaser import affordable_due, release_one
from quietshelf.service.settings import Settings
from quietshelf.service.store import Store
from quietshelf.types import require

HOUR = 3600.0
WAITING = (
    "releases are left to others: the epoch file of this machine may not know the last one. It will once a process "
    "that does is running, or all that ran beside this one; if they are lost, run quietshelf restore"
)
UNTOLD = "a release must be announced before it is drawn, got one that is not"


class Releasing:
    """The releases of one process.

    Attributes:
        elsewhere: Whether another process makes them.
    """

    def __init__(self, store: Store, source: NoiseSource, inbox: Inbox, settings: Settings) -> None:
        self._store, self._source, self._inbox, self._settings = store, source, inbox, settings
        self._election = None if store.sqlite else Election(store, pause=settings.poll_seconds)
        self._told: Announcement | None = None
        self._waits = False
        self.elsewhere = not settings.releaser

    def prepare(self) -> None:
        """At the start: drop what may have been released already, and find out who releases."""
        self.check_memory()
        if self._settings.releaser:
            self.elsewhere = not self._leads()

    def check_memory(self) -> None:
        """R8: compare the database with the epoch file, and bring the file up to it; be a witness if it knows all."""
        if self._settings.releaser:
            with self._store.vault.locked():
                self._told = self._check(burns=self._election is None, told=self._told)

    def stay(self) -> None:
        """At every look: note what others announced, and keep the lease if this process has it."""
        if self._election is not None:
            self.check_memory()
            if not self.elsewhere:
                self.elsewhere = not self._leads()

    def leave(self) -> None:
        """At the end: let another process release at once."""
        if self._election is not None and self._settings.releaser:
            with self._store.vault.locked():
                self._note(self._election)  # who is gone already is not waited for at the next start
                self._election.leave()

    def release(self) -> bool:
        """Release one batch; False if another process is at it, or witnesses are waited for.

        Whatever failed since the last time is settled first: a batch that was announced then is burnt (R7).
        """
        if not self._settings.releaser:
            return False
        with self._store.vault.locked():
            told, self._told = self._told, None  # whatever fails from here on, it is burnt
            told = self._check(burns=self._election is None, told=told)
            self.elsewhere = not self._leads()
            if self.elsewhere:
                return False
            if self._election is not None:
                told = self._check(burns=True, told=told) or self._announce(self._election)
                if told is not None and not self._election.witnessed(told.id):
                    self._told = told
                    return False
            outcome = release_one(
                self._store,
                self._source,
                upto=self._inbox.time(),
                forget_before=self._settings.retry_hours * HOUR,
                announced=partial(self._draw, told),
                only=None if told is None else (told.shelf, told.batch),
                first=self._fence,
            )
            epochs.note(self._store)
        if outcome is None:
            return False
        grade = "info" if outcome.released else "error"
        logs.say(grade, "release", shelf=outcome.shelf, batch=outcome.batch, released=outcome.released)
        return True

    def _announce(self, mine: Election) -> Announcement | None:
        """R7: announce the batch that is due first, in the database and in this file; None if there is none."""
        with self._store.write() as connection:
            self._fence(connection)
            found = affordable_due(connection, self._store, self._source, self._inbox.time())
            told = None if found is None else epochs.tell(self._store, connection, *found)
        if told is not None:
            self._note(mine)
        return told

    def _fence(self, connection: Connection) -> None:
        if self._election is not None:
            self._election.fence(connection)

    def _draw(self, told: Announcement | None, connection: Connection, shelf: int, batch: int) -> None:
        """R7: the last look before the noise is drawn; the announcement goes with the batch. `_fence` went before."""
        if self._election is None:
            epochs.announce(self._store, connection, shelf, batch)
            return
        require(told is not None and (told.shelf, told.batch) == (shelf, batch), UNTOLD)
        assert told is not None  # noqa: S101 - as above
        require(election.withdraw(connection, told.id), UNTOLD)

    def _leads(self) -> bool:
        """Whether this process releases: its epoch file knows of every release and, on PostgreSQL, it has the lease."""
        leads = epochs.is_current(self._store) and (self._election is None or self._election.lead())
        if not leads and not self.elsewhere:
            logs.say("warning", "releases are made elsewhere")
        return leads

    def _check(self, *, burns: bool, told: Announcement | None = None) -> Announcement | None:
        """R8; what is under way here, undrawn."""
        alone = True
        if self._election is not None:
            with self._store.read() as connection:
                alone, open_ = self._election.alone(connection), election.announced(connection)
            file = self._store.vault.epoch
            told = next((each for each in open_ if each == told or epochs.untold(each, file)), None)
        under_way = None if told is None else told.id
        dropped = restore.check(
            self._store, self._source, burns=burns, under_way=under_way, alone=alone, fence=self._fence
        )
        if dropped is not None:
            logs.say("warning", "batches left out", visitors_left_out=dropped.visitors, lost=dropped.lost_releases)
        if self._election is not None:
            self._note(self._election)
        return told

    def _note(self, mine: Election) -> None:
        """Bring the epoch file up to the database, and say so; be a member if this file knows of every release."""
        mine.testify(epochs.note(self._store))
        if not mine.member and not self._waits:
            logs.say("warning", WAITING)
        self._waits = not mine.member
