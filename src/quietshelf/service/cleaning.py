"""What is deleted leaves the disk: rows of large batches piece by piece, and SQLite's log file after them."""

from __future__ import annotations

import math
import time

from quietshelf.service.forgetting import forget_more
from quietshelf.service.store import Store

RESTS = 3.0
"""How long nothing is deleted after a piece was, in the time that this took: visitors come first."""


class Cleaning:
    """The deletions of one process; ``pause``: seconds before another try where a reader is in the way."""

    def __init__(self, store: Store, *, pause: float) -> None:
        self._store, self._pause = store, pause
        self._at = 0.0  # what an earlier process deleted may still be in the log file
        self._more = True  # and it may have left rows
        self._next = 0.0

    def released(self) -> None:
        """A batch is gone, and may have left rows."""
        self._more, self._at = True, 0.0

    def soon(self) -> None:
        """The next chores empty the log file of what this transaction deletes."""
        self._at = 0.0

    def run(self) -> float:
        """Delete some of what is left; when to go on, by `time.monotonic`.

        An erasure brings nothing else forward: it is somebody's own act.
        """
        began = time.monotonic()
        if self._more and began >= self._next:
            with self._store.write() as connection:
                self._more = forget_more(connection)
            self._at, now = 0.0, time.monotonic()
            self._next = now + RESTS * (now - began)
        if not self._more and time.monotonic() >= self._at:
            pause = math.inf if self._store.checkpoint() else self._pause
            self._at = time.monotonic() + pause
        return self._next if self._more else self._at
