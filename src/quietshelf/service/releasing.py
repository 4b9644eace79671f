"""Who releases, and what may have been lost: R7 and R8 in the running process, as at its start."""

from __future__ import annotations

from functools import partial

from quietshelf.release.noise import NoiseSource
from quietshelf.service import epochs, logs, restore
from quietshelf.service.inbox import Inbox
from quietshelf.service.releaser import release_one
from quietshelf.service.settings import Settings
from quietshelf.service.store import Store

HOUR = 3600.0


class Releasing:
    """The releases of one process.

    Attributes:
        elsewhere: Whether another machine makes them.
    """

    def __init__(self, store: Store, source: NoiseSource, inbox: Inbox, settings: Settings) -> None:
        self._store, self._source, self._inbox, self._settings = store, source, inbox, settings
        self.elsewhere = not settings.releaser

    def prepare(self) -> None:
        """At the start: drop what may have been released already, and find out who releases."""
        self.check_memory()
        if self._settings.releaser:
            self._find_out()

    def check_memory(self) -> None:
        """R8: compare the database with the epoch file, and bring the file up to it."""
        if self._settings.releaser:
            with self._store.vault.locked():
                self._check()

    def release(self) -> bool:
        """Release one batch; False if another process is at it. It is announced in the epoch file, or not made.

        Whatever failed since the last time is settled first: a batch that was announced then is burnt (R7).
        """
        if not self._settings.releaser:
            return False
        with self._store.vault.locked():
            self._check()
            if self._find_out():
                return False
            outcome = release_one(
                self._store,
                self._source,
                upto=self._inbox.time(),
                forget_before=self._settings.retry_hours * HOUR,
                announced=partial(epochs.announce, self._store),
            )
            epochs.note(self._store)
        if outcome is None:
            return False
        grade = "info" if outcome.released else "error"
        logs.say(grade, "release", shelf=outcome.shelf, batch=outcome.batch, released=outcome.released)
        return True

    def _check(self) -> None:
        dropped = restore.check(self._store, self._source)
        if dropped is not None:
            logs.say("warning", "batches left out", visitors_left_out=dropped.visitors, lost=dropped.lost_releases)

    def _find_out(self) -> bool:
        """Whether another machine releases: its epoch file has the last release, and this one does not."""
        elsewhere = not epochs.keeps(self._store)
        if elsewhere and not self.elsewhere:
            logs.say("warning", "releases are left to the machine whose epoch file has the last one")
        self.elsewhere = elsewhere
        return elsewhere
