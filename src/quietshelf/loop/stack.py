"""Contestants with the same policy, served together: an axis of contestants before that of the worlds.

Each gets, to the last bit, what it would get alone; only the calls are fewer. Each keeps a curator of its own, or
shares one that works for several at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from quietshelf.statistics import CutRound, Shown, shown
from quietshelf.types import Curator, FloatArray, Release, Round


class Seat(NamedTuple):
    """A curator, and the contestants of the stack it works for: one by its number, or a slice of several."""

    curator: Curator
    place: int | slice


@dataclass(frozen=True)
class Joined(Release):
    """Releases of several contestants side by side; what one of them has worked out is not worked out again."""

    parts: tuple[Release, ...] = ()

    @cached_property
    def covariance(self) -> FloatArray:
        """The inverse of ``precision``."""
        covariance: FloatArray = _beside(self.parts, "covariance")
        return covariance


class Stack:
    """A curator for several contestants, made of theirs; their places, in order, fill the first axis."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._release = _joined(tuple(seat.curator.release for seat in seats))

    @property
    def release(self) -> Release:
        """The last releases of all."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Let every curator learn from its own contestants' rounds."""
        seen = shown(round)
        return self._with(tuple(seat.curator.observe(_part(round, seen, seat.place)) for seat in self._seats))

    @property
    def steady(self) -> int:
        """For how many rounds none of the releases changes."""
        return min(getattr(seat.curator, "steady", 1) for seat in self._seats)

    def observe_rounds(self, rounds: Round) -> Release:
        """The same for several rounds at once, along the first axis."""
        seen, curators = shown(rounds), [(cast("Any", seat.curator), seat.place) for seat in self._seats]
        return self._with(tuple(one.observe_rounds(_part(rounds, seen, np.s_[:, place])) for one, place in curators))

    @property
    def foresee(self) -> Callable[[Round], Release] | None:
        """The next releases of all, if each curator can tell its own."""
        able = all(getattr(seat.curator, "foresee", None) is not None for seat in self._seats)
        return self._foreseen if able else None

    def _foreseen(self, offered: Round) -> Release:
        seen, curators = shown(offered), [(cast("Any", seat.curator), seat.place) for seat in self._seats]
        parts = [one.foresee(_part(offered, seen, np.s_[:, place])) for one, place in curators]
        return Release(**{name: _beside(parts, name, 1) for name in Release.arrays})

    def _with(self, parts: tuple[Release, ...]) -> Release:
        if any(new is not old for new, old in zip(parts, self._release.parts, strict=True)):
            self._release = _joined(parts)
        return self._release


def _part(round: Round, seen: Shown, place: Any) -> Round:  # noqa: A002 - the noun on the arrow
    rows, offered, position = seen
    own = Shown(rows[place], offered[place], position[place])
    return CutRound(round.context, round.assortment[place], round.choice[place], seen=own)


def _joined(parts: tuple[Release, ...]) -> Joined:
    return Joined(**{name: _beside(parts, name) for name in Release.arrays}, parts=parts)


def _beside(parts: Sequence[Release], name: str, axis: int = 0) -> Any:
    """A field of all releases along an axis, which that of a single contestant gets."""
    own = [getattr(part, name) for part in parts]
    full = [
        array if part.count.ndim > axis + 1 else np.expand_dims(array, axis)
        for array, part in zip(own, parts, strict=True)
    ]
    if len(full) == 1:
        return full[0]
    shortest = min(map(len, full)) if axis else None
    return np.concatenate([array[:shortest] for array in full], axis)
