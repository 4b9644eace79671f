"""Caches what open batches froze, so that arrays that never change are read once and not for every visitor.

The key includes the time the batch was opened, since a lost commit may free a number that is then used again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from quietshelf.curation.batches import Batch
from quietshelf.curation.fields import batch_from
from quietshelf.model.types import FloatArray
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.lookup import Keyed

_ARRAYS = ("theta", "coordinates", "expected")
MOVING = tuple(column.name for column in schema.batches.columns if column.name not in _ARRAYS)
"""Columns that every transaction reads of a batch; `FrozenBatches` caches the others."""
_WIDE = Keyed(schema.batches, ("shelf", "batch"), take=("shelf", "batch", "opened_at", *_ARRAYS))
_MOST = 64 * 2**20
"""Most bytes cached."""
Arrays = dict[str, FloatArray]
Place = tuple[int, int, float]
"""Number of a shelf, of its batch, and when the batch was opened."""


class FrozenBatches:
    """The arrays of recently used batches, for the writer's thread only."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._size = most, 0
        self._known: dict[Place, Arrays] = {}
        self._fresh: dict[Place, Arrays] = {}

    def batches(self, connection: Connection, rows: Sequence[Row]) -> dict[tuple[int, int], Batch]:
        """Complete rows, which must hold at least the columns `MOVING`, to batches, in order, by shelf and number.

        Batches that another process has deleted since are left out.
        """
        places = [_place(row) for row in rows]
        missing = {place[:2]: place for place in places if not self._has(place)}
        for row in _WIDE.rows(connection, sorted(missing)):
            if _place(row) == missing[row["shelf"], row["batch"]]:
                self._fresh[_place(row)] = {name: _unpacked(row[name]) for name in _ARRAYS}
        there = [(row, place) for row, place in zip(rows, places, strict=True) if self._has(place)]
        return {place[:2]: batch_from({**row, **self._used(place)}) for row, place in there}

    def settled(self, committed: bool) -> None:
        """Keep what a committed transaction read; one that failed may have opened those batches itself."""
        for place, arrays in self._fresh.items() if committed else ():
            self._known[place] = arrays
            self._size += _bytes(arrays)
        self._fresh = {}
        while self._size > self._most:
            self._size -= _bytes(self._known.pop(next(iter(self._known))))

    def _has(self, place: Place) -> bool:
        return place in self._known or place in self._fresh

    def _used(self, place: Place) -> Arrays:
        """Its arrays, marked as used most recently."""
        if place in self._fresh:
            return self._fresh[place]
        self._known[place] = arrays = self._known.pop(place)
        return arrays


def _place(row: Row) -> Place:
    return row["shelf"], row["batch"], row["opened_at"]


def _unpacked(content: bytes) -> FloatArray:
    """A read-only array from a row."""
    return np.frombuffer(content, dtype=np.float64)


def _bytes(arrays: Arrays) -> int:
    return sum(each.nbytes for each in arrays.values())
