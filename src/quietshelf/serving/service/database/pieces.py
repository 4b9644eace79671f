"""Large work is done in pieces that take about the same time each, whatever the machine: nobody waits long for one."""

from __future__ import annotations


class Piece:
    """How many rows the next piece has.

    Args:
        first: Rows of the first one.
        most: Rows of the largest: what memory it may take.
        seconds: How long one should take.
    """

    LEAST = 16

    def __init__(self, first: int, most: int, seconds: float) -> None:
        self.rows, self._most, self._seconds = min(first, most), most, seconds

    def took(self, rows: int, seconds: float) -> None:
        """So many rows took so long: the next piece is smaller if that was too long, and at most twice as large if not.

        Fewer rows than were asked for say nothing about larger pieces.
        """
        if rows >= self.rows or seconds > self._seconds:
            goal = int(rows * min(2.0, self._seconds / max(seconds, 1e-9)))
            self.rows = min(self._most, max(self.LEAST, goal))
