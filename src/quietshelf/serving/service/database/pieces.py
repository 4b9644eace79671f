"""Splits large work into pieces that take about equally long on any machine, so that nobody waits long."""

from __future__ import annotations


class Piece:
    """The size of the next piece, in rows.

    Args:
        first: Rows in the first piece.
        most: Rows in the largest, to bound memory.
        seconds: How long a piece should take.
    """

    LEAST = 16

    def __init__(self, first: int, most: int, seconds: float) -> None:
        self.rows, self._most, self._seconds = min(first, most), most, seconds

    def took(self, rows: int, seconds: float) -> None:
        """Adapt the size after a piece: smaller if it took too long, otherwise up to twice as large.

        A piece with fewer rows than asked for says nothing about larger ones.
        """
        if rows >= self.rows or seconds > self._seconds:
            goal = int(rows * min(2.0, self._seconds / max(seconds, 1e-9)))
            self.rows = min(self._most, max(self.LEAST, goal))
