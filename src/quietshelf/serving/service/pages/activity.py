"""Arrivals, offers, response times and lateness minute by minute, sampled every few seconds and kept for an hour.

Reads the number of arrivals per shelf, the clock, when batches are due, and the counters of this process. Arrivals and
the schedule are public; answers are neither counted nor timed.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import sqlalchemy as sa

from quietshelf.serving.service import logs
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.metrics import Metrics
from quietshelf.serving.service.pages import status, traffic

SECONDS, MINUTE, MINUTES = 5.0, 60.0, 30


@dataclass(frozen=True)
class Look:
    """One sample: arrivals by shelf, offers answered within each limit, seconds by which a release was late."""

    moment: float
    arrivals: dict[int, int]
    offers: dict[float, float]
    late: float


class Activity:
    """A thread that takes samples, and the samples since the process started."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._seen: deque[Look] = deque(maxlen=int(2 * MINUTES * MINUTE / SECONDS))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quietshelf-activity", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def look(self) -> None:
        """Take one sample of all shelves."""
        table = schema.shelves
        with self._store.read() as connection:
            rows = connection.execute(sa.select(table.c.shelf, schema.counted("arrivals"))).all()
            arrivals = {row.shelf: row.arrivals for row in rows}
            now, batches = self._store.now(connection), status.open_batches(connection)
        late = max((status.lateness(each, now) for each in batches.values()), default=0.0)
        self._seen.append(Look(now, arrivals, traffic.offers(self._metrics), late))

    def per_minute(self, shelf: int, now: float) -> list[int | None]:
        """Arrivals in each of the last thirty minutes, the current one last; None for minutes without samples."""
        counts: list[int | None] = [None] * MINUTES
        for place, before, after in self._steps(now):
            came = after.arrivals.get(shelf, 0) - before.arrivals.get(shelf, 0)
            counts[place] = (counts[place] or 0) + came
        return counts

    def recent(self, shelf: int, now: float) -> float | None:
        """Arrivals per minute over the last minute or so; None before the second sample."""
        seen = [look for look in list(self._seen) if now - look.moment <= MINUTE + SECONDS]
        if len(seen) < 2 or seen[-1].moment <= seen[0].moment:
            return None
        came = seen[-1].arrivals.get(shelf, 0) - seen[0].arrivals.get(shelf, 0)
        return came * MINUTE / (seen[-1].moment - seen[0].moment)

    def offers(self, now: float) -> list[traffic.Minute | None]:
        """Offers that this process made in each of those minutes, and their response times."""
        found: list[dict[float, float] | None] = [None] * MINUTES
        for place, before, after in self._steps(now):
            made = found[place] = found[place] or defaultdict(float)
            for limit, seen in after.offers.items():
                made[limit] += seen - before.offers.get(limit, 0.0)
        return [None if made is None else traffic.minute(made) for made in found]

    def lateness(self, now: float) -> list[float | None]:
        """The worst lateness of a release in each of those minutes, in seconds."""
        worst: list[float | None] = [None] * MINUTES
        for place, before, after in self._steps(now):
            worst[place] = max(worst[place] or 0.0, before.late, after.late)
        return worst

    def _steps(self, now: float) -> Iterator[tuple[int, Look, Look]]:
        """Pairs of consecutive samples, with the minute of the later one. Pairs far apart are left out."""
        for before, after in pairwise(list(self._seen)):
            age = int((now // MINUTE) - (after.moment // MINUTE))
            if 0 <= age < MINUTES and after.moment - before.moment < MINUTE:
                yield MINUTES - 1 - age, before, after

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except Exception as error:  # the database may be unreachable for a while: the next sample tries again
                logs.failed("activity", error)
            self._stop.wait(SECONDS)
