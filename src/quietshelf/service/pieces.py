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
        self.rows, self._most, self._seconds = max(1, min(first, most)), most, seconds

    def took(self, seconds: float) -> None:
        """A piece took so long: the next one is smaller if that was too long, and at most twice as large if not."""
        goal = self.rows * min(2.0, self._seconds / max(seconds, 1e-9))
        self.rows = max(1, min(self._most, max(self.LEAST, int(goal))))
