"""Rounds stored as indices if visitors come from a table, otherwise as features.

A visitor from a table is one index, an assortment K more: T = 100,000 rounds at K = 10 take 5 MB; their features at d =
180 would take 1.4 GB. Fits read the indices (`choice.factored`); certificates, whose error bounds are about features,
recompute these a chunk at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quietshelf.model.choice import Fit
from quietshelf.model.choice.dense import CHUNK, Data
from quietshelf.model.choice.factored import Factored
from quietshelf.model.choice.fitting import fit_sums
from quietshelf.model.choice.tables import Drawn, VisitorTable
from quietshelf.model.types import NOTHING, FloatArray, IntArray, Round, integer, require
from quietshelf.privacy.release.certificate import Chunk, DenseVisits, Visits
from quietshelf.privacy.release.history import FIRST, History, StoredRounds
from quietshelf.privacy.statistics import ObservedChoice, clip

Numbers = NDArray[np.int32]
ROUNDED_UP = 1 + 5e-13
"""Lengths computed from the two sides of x, and from its rows, differ by less than this factor."""


@dataclass(frozen=True, eq=False)
class IndexedRounds:
    """All rounds of one world, with a leading axis of length one.

    Attributes:
        table: Visitors and items.
        visitor: Who came, (n,).
        items: What was shown, (n, K), -1 in empty places.
        position: The place chosen, (n,), or -1.
        clip: Radius to which features are clipped, and by which they are divided; None for no clipping.
    """

    table: VisitorTable
    visitor: Numbers
    items: Numbers
    position: Numbers
    clip: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(1, n, K, d)."""
        return (1, *self.items.shape, self.table.dim)

    @cached_property
    def longest(self) -> float:
        """The largest norm of a row, rounded up."""
        rounds, places = np.nonzero(self.items != NOTHING)
        length = self.table.lengths[self.visitor[rounds], self.items[rounds, places]].max(initial=0.0)
        return ROUNDED_UP * float(length if self.clip is None else min(length / self.clip, 1.0))

    def chunks(self) -> Iterator[Chunk]:
        """All rounds as features, some at a time."""
        count, places, dim = self.shape[1:]
        width = max(1, CHUNK // (places * dim))
        for begin in range(0, count, width):
            part = slice(begin, begin + width)
            rows = self.table.drawn(self.visitor[part]).rows(self.items[part])
            rows = rows if self.clip is None else clip(rows, self.clip)
            yield rows[None], self.position[None, part], (self.items[part] != NOTHING)[None]

    def fit(
        self,
        *,
        ridge: float,
        centre: FloatArray | None = None,
        linear: FloatArray | None = None,
        tol: float = 1e-9,
        start: ArrayLike | None = None,
    ) -> Fit:
        """`quietshelf.choice.fit`, from the indices."""
        came, visitor = np.unique(self.visitor, return_inverse=True)
        table = replace(self.table, visitors=self.table.visitors[came])
        factor = None if self.clip is None else 1.0 / np.maximum(table.lengths, self.clip)
        data = Factored(table, visitor, self.items, self.position, factor)
        return fit_sums(data, (1, table.dim), ridge, centre, linear, tol, start=start)


class IndexedHistory:
    """All rounds of all worlds as indices, growing one round at a time.

    Args:
        table: The table from which all visitors come.
        worlds: Leading axes of every round.
        capacity: K, the most places of an assortment.
        horizon: Rounds to make room for at once; more may come.
        clip: Radius to which features are clipped.
    """

    def __init__(
        self, table: VisitorTable, worlds: tuple[int, ...], capacity: int, *, horizon: int | None, clip: float | None
    ) -> None:
        self._table, self._worlds, self._clip, self._length = table, worlds, clip, 0
        room = FIRST if horizon is None else integer("horizon", horizon)
        # visitor, choice and places next to each other, so that a round is written at once
        self._numbers = np.full((math.prod(worlds), room, 2 + capacity), NOTHING, dtype=np.int32)

    def __len__(self) -> int:
        return self._length

    def append(self, seen: ObservedChoice, drawn: Drawn, assortment: IntArray) -> None:
        """Add one round of every world."""
        require(drawn.table is self._table, "all visitors of a history must come from one table")
        count, room = self._numbers.shape[:2]
        if self._length == room:
            self._numbers = np.concatenate([self._numbers, np.full_like(self._numbers, NOTHING)], axis=1)
        now = self._numbers[:, self._length]
        # parallel worlds may share a visitor
        now[:, 0] = np.broadcast_to(drawn.numbers, self._worlds).reshape(count)
        now[:, 1] = seen.position.reshape(count)
        places = assortment.shape[-1]
        now[:, 2 : 2 + places] = np.where(seen.offered, assortment, NOTHING).reshape(count, places)
        self._length += 1

    def parts(self, worlds: IntArray) -> Iterator[tuple[IntArray, IndexedRounds]]:
        """Yield worlds, given by flat index over all leading axes, one by one with all their rounds."""
        for place in range(worlds.size):
            numbers = self._numbers[worlds[place], : self._length]
            visitor, position, items = numbers[:, 0], numbers[:, 1], numbers[:, 2:]
            yield worlds[place : place + 1], IndexedRounds(self._table, visitor, items, position, self._clip)


class Memory:
    """All rounds of all worlds, as indices if the first visitor comes from a table, otherwise as features.

    Args:
        worlds: Leading axes of every round; () for one visitor at a time.
        capacity: K.
        dim: d.
        horizon: Rounds to make room for at once, if their number is known.
        clip: Radius to which appended features have been clipped; None if they have not.
    """

    def __init__(
        self, worlds: tuple[int, ...], capacity: int, dim: int, *, horizon: int | None, clip: float | None = None
    ) -> None:
        self._sizes = (worlds, capacity, dim)
        self._horizon, self._clip = horizon, clip
        self._kept: History | IndexedHistory | None = None

    def __len__(self) -> int:
        return 0 if self._kept is None else len(self._kept)

    def append(self, seen: ObservedChoice, round: Round) -> None:  # noqa: A002 - the noun on the arrow
        """Add one round of every world, as checked by a curator."""
        features = round.context.features
        if self._kept is None:
            self._kept = self._opened(features.table if isinstance(features, Drawn) else None)
        if isinstance(self._kept, History):
            self._kept.append(seen)
            return
        if not isinstance(features, Drawn):
            raise ValueError("all visitors of a history must come from one table")
        self._kept.append(seen, features, round.assortment)

    def extend(self, seen: ObservedChoice, rounds: Round) -> None:
        """Add several rounds of every world, along the first axis; visitors must not come from a table."""
        features = rounds.context.features
        require(not isinstance(features, Drawn), "visitors from a table must be kept one round at a time")
        if self._kept is None:
            self._kept = self._opened(None)
        if not isinstance(self._kept, History):
            raise ValueError("all visitors of a history must come from one table")
        self._kept.extend(seen)

    def parts(self, worlds: IntArray) -> Iterator[tuple[IntArray, StoredRounds | IndexedRounds]]:
        """Yield worlds with all their rounds, a suitable number at a time."""
        if self._kept is not None:
            yield from self._kept.parts(worlds)

    def _opened(self, table: VisitorTable | None) -> History | IndexedHistory:
        worlds, capacity, dim = self._sizes
        if table is None:
            return History(worlds, capacity, dim, horizon=self._horizon)
        return IndexedHistory(table, worlds, capacity, horizon=self._horizon, clip=self._clip)


def fit_rounds(rounds: StoredRounds | IndexedRounds, *, ridge: float, start: FloatArray) -> Fit:
    """The exact estimate, from rounds stored either way."""
    if isinstance(rounds, IndexedRounds):
        return rounds.fit(ridge=ridge, start=start)
    features, choice, available = rounds  # checked when they came
    data = Data(features, choice, available, outside=True)
    return fit_sums(data, start.shape, ridge, start=start)


def visits_of(rounds: StoredRounds | IndexedRounds) -> Visits:
    """Rounds stored either way, in the form that a private fit takes."""
    return rounds if isinstance(rounds, IndexedRounds) else DenseVisits(*rounds)
