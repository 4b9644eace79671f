"""Arrivals per minute: how many came, looked up every few seconds, kept for an hour. Presence is public, nothing else.

Reads ``arrivals`` of each shelf, one number a shelf, and the clock.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import pairwise

import sqlalchemy as sa

from quietshelf.service import logs, schema
from quietshelf.service.store import Store

SECONDS, MINUTE, MINUTES = 5.0, 60.0, 30


class Pulse:
    """A thread that looks, and what it saw since the process began."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: deque[tuple[float, dict[int, int]]] = deque(maxlen=int(2 * MINUTES * MINUTE / SECONDS))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quietshelf-pulse", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether it looks."""
        return self._thread.is_alive()

    def look(self) -> None:
        """One look at all shelves."""
        table = schema.shelves
        with self._store.read() as connection:
            rows = connection.execute(sa.select(table.c.shelf, schema.counted("arrivals"))).all()
            found = {row.shelf: row.arrivals for row in rows}
            self._seen.append((self._store.now(connection), found))

    def per_minute(self, shelf: int, now: float) -> list[int | None]:
        """Arrivals in each of the last thirty minutes, the present one last; None where nobody looked."""
        seen = [(moment, found.get(shelf, 0)) for moment, found in list(self._seen)]
        counts: list[int | None] = [None] * MINUTES
        for (before, few), (after, many) in pairwise(seen):
            age = int((now // MINUTE) - (after // MINUTE))
            if 0 <= age < MINUTES and after - before < MINUTE:
                counts[MINUTES - 1 - age] = (counts[MINUTES - 1 - age] or 0) + many - few
        return counts

    def recent(self, shelf: int, now: float) -> float | None:
        """Arrivals a minute over the last minute or so; None before two looks."""
        seen = [(moment, found.get(shelf, 0)) for moment, found in list(self._seen) if now - moment <= MINUTE + SECONDS]
        if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return None
        return (seen[-1][1] - seen[0][1]) * MINUTE / (seen[-1][0] - seen[0][0])

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except Exception as error:  # the database may be away for a while: the next look comes
                logs.failed("pulse", error)
            self._stop.wait(SECONDS)
