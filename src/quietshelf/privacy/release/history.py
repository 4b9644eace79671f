"""The raw rounds kept by curators whose estimates read all of them again.

The store holds what was shown and chosen, (worlds, rounds, K, d), and passes it to `fit` without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.choice.dense import NEAR
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray, Round, finite, integer, require
from quietshelf.privacy.statistics import ObservedChoice, observed_choice

Number = TypeVar("Number", bound=np.generic)
FIRST = 256
"""Initial room, in rounds; it doubles when it is used up."""
BESIDE = 8 * NEAR
"""The most numbers in histories fitted together, so that they stay in the cache."""
WAITING = 64
"""Rounds collected before they are stored together."""


def contributing(
    round: Round,  # noqa: A002 - the noun on the arrow
    *,
    worlds: tuple[int, ...],
    capacity: int,
    dim: int,
    largest: float = math.inf,
) -> ObservedChoice:
    """Check what each world's visitor saw and did; visitors who do not count become an empty offer.

    Args:
        round: One visitor per world.
        worlds: The required leading axes.
        capacity: The most places allowed.
        dim: The required length of features.
        largest: The largest absolute value allowed for a feature.
    """
    seen = observed_choice(round)
    require(seen.position.shape == worlds, f"a round must have the leading axes {worlds}", shape=seen.position.shape)
    places, length = seen.rows.shape[-2:]
    require(places <= capacity, f"an assortment must have at most capacity={capacity} places", places=places)
    require(length == dim, f"features must have dim={dim}", length=length)
    rows = finite("features", seen.rows)
    if largest < math.inf:
        size = float(np.abs(rows).max(initial=0.0))
        require(size <= largest, f"features must be at most {largest:g} in size", size=size)
    if round.counts is None:
        return seen
    return ObservedChoice(
        np.where(round.counts[..., None, None], seen.rows, 0.0),
        seen.offered & round.counts[..., None],
        np.where(round.counts, seen.position, NOTHING),
    )


def rounds_until(due: BoolArray) -> int:
    """The number of rounds up to the first after which a fit is due, given (rounds, ...)."""
    some = due.reshape(len(due), -1).any(-1)
    return int(some.argmax()) + 1 if some.any() else len(due)


class StoredRounds(NamedTuple):
    """Stored rounds as `fit` takes them: features (..., n, K, d), choice (..., n), available (..., n, K) or None."""

    features: FloatArray
    choice: NDArray[np.int32]
    available: BoolArray | None


class History:
    """All rounds of all worlds, growing one round at a time.

    >>> history = History((), capacity=2, dim=1)
    >>> history.append(ObservedChoice(np.array([[0.5], [1.0]]), np.array([True, True]), np.array(1)))
    >>> ((_, rounds),) = history.parts(np.array([0]))
    >>> len(history), rounds.features.tolist(), rounds.choice.tolist()
    (1, [[[[0.5], [1.0]]]], [[1]])

    Args:
        worlds: Leading axes of every round; () for one visitor at a time.
        capacity: K, the most places of an assortment.
        dim: d.
        horizon: Rounds to make room for at once, if their number is known; more may come.
    """

    def __init__(self, worlds: tuple[int, ...], capacity: int, dim: int, *, horizon: int | None = None) -> None:
        self._count = math.prod(worlds)
        self._length = 0
        self._full = True
        self._waiting: list[ObservedChoice] = []
        self._unstored = 0
        room = FIRST if horizon is None else integer("horizon", horizon)
        self._features = np.zeros((self._count, room, integer("capacity", capacity), integer("dim", dim)))
        self._available = np.zeros((self._count, room, capacity), dtype=bool)
        self._choice = np.zeros((self._count, room), dtype=np.int32)

    def __len__(self) -> int:
        return self._length + self._unstored

    def append(self, seen: ObservedChoice) -> None:
        """Add one round of every world: rows (*worlds, J, d) for some J <= K; places beyond J stay empty."""
        self.extend(ObservedChoice(seen.rows[None], seen.offered[None], seen.position[None]))

    def extend(self, seen: ObservedChoice) -> None:
        """Add several rounds of every world, along the first axis."""
        if self._waiting and seen.rows.shape[1:] != self._waiting[0].rows.shape[1:]:
            self._store()
        self._waiting.append(seen)
        self._unstored += len(seen.position)
        if self._unstored >= WAITING:
            self._store()

    def _store(self) -> None:
        """Write the collected rounds together: worlds are far apart in memory, and each is then visited once."""
        if not self._waiting:
            return
        begin, end = self._length, len(self)
        while end > self._features.shape[1]:
            self._features = _longer(self._features)
            self._available = _longer(self._available)
            self._choice = _longer(self._choice)
        rows, offered, position = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        many, places, dim = len(rows), *rows.shape[-2:]
        full = places == self._features.shape[2] and bool(offered.all())
        if self._full and not full:
            self._available[:, :begin] = True
        self._full = self._full and full
        self._features[:, begin:end, :places] = rows.reshape(many, self._count, places, dim).swapaxes(0, 1)
        self._choice[:, begin:end] = position.reshape(many, self._count).T
        if not self._full:
            self._available[:, begin:end, :places] = offered.reshape(many, self._count, places).swapaxes(0, 1)
        self._length, self._unstored = end, 0
        self._waiting.clear()

    def parts(self, worlds: IntArray) -> Iterator[tuple[IntArray, StoredRounds]]:
        """Yield worlds, given by flat index over all leading axes, with all their rounds: a few worlds at a time.

        Short histories come together, long ones one by one. No more than one chunk of rounds is copied, and `fit` sums
        a world in the same order whichever worlds are fitted with it.
        """
        numbers = max(1, len(self) * self._features.shape[2] * self._features.shape[3])
        width = max(1, BESIDE // numbers)
        for begin in range(0, worlds.size, width):
            group = worlds[begin : begin + width]
            yield group, self._of(slice(group[0], group[0] + 1) if group.size == 1 else group)

    def _of(self, worlds: slice | IntArray) -> StoredRounds:
        self._store()
        n = self._length
        available = None if self._full else self._available[worlds, :n]
        return StoredRounds(self._features[worlds, :n], self._choice[worlds, :n], available)


def _longer(array: NDArray[Number]) -> NDArray[Number]:
    """Double the room; zeros take up no memory until they are written to."""
    longer = np.zeros((array.shape[0], 2 * array.shape[1], *array.shape[2:]), dtype=array.dtype)
    longer[:, : array.shape[1]] = array
    return longer
