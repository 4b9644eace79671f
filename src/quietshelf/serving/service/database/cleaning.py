"""Removes deleted data from the disk: rows of large batches piece by piece, then SQLite's log file.

It runs beside the writer (`work.Beside`), which asks for it. Visitors wait for one piece at most.
"""

from __future__ import annotations

import math
import time

from quietshelf.serving.service.database import forgetting
from quietshelf.serving.service.database.pieces import Piece
from quietshelf.serving.service.database.store import Store

RESTS = 3.0
"""Pause after each piece, as a multiple of the time the piece took: visitors come first."""
SECONDS, MOST = 0.02, 2048
"""How long a piece should take, and its most rows."""
OFTEN = 1.0
"""Seconds between two checkpoints of SQLite's log file."""


class Cleaning:
    """The clean-up of one process; ``pause``: seconds before another try if a reader is in the way."""

    def __init__(self, store: Store, *, pause: float) -> None:
        self._store, self._pause = store, pause
        self._piece = Piece(forgetting.PIECE, MOST, SECONDS)
        self._full = True  # what an earlier process deleted may still be in the log file
        self._more = True  # and it may have left rows
        self._next = 0.0

    def released(self) -> None:
        """Note that a batch is gone and may have left rows."""
        self._more = self._full = True

    def soon(self) -> None:
        """Empty the log file next, because this transaction deletes something."""
        self._full, self._next = True, 0.0

    def at(self) -> float:
        """When to run next, by `time.monotonic`."""
        waits = self._more or self._full or (self._store.sqlite and self._store.written)
        return self._next if waits else math.inf

    def run(self) -> None:
        """Delete one piece, and checkpoint the log file.

        An erasure must not hasten anything else, since it is private.
        """
        began = time.monotonic()
        more, full, self._more, self._full = self._more, self._full, False, False  # so none made meanwhile is lost
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
