"""What is deleted leaves the disk: rows of large batches piece by piece, and SQLite's log file after them.

All of it beside the writer (`work.Beside`), which says what there is to do: visitors wait for a piece at most.
"""

from __future__ import annotations

import math
import time

from quietshelf.serving.service.database import forgetting
from quietshelf.serving.service.database.pieces import Piece
from quietshelf.serving.service.database.store import Store

RESTS = 3.0
"""How long nothing is deleted after a piece was, in the time that this took: visitors come first."""
SECONDS, MOST = 0.02, 2048
"""How long a piece should take, and the most rows it has."""
OFTEN = 1.0
"""Seconds between two times that what was written is moved out of SQLite's log file."""


class Cleaning:
    """The deletions of one process; ``pause``: seconds before another try where a reader is in the way."""

    def __init__(self, store: Store, *, pause: float) -> None:
        self._store, self._pause = store, pause
        self._piece = Piece(forgetting.PIECE, MOST, SECONDS)
        self._full = True  # what an earlier process deleted may still be in the log file
        self._more = True  # and it may have left rows
        self._next = 0.0

    def released(self) -> None:
        """A batch is gone, and may have left rows."""
        self._more = self._full = True

    def soon(self) -> None:
        """The log file is emptied of what this transaction deletes, at once."""
        self._full, self._next = True, 0.0

    def at(self) -> float:
        """When there is something to do next, by `time.monotonic`."""
        waits = self._more or self._full or (self._store.sqlite and self._store.written)
        return self._next if waits else math.inf

    def run(self) -> None:
        """Delete some of what is left.

        An erasure brings nothing else forward: it is somebody's own act.
        """
        began = time.monotonic()
        more, full, self._more, self._full = self._more, self._full, False, False  # what is said meanwhile is not lost
        try:
            if more:
                more = self._delete()
            moved = self._store.checkpoint(empty=full and not more)
        except Exception:
            self._more = self._full = True
            raise
        self._more |= more
        self._full |= more or (full and not moved)
        now = time.monotonic()
        rest = RESTS * (now - began)
        self._next = now + (rest if more else max(rest, OFTEN if moved else self._pause))

    def _delete(self) -> bool:
        began = time.monotonic()
        with self._store.write() as connection:
            slots = forgetting.forget_more(connection, self._piece.rows)
        self._piece.took(slots, time.monotonic() - began)
        return slots > 0
