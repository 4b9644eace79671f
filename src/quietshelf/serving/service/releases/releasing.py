"""When this process releases, and what it checks first, running as at its start: memory (R8), and who leads.

A release goes through the transactions of `releaser` one after the other. One thread makes them, beside the writer's
(`work.Beside`), which asks for them and reads here what became of them; another does what takes long in between. On
SQLite the right to release is a lock beside the epoch file. On PostgreSQL the releaser is elected (`election`), and a
release is announced in the database and noted in the epoch file of every witness before it is drawn. A process that
dies between announcement and entry costs the batch that was announced; whoever releases next burns it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service import logs
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.releases import election, epochs, releaser, restore
from quietshelf.serving.service.releases.election import Announcement, Election
from quietshelf.serving.service.releases.releaser import Charged, Drawing, Outcome, Place
from quietshelf.serving.service.releases.summing import Sum
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors.inbox import Inbox
from quietshelf.serving.service.work import Once, Work

LEAVE_SECONDS, PAUSE = 20.0, 0.05
"""How long a process that ends goes on with a release that it has announced, and how often it looks."""
WAITING = (
    "releases are left to others: the epoch file of this machine may not know the last one. It will once a process "
    "that does is running, or all that ran beside this one; if they are lost, run quietshelf restore"
)
UNTOLD = "a release must be announced before it is drawn, got one that is not"


class Releasing:
    """The releases of one process.

    Attributes:
        elsewhere: Whether another process makes them.
        work: What takes long; ``wake`` is called when some of it is done.
    """

    def __init__(
        self, store: Store, source: NoiseSource, inbox: Inbox, settings: ServiceSettings, wake: Callable[[], None]
    ) -> None:
        self._store, self._source, self._inbox, self._settings = store, source, inbox, settings
        self._election = None if store.sqlite else Election(store, pause=settings.poll_seconds)
        self.work = Work(wake)
        self._right: ExitStack | None = None
        self._sums: dict[Place, Sum] = {}
        self._told: Announcement | None = None
        self._ready: Charged | None = None
        self._drawing: Drawing | None = None
        self._waits = False
        self.elsewhere = not settings.releaser

    @property
    def busy(self) -> set[Place]:
        """Batches that are being added up or drawn at this moment."""
        sums = {place for place, each in list(self._sums.items()) if not each.done}  # another thread changes them
        drawn = self._drawing
        return sums | ({drawn.charged.place} if drawn is not None and not drawn.task.done else set())

    @property
    def finished(self) -> bool:
        """Whether something was finished, and there is more to do about it."""
        drawn = self._drawing
        return (drawn is not None and drawn.task.done) or any(each.done for each in list(self._sums.values()))

    def late(self, now: float) -> bool:
        """Whether what is being done should have been published by then: visitors of that shelf wait for it."""
        return self._drawing is not None or any(each.batch.published_at <= now for each in list(self._sums.values()))

    def prepare(self) -> None:
        """At the start: drop what may have been released already, and find out who releases."""
        self.check_memory()
        if self._settings.releaser:
            self.elsewhere = not self._leads()

    def check_memory(self) -> None:
        """R8: compare the database with the epoch file, and bring the file up to it; be a witness if it knows all."""
        if self._settings.releaser:
            with self._store.vault.locked():
                burns = self._drawing is None and self._election is None and self._may()
                self._told = self._check(burns=burns, told=self._told)
                self._rest()

    def stay(self) -> None:
        """At every look: note what others announced, and keep the lease if this process has it."""
        if self._election is not None:
            self.check_memory()
            if not self.elsewhere:
                self.elsewhere = not self._leads()

    def leave(self) -> None:
        """At the end: finish what is announced, and let another process release at once."""
        try:
            self._finish_announced()
        except Exception as error:  # it is burnt by whoever comes next
            logs.failed("last release", error)
        self.work.stop()
        self._drawing = None
        self._give_up()
        if self._election is not None and self._settings.releaser:
            with self._store.vault.locked():
                # who is gone already is not waited for at the next start
                self._testify(self._election, epochs.note(self._store))
                self._election.leave()

    def _finish_announced(self) -> None:
        end = time.monotonic() + LEAVE_SECONDS
        while (self._told or self._drawing) and time.monotonic() < end and not self.release():
            time.sleep(PAUSE)

    def release(self) -> bool:
        """Go on with what is due, as far as that goes at once; whether a batch was released, or refused.

        Whatever failed since the last time is settled first: a batch that was announced, and may have been drawn, is
        burnt (R7). One that was announced, and not begun to be drawn, is drawn now.
        """
        if not self._settings.releaser:
            return False
        try:
            with self._store.vault.locked():
                outcome = self._go_on()
                if outcome is None:
                    return False
                epochs.note(self._store)
        finally:
            self._rest()
        grade = "info" if outcome.released else "error"
        logs.say(grade, "release", shelf=outcome.shelf, batch=outcome.batch, released=outcome.released)
        return True

    def publish(self) -> bool:
        """R5: let offers rest on releases whose time has come, whoever made them; whether there were any."""
        with self._store.write() as connection:
            return bool(releaser.publish(connection, self._inbox.time()))

    def _go_on(self) -> Outcome | None:
        if self._drawing is None:
            refused = self._begin()
            if refused is not None:
                return refused
        drawing = self._drawing
        if drawing is None or not drawing.task.done:
            return None
        self._drawing = None  # whatever fails from here on, it is burnt
        return self._enter(drawing)

    def _begin(self) -> Outcome | None:
        """Seal what is due, announce what is added up, draw what is announced; a batch that the ledger refuses."""
        may = self._may()
        led = self._election is None or (not self.elsewhere and self._leads())
        told = self._check(burns=led and may, told=self._told)
        self.elsewhere = not self._leads()
        if self.elsewhere or not may:
            self._give_up()
            return None
        if not led:  # who takes the lease now looks once more: the one before may have announced meanwhile
            told = self._check(burns=True, told=told)
        self._told = told
        if self._ready is None or self._told is None or self._ready.place != (self._told.shelf, self._told.batch):
            self._ready, found = None, self._charge()
            if not isinstance(found, Charged):
                return found
            self._ready = found
        assert self._told is not None  # noqa: S101 - it is announced
        if self._election is None or self._election.witnessed(self._told.id):
            told, ready = self._told, self._ready
            self._told = self._ready = None  # whatever fails from here on, it is burnt
            self._drawing = self._draw(told, ready)
        return None

    def _charge(self) -> Charged | Outcome | None:
        """The batch that is announced, or is announced now: of those that are added up the one that was due first."""
        upto, told = self._inbox.time(), self._told
        with self._store.read() as connection:
            due = releaser.due_batches(connection)
        places = [place for place, at in due.items() if at <= upto] if told is None else [(told.shelf, told.batch)]
        self._add_up(places, keep=set(due))
        ready = next((self._sums[place] for place in places if place in self._sums and self._sums[place].done), None)
        if told is not None and places[0] not in self._sums:
            self._told = None  # it is gone: its cost is entered the next time
        if ready is None:
            return None
        del self._sums[ready.row["shelf"], ready.row["batch"]]
        if ready.error is not None:
            raise ready.error
        with self._store.write() as connection:
            self._fence(connection)
            found = releaser.charge(connection, self._source, ready)
            if isinstance(found, Charged) and told is None:
                tell = epochs.announce if self._election is None else epochs.tell
                told = tell(self._store, connection, *found.place)
        self._told = told if isinstance(found, Charged) else None
        if self._election is not None and told is not None:
            self._testify(self._election, epochs.note(self._store))
        return found

    def _add_up(self, places: list[Place], *, keep: set[Place]) -> None:
        """Seal batches and begin to add them up; forget sums of batches that are gone."""
        for gone in set(self._sums) - keep:
            self.work.forget(self._sums.pop(gone))
        for place in places:
            if place not in self._sums:
                with self._store.write() as connection:
                    self._fence(connection)
                    row = releaser.seal(connection, place)
                if row is not None:
                    self._sums[place] = Sum(self._store, row)
                    self.work.ask(self._sums[place])

    def _draw(self, told: Announcement, charged: Charged) -> Drawing:
        """R7: begin to draw what is announced; the last look before."""
        if self._election is not None:
            with self._store.write() as connection:
                self._fence(connection)
                require(told in election.announced(connection), UNTOLD)
        found: list[Learner] = []
        task = Once(lambda: found.append(releaser.draw(charged, self._source)))
        self.work.ask(task)
        return Drawing(told, charged, task, found)

    def _enter(self, drawn: Drawing) -> Outcome:
        """R7: the release, its cost and the end of its batch; the announcement goes with it."""
        if drawn.task.error is not None:
            raise drawn.task.error
        with self._store.write() as connection:
            self._fence(connection)
            if self._election is not None:
                require(election.withdraw(connection, drawn.told.id), UNTOLD)
            outcome = releaser.enter(connection, drawn.charged, drawn.found[0])
            releaser.publish(connection, self._inbox.time(), only=drawn.charged.place[0])
        return outcome

    def _fence(self, connection: Connection) -> None:
        if self._election is not None:
            self._election.fence(connection)

    def _may(self) -> bool:
        """Whether no other process that shares this SQLite file is at a release; from then on none can be."""
        if self._election is None and self._right is None:
            self._right = self._store.vault.releasing()
        return self._election is not None or self._right is not None

    def _rest(self) -> None:
        """Let others release, if there is nothing under way."""
        if self._right is not None and not self._sums and self._drawing is None:
            self._right.close()
            self._right = None

    def _give_up(self) -> None:
        for each in self._sums.values():
            self.work.forget(each)
        self._sums, self._told, self._ready = {}, None, None
        self._rest()

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
        mine, fence = None if told is None else told.id, self._fence
        dropped, noted = restore.check(self._store, self._source, burns=burns, under_way=mine, alone=alone, fence=fence)
        if dropped is not None:
            logs.say("warning", "batches left out", visitors_left_out=dropped.visitors, lost=dropped.lost_releases)
        if self._election is not None:
            self._testify(self._election, noted)
        return told

    def _testify(self, mine: Election, noted: str | None) -> None:
        """Say what the epoch file has noted; be a member if it knows of every release."""
        mine.testify(noted)
        if not mine.member and not self._waits:
            logs.say("warning", WAITING)
        self._waits = not mine.member
