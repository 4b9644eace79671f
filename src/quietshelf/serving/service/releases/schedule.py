"""Decides when releases are made and published, and which requests wait for them (R5)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from sqlalchemy import Connection

from quietshelf.serving.service.database.cleaning import Cleaning
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.releases.releasing import Releasing
from quietshelf.serving.service.releases.steps import Place, due_batches, next_publication_of, publications
from quietshelf.serving.service.work import Beside

SOON = 0.05
"""Seconds until the next check while a release is due but not made: others may wait for this process to note it."""

REST = 0.1
"""Seconds between two checks when batches fill in quick succession on many shelves."""

PATIENCE = 10.0
"""Seconds that offers wait for a late release under way. After that they use the previous one."""


class Schedule:
    """What one process knows about the next releases. The database has the final say.

    Args:
        store: The database.
        releasing: Makes the releases.
        beside: The thread that does the database work of releases.
        cleaning: Deletes the rows that releases leave behind.
        now: The time before which every stamped request is settled.
        poll_seconds: Seconds between two checks for changes by other processes.
        stamp: The current time, by which requests are stamped.

    Attributes:
        due: When the next batch is to be released, apart from those under way.
        publication: When the next release is to be published.
        look_at: When to check next for changes by other processes, by this machine's clock.
        rest: `REST`; zero in tests that do not wait for clocks.
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
        self._due_batches: dict[Place, float] = {}
        self.publication: float | None = None
        self._made: float | None = None
        self._looks = 0
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
        """Whether requests wait for a release due then: not if another machine makes it, or it has failed."""
        return not self._releasing.elsewhere and due > self._tried

    @property
    def turn(self) -> tuple[int, float, bool]:
        """Changes whenever a request that waits for a release may no longer have to."""
        return self._looks, self._tried, self._releasing.elsewhere

    def waits_from(self, connection: Connection, shelves: Iterable[int]) -> dict[int, float]:
        """From when on requests for each shelf wait for its next release; infinity if no batch is full."""
        due = next_publication_of(connection, sorted(shelves), after=self._tried)
        return {shelf: at if self.waits(at) else math.inf for shelf, at in due.items()}

    def failed(self, at: float) -> None:
        """Count every release due by ``at``, on all shelves, as tried, so that nobody waits for releases that fail."""
        self._tried = max(self._tried, at)

    # When to look

    def look_soon(self) -> None:
        """Check what is due with the next chores, or slightly later while work is under way.

        Also check what others announced, unless this process releases.
        """
        self._look_in(SOON * (bool(self._releasing.busy) or self._beside.busy("release")))

    def _look_in(self, seconds: float) -> None:
        soon = time.monotonic() + seconds
        self._due_at = min(self._due_at, soon)
        if self._releasing.elsewhere:
            self.look_at = min(self.look_at, soon)

    def filled(self) -> None:
        """Check what is due with the next chores, because a batch was opened or filled here, but not too often."""
        self._due_at = min(self._due_at, max(time.monotonic(), self._looked_at + self.rest))

    def look(self) -> None:
        """Find out which release is next, apart from those under way, and when the next one is published."""
        with self._store.read() as connection:
            self._due_batches, (publication, self._made) = due_batches(connection), publications(connection)
        self._looks += 1
        self._looked_at, self._due_at = time.monotonic(), math.inf
        before, self.publication, self._asks = self.publication, publication, True
        still = publication is not None and (before == publication or publication <= self._stamp())
        self._late_since = self._late_since if still else None  # several late shelves in a row count as one wait
        gone = before is not None and (publication is None or before < publication)
        if before is not None and gone and before <= self._now():
            self.failed(before)  # published or gone: if it comes back, nobody waits for it
        self._choose()

    def _choose(self) -> None:
        """Of the batches found at the last look, choose the one due next, apart from those under way."""
        busy = self._releasing.busy
        self.due = min((at for place, at in self._due_batches.items() if place not in busy), default=None)

    def until_next(self) -> float:
        """Seconds until there is something to release, publish or check."""
        again = self._release_at if self._releasing.finished else math.inf
        now = self._now()
        due = None if self._beside.busy("release") else self.due
        later = [each for each in (self.publication,) if each is not None and each > now]
        looks = min(self.look_at, self._due_at, again) - time.monotonic()
        return min(looks, min(due or math.inf, *later, math.inf) - now)

    # What is done

    def go_on(self) -> None:
        """Continue releases that are due, and publish those whose time has come."""
        if time.monotonic() >= self._due_at:
            self.look()
        while not self._beside.busy("release") and self._to_release():
            self._cleaning.released()
            self._beside.ask("release", self._release, self._released)
        now = self._now()
        while self._asks and self.publication is not None and now >= self.publication:
            here = self._beside.busy("release") or self._releasing.late(now)
            if (not here or self._ready(now)) and self._releasing.publish():
                self.look()
            elif here and self._patient():
                break  # requests keep waiting until it is done
            else:
                self.failed(now)
                self._asks = False

    def at_once(self) -> None:
        """Continue with the next chores, because something was summed or drawn."""
        self._release_at = 0.0

    def _to_release(self) -> bool:
        """Whether a release is due, or a finished step is waiting to be continued."""
        due = self.due is not None and self._now() >= self.due
        return due or (self._releasing.finished and time.monotonic() >= self._release_at)

    def _release(self) -> tuple[bool, bool]:
        """Continue the releases; whether a batch was released or refused, and whether a finished step still waits."""
        done = self._releasing.release()
        return done, not done and self._releasing.finished

    def _released(self, found: tuple[bool, bool]) -> None:
        """Find out what is next; if no release was made, nothing is due that was not before."""
        done, waits = found
        self._release_at = time.monotonic() + SOON * waits
        if done:
            self.look()
        else:
            self._choose()
        if not done and self.due is not None:  # witnesses must note it first, or another process is at it
            self.due = None
            self._look_in(min(self._poll_seconds, SOON))

    def _ready(self, now: float) -> bool:
        """Whether some release was made by the last look, and its time has come."""
        return self._made is not None and now >= self._made

    def _patient(self) -> bool:
        """Whether requests should still wait for a late release, by this machine's own clock."""
        now = time.monotonic()
        self._late_since = now if self._late_since is None else self._late_since
        return now < self._late_since + PATIENCE
