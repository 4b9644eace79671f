"""What curators that learn without noise have in common."""

from __future__ import annotations

from quietshelf.release.history import LARGEST, contributing
from quietshelf.statistics import Shown
from quietshelf.types import Release, Round, whole


class Exact:
    """A release, and rounds that are checked before anything is learnt from them.

    Args:
        worlds: Leading axes of every round; () for one visitor at a time.
        capacity: K.
        dim: d.
    """

    _release: Release

    def __init__(self, worlds: tuple[int, ...], capacity: int, dim: int) -> None:
        self._shape = (worlds, whole("capacity", capacity), whole("dim", dim))

    @property
    def release(self) -> Release:
        """The last release; theta = 0 and precision = ridge I before the first."""
        return self._release

    def _seen(self, round: Round) -> Shown:  # noqa: A002 - the noun on the arrow
        worlds, capacity, dim = self._shape
        return contributing(round, worlds=worlds, capacity=capacity, dim=dim, largest=LARGEST)
