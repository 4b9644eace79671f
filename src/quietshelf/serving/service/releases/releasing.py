"""Takes this process's releases through its `steps`, checking first for lost commits (R8) and who leads.

The transactions run in a thread beside the writer's (`work.Beside`), at the writer's request (`schedule`); another
thread does the slow work in between. On SQLite the right to release is a file lock beside the epoch file. On PostgreSQL
the releaser is elected (`election`), and a release is announced in the database and noted in every witness's epoch file
before it is drawn. If a process dies between announcement and entry, the next releaser burns the announced batch.
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
from quietshelf.serving.service.releases import election, epochs, restore, steps
from quietshelf.serving.service.releases.election import Announcement, Election
from quietshelf.serving.service.releases.steps import Charged, Drawing, Outcome, Place
from quietshelf.serving.service.releases.summing import Sum
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors.inbox import Inbox
from quietshelf.serving.service.work import Once, Work

LEAVE_SECONDS, PAUSE = 20.0, 0.05
"""How long a stopping process continues a release that it has announced, and how often it checks."""
WAITING = (
    "releases are left to others: this machine's epoch file may not know the last one. It will once a process that "
    "does is running, or all that ran with this one; if those are lost, run quietshelf restore"
)
UNTOLD = "a release must be announced before it is drawn, got one that is not"


class Releasing:
    """The releases of one process.

    Attributes:
        elsewhere: Whether another process makes them.
        work: The thread for slow work; ``wake`` is called when some of it is done.
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
        self._left = False  # something is announced that another process was to release
        self.elsewhere = not settings.releaser

    @property
    def busy(self) -> set[Place]:
        """Batches being summed or drawn right now."""
        sums = {place for place, each in list(self._sums.items()) if not each.done}  # another thread changes them
        drawn = self._drawing
        return sums | ({drawn.charged.place} if drawn is not None and not drawn.task.done else set())

    @property
    def finished(self) -> bool:
        """Whether a finished step is waiting to be continued."""
        drawn = self._drawing
        return (drawn is not None and drawn.task.done) or any(each.done for each in list(self._sums.values()))

    def late(self, now: float) -> bool:
        """Whether a release under way should have been published by then: visitors of that shelf wait for it."""
        return self._drawing is not None or any(each.batch.published_at <= now for each in list(self._sums.values()))

    def prepare(self) -> None:
        """At the start: drop what may already have been released, and find out who releases."""
        self.check_memory(speaks=True)
        if self._settings.releaser:
            self._find_releaser()

    def check_memory(self, *, speaks: bool = False) -> None:
        """R8: compare the database with the epoch file, update the file, and act as a witness."""
        if self._settings.releaser:
            with self._store.vault.locked():
                burns = self._drawing is None and (self._may() if self._election is None else self._still_leads())
                self._told = self._check(burns=burns, told=self._told, speaks=speaks)
                self._rest()

    def stay(self) -> None:
        """At every poll: note others' announcements, report it, and keep the lease if this process has it."""
        if self._election is not None and self._settings.releaser:
            self.check_memory(speaks=True)
            if self._left or not self.elsewhere:
                self._find_releaser()

    def leave(self) -> None:
        """At the end: finish what is announced, and let another process take over at once."""
        try:
            self._finish_announced()
        except Exception as error:  # the next releaser burns it
            logs.failed("last release", error)
        self.work.stop()
        self._drawing = None
        self._give_up()
        if self._election is not None and self._settings.releaser:
            with self._store.vault.locked():
                # so that the next start does not wait for processes that are gone
                self._testify(self._election, epochs.note(self._store))
                self._election.leave()

    def _finish_announced(self) -> None:
        end = time.monotonic() + LEAVE_SECONDS
        while (self._told or self._drawing) and time.monotonic() < end and not self.release():
            time.sleep(PAUSE)

    def release(self) -> bool:
        """Continue the releases that are due, without waiting; whether a batch was released or refused.

        Earlier failures are settled first: a batch that was announced and may have been drawn is burnt (R7). One that
        was announced but not started is drawn now.
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
        """R5: publish releases whose time has come, whichever process made them; whether there were any."""
        with self._store.write() as connection:
            return bool(steps.publish(connection, self._inbox.time()))

    def _go_on(self) -> Outcome | None:
        if self._drawing is None:
            refused = self._begin()
            if refused is not None:
                return refused
        drawing = self._drawing
        if drawing is None or not drawing.task.done:
            return None
        self._drawing = None  # any failure from here on burns it
        return self._enter(drawing)

    def _begin(self) -> Outcome | None:
        """Seal what is due, announce what is summed, draw what is announced; returns a batch the ledger refuses."""
        may = self._may()
        led = self._election is None or self._still_leads()
        told = self._check(burns=led and may, told=self._told, speaks=not led)
        if self._election is None or not led:
            self._find_releaser()
        if self.elsewhere or not may:
            self._give_up()
            return None
        if not led:  # a new leader checks again: the one before may have announced meanwhile
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
            self._told = self._ready = None  # any failure from here on burns it
            self._drawing = self._draw(told, ready)
        return None

    def _charge(self) -> Charged | Outcome | None:
        """The announced batch, or else the summed batch that was due first, which this announces."""
        upto, told = self._inbox.time(), self._told
        with self._store.read() as connection:
            due = steps.due_batches(connection)
        places = [place for place, at in due.items() if at <= upto] if told is None else [(told.shelf, told.batch)]
        self._add_up(places, keep=set(due))
        ready = next((self._sums[place] for place in places if place in self._sums and self._sums[place].done), None)
        if told is not None and places[0] not in self._sums:
            self._told = None  # it is gone: the next check enters its cost
        if ready is None:
            return None
        del self._sums[ready.row["shelf"], ready.row["batch"]]
        if ready.error is not None:
            raise ready.error
        with self._store.write() as connection:
            self._fence(connection)
            found = steps.charge(connection, self._source, ready)
            if isinstance(found, Charged) and told is None:
                tell = epochs.announce if self._election is None else epochs.tell
                told = tell(self._store, connection, *found.place)
        self._told = told if isinstance(found, Charged) else None
        if self._election is not None and told is not None:
            self._testify(self._election, epochs.note(self._store))
        return found

    def _add_up(self, places: list[Place], *, keep: set[Place]) -> None:
        """Seal batches and start summing them; drop sums of batches that are gone."""
        for gone in set(self._sums) - keep:
            self.work.forget(self._sums.pop(gone))
        for place in places:
            if place not in self._sums:
                with self._store.write() as connection:
                    self._fence(connection)
                    row = steps.seal(connection, place)
                if row is not None:
                    self._sums[place] = Sum(self._store, row)
                    self.work.ask(self._sums[place])

    def _draw(self, told: Announcement, charged: Charged) -> Drawing:
        """R7: start drawing an announced batch, after a last check."""
        if self._election is not None:
            with self._store.write() as connection:
                self._fence(connection)
                require(told in election.announced(connection), UNTOLD)
        found: list[Learner] = []
        task = Once(lambda: found.append(steps.draw(charged, self._source)))
        self.work.ask(task)
        return Drawing(told, charged, task, found)

    def _enter(self, drawn: Drawing) -> Outcome:
        """R7: enter the release and its cost, end its batch, and withdraw the announcement."""
        if drawn.task.error is not None:
            raise drawn.task.error
        with self._store.write() as connection:
            self._fence(connection)
            if self._election is not None:
                require(election.withdraw(connection, drawn.told.id), UNTOLD)
            outcome = steps.enter(connection, drawn.charged, drawn.found[0])
            steps.publish(connection, self._inbox.time(), only=drawn.charged.place[0])
        return outcome

    def _fence(self, connection: Connection) -> None:
        if self._election is not None:
            self._election.fence(connection)

    def _may(self) -> bool:
        """Whether no other process sharing this SQLite file is releasing; if so, none can start."""
        if self._election is None and self._right is None:
            self._right = self._store.vault.releasing()
        return self._election is not None or self._right is not None

    def _rest(self) -> None:
        """Let others release, unless something is under way."""
        if self._right is not None and not self._sums and self._drawing is None:
            self._right.close()
            self._right = None

    def _give_up(self) -> None:
        for each in self._sums.values():
            self.work.forget(each)
        self._sums, self._told, self._ready = {}, None, None
        self._rest()

    def _still_leads(self) -> bool:
        return not self.elsewhere and self._leads()

    def _leads(self) -> bool:
        """Whether this process releases: its epoch file is current and, on PostgreSQL, it holds the lease."""
        with self._store.read() as connection:
            leads = epochs.is_current(connection, self._store)
            held = True if self._election is None else self._election.holds(connection)
        if leads and held is None and self._election is not None:
            held = self._election.take()
        return leads and bool(held)

    def _find_releaser(self) -> None:
        """Find out whether another process releases, and say so once."""
        before, self.elsewhere = self.elsewhere, not self._leads()
        if self.elsewhere and not before:
            logs.say("warning", "releases are made elsewhere")

    def _check(self, *, burns: bool, told: Announcement | None = None, speaks: bool = False) -> Announcement | None:
        """R8: check for lost commits; this process's own announcement, if undrawn. ``speaks``: report anyway."""
        mine = self._election
        found = restore.check(self._store, self._source, burns=burns, told=told, election=mine)
        if found.dropped is not None:
            visitors, lost = found.dropped
            logs.say("warning", "batches left out", visitors_left_out=visitors, lost=lost)
        if mine is not None and (speaks or found.told is not None or found.noted != mine.noted):
            self._testify(mine, found.noted)
        self._left = found.left
        return found.told

    def _testify(self, mine: Election, noted: str | None) -> None:
        """Report what the epoch file has noted, and warn if it may not know of every release."""
        mine.testify(noted)
        if not mine.member and not self._waits:
            logs.say("warning", WAITING)
        self._waits = not mine.member
