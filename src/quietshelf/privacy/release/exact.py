"""The common base of curators that learn without noise. They promise nothing: their ledger reads infinite."""

from __future__ import annotations

import math
from collections.abc import Callable

from quietshelf.model.types import Release, Round, integer, positive
from quietshelf.privacy.accounting import HISTORY, Assumption, Event, Ledger
from quietshelf.privacy.release.history import contributing
from quietshelf.privacy.statistics import ObservedChoice

LARGEST = 1e6
"""Larger features are refused: next to their squares float64 would lose the ridge, and so the inverse."""
Radius = float | Callable[[int], float]
"""The optimism of a release: a number, or a function of the number t of the visitor it is for, from 1."""


def exact_ledger(name: str) -> Ledger:
    """The ledger of a curator that releases estimates of raw data without noise: rho is infinite.

    >>> exact_ledger("estimate").rho
    inf
    """
    return Ledger().spend(
        Event(
            name=name,
            batch=HISTORY,
            sensitivity=math.inf,
            noise=0.0,
            rho=math.inf,
            assumption=Assumption.REAL_ARITHMETIC,
        )
    )


class Exact:
    """Holds a release and its optimism, and checks rounds before anything is learnt from them.

    Args:
        worlds: Leading axes of every round; () for one visitor at a time.
        capacity: K.
        dim: d.
        radius: Optimism of the releases.
    """

    _release: Release

    def __init__(self, worlds: tuple[int, ...], capacity: int, dim: int, radius: Radius) -> None:
        self._shape = (worlds, integer("capacity", capacity), integer("dim", dim))
        self._radius = radius if callable(radius) else positive("radius", radius, zero=True)

    @property
    def release(self) -> Release:
        """The last release; theta = 0 and precision = ridge I before the first."""
        return self._release

    def _seen(self, round: Round, rounds: tuple[int, ...] = ()) -> ObservedChoice:  # noqa: A002 - the noun on the arrow
        """What was shown and chosen, checked; ``rounds`` is the axis of rounds, if there is one."""
        worlds, capacity, dim = self._shape
        return contributing(round, worlds=(*rounds, *worlds), capacity=capacity, dim=dim, largest=LARGEST)

    def _width(self, rounds: int) -> float:
        """The radius for the visitor after ``rounds`` rounds."""
        return self._radius(rounds + 1) if callable(self._radius) else self._radius
