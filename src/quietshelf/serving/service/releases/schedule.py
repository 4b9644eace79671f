"""When releases are due and published, and who waits for them (R5)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from quietshelf.serving.service.database.cleaning import Cleaning
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.releases.releaser import due_batches, next_publication, next_publication_of
from quietshelf.serving.service.releases.releasing import Releasing
from quietshelf.serving.service.work import Beside

SOON = 0.05
"""Seconds until another look where a release is due and not made: others may wait for this process to note it."""

REST = 0.1
"""Seconds between two looks where batches fill one after the other, on many shelves."""

PATIENCE = 10.0
"""Seconds that offers wait for a release which is late and being made; then they go on from the last one."""


class Schedule:
    """What one process knows of the releases that come next; the database decides.

    Args:
        store: The database.
        releasing: What releases.
        beside: The thread on which what releases write is written.
        cleaning: Told of releases, which leave rows behind.
        now: The time of the service's stamps, as far as all that was received before is settled.
        poll_seconds: Seconds between two looks at what other processes did.
        stamp: The time of the service's stamps.

    Attributes:
        due: When the next batch is to be released, apart from those at work.
        publication: When something is published next.
        look_at: When to look again at what others changed, on this machine's own clock.
        rest: `REST`; tests that wait for no clock take none.
    """

    def __init__(
        self,
        store: Store,
        releasing: Releasing,
        beside: Beside,
        cleaning: Cleaning,
        now: Callable[[], float],
        poll_seconds: float,
        stamp: Callable[[], float],
    ) -> None:
        self._store, self._releasing, self._beside, self._cleaning = store, releasing, beside, cleaning
        self._now, self._poll_seconds, self._stamp = now, poll_seconds, stamp
        self.due: float | None = None
        self.publication: float | None = None
        self.look_at = 0.0
        self._asks = True
        self._late_since: float | None = None
        self._tried = 0.0
        self._release_at = 0.0
        self.rest = REST
        self._looked_at = -math.inf
        self._due_at = math.inf

    # Who waits

    def waits(self, due: float) -> bool:
        """What is received waits for a release that was due, unless another machine makes it, or it failed."""
        return not self._releasing.elsewhere and due > self._tried

    def waits_from(self, connection: Connection, shelves: Iterable[int]) -> dict[int, float]:
        """From when on what is received for a shelf waits for its next release; infinity if no batch is full."""
        due = next_publication_of(connection, sorted(shelves), after=self._tried)
        return {shelf: at if self.waits(at) else math.inf for shelf, at in due.items()}

    def failed(self, at: float) -> None:
        """Nobody waits for releases that fail: whatever was due by then has been tried, of all shelves."""
        self._tried = max(self._tried, at)

    # When to look

    def look_soon(self) -> None:
        """Look at what is due with the next chores, or a little later while work is done: who waits asks often.

        At what others announced as well, unless this process alone releases.
        """
        self._look_in(SOON * (bool(self._releasing.busy) or self._beside.busy("release")))

    def _look_in(self, seconds: float) -> None:
        soon = time.monotonic() + seconds
        self._due_at = min(self._due_at, soon)
        if self._releasing.elsewhere:
            self.look_at = min(self.look_at, soon)

    def filled(self) -> None:
        """A batch was opened or filled here: look what is due with the next chores, unless that was just done."""
        self._due_at = min(self._due_at, max(time.monotonic(), self._looked_at + self.rest))

    def look(self) -> None:
        """What is to be released next, apart from what is at work, and when something is published next."""
        with self._store.read() as connection:
            due, publication = due_batches(connection), next_publication(connection)
        self._looked_at, self._due_at = time.monotonic(), math.inf
        before, self.publication, self._asks = self.publication, publication, True
        still = publication is not None and (before == publication or publication <= self._stamp())
        self._late_since = self._late_since if still else None  # shelves that are late one after the other: one wait
        gone = before is not None and (publication is None or before < publication)
        if before is not None and gone and before <= self._now():
            self.failed(before)  # it is published, or gone: if it comes back, nobody waits for it
        self.due = min((at for place, at in due.items() if place not in self._releasing.busy), default=None)

    def until_next(self) -> float:
        """Seconds until there is something to release, publish or look at."""
        again = self._release_at if self._releasing.finished else math.inf
        now = self._now()
        due = None if self._beside.busy("release") else self.due
        later = [each for each in (self.publication,) if each is not None and each > now]
        looks = min(self.look_at, self._due_at, again) - time.monotonic()
        return min(looks, min(due or math.inf, *later, math.inf) - now)

    # What is done

    def go_on(self) -> None:
        """Go on with releases that are due, and publish those whose time has come."""
        if time.monotonic() >= self._due_at:
            self.look()
        while not self._beside.busy("release") and self._to_release():
            self._cleaning.released()
            self._beside.ask("release", self._release, self._released)
        now = self._now()
        while self._asks and self.publication is not None and now >= self.publication:
            if self._releasing.publish():
                self.look()
            elif (self._beside.busy("release") or self._releasing.late(now)) and self._patient():
                break  # whoever waits for it waits until it is done
            else:
                self.failed(now)
                self._asks = False

    def at_once(self) -> None:
        """Go on with the next chores: something was added up or drawn."""
        self._release_at = 0.0

    def _to_release(self) -> bool:
        """Whether something is due, or was finished: again soon, where it has to wait for something else."""
        due = self.due is not None and self._now() >= self.due
        return due or (self._releasing.finished and time.monotonic() >= self._release_at)

    def _release(self) -> tuple[bool, bool]:
        """Whether a batch was released, or refused; and whether something is finished and waits for something else."""
        done = self._releasing.release()
        return done, not done and self._releasing.finished

    def _released(self, found: tuple[bool, bool]) -> None:
        """Look what is next."""
        done, waits = found
        self._release_at = time.monotonic() + SOON * waits
        self.look()
        if not done and self.due is not None:  # witnesses are waited for, or another process is at it
            self.due = None
            self._look_in(min(self._poll_seconds, SOON))

    def _patient(self) -> bool:
        """Whether a release that is late is still waited for; by this machine's own clock, which is the schedule's."""
        now = time.monotonic()
        self._late_since = now if self._late_since is None else self._late_since
        return now < self._late_since + PATIENCE
