"""Item features in blocks: a change copies the block it touches and shares all others with the old catalogue.

A block holds the features of up to `BLOCK` items in double precision, column by column, and on demand a copy in single
precision for screening (`choice.screening`). A change in another block leaves both untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.choice.device import Device, Resident, find_device
from quietshelf.model.types import FloatArray, IntArray, as_float, require

T = TypeVar("T")
Single = NDArray[np.float32]
BLOCK = 16384
"""Items per block: enough to hide the overhead of a call, few enough to copy at every change."""


@dataclass(frozen=True, eq=False)
class Block:
    """Features of some items, immutable.

    Attributes:
        columns: (d2, n), n up to `BLOCK`.
    """

    columns: FloatArray

    @cached_property
    def single(self) -> Single:
        """The columns in single precision, contiguous along the items."""
        with np.errstate(over="ignore"):  # a catalogue with numbers this large is not screened
            return np.ascontiguousarray(self.columns, dtype=np.float32)

    @cached_property
    def reach(self) -> float:
        """The largest ``|(1, v)|`` of an item; infinite where its square overflows."""
        square = np.ones(self.columns.shape[1])
        with np.errstate(over="ignore"):
            for column in self.columns:
                square += column * column
        return float(np.sqrt(square.max(initial=1.0)))


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Item features (N, d2), read like an array; every change makes another catalogue.

    Attributes:
        blocks: Of `BLOCK` items each, except the last.
        shape: (N, d2).
        shared: A cache common to all versions of this catalogue; its entries do not depend on the items.
        device: Where bounds are computed; None for the CPU.

    >>> made = Catalogue.of(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> made.with_row(0, np.zeros(2)).with_more(np.ones((1, 2)))[:]
    array([[0., 0.], [3., 4.], [1., 1.]])
    >>> made[1]
    array([3., 4.])
    """

    blocks: tuple[Block, ...]
    shape: tuple[int, int]
    shared: dict[str, Any] = field(default_factory=dict, repr=False)
    device: Device | None = None

    @classmethod
    def of(cls, features: FloatArray | Catalogue) -> Catalogue:
        """Make a catalogue of features (N, d2). A small array is used in place: do not change it afterwards."""
        if isinstance(features, Catalogue):
            return features
        array = as_float("catalogue", features)
        require(array.ndim == 2, "catalogue must have shape (N, item features)", shape=array.shape)
        return cls(tuple(_blocks(array.T)), array.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, items: int | slice | IntArray) -> FloatArray:
        """The features of one item, (d2,), of a range, (n, d2), or of given items (...), (..., d2)."""
        if isinstance(items, slice):
            items = np.arange(len(self))[items]
        if len(self.blocks) == 1:
            return self.blocks[0].columns.T[items]
        index = np.asarray(items)
        rows = self.columns(index.ravel() % len(self)).T
        return np.ascontiguousarray(rows).reshape(*index.shape, self.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The whole catalogue as one array, in column order."""
        if copy is False and len(self.blocks) > 1:
            raise ValueError("a catalogue of several blocks must be copied into one array, got copy=False")
        parts = [block.columns for block in self.blocks]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return np.array(whole.T, dtype=dtype, copy=copy, order="K")

    def starts(self) -> Iterator[tuple[int, Block]]:
        """The number of the first item of each block, and the block."""
        return zip(range(0, max(len(self), 1), BLOCK), self.blocks, strict=True)

    def on(self, device: str) -> Catalogue:
        """The same catalogue with its bounds computed on that device."""
        return replace(self, device=find_device(device))

    @cached_property
    def resident(self) -> Resident | None:
        """The copy on the device; None without a device."""
        return None if self.device is None else Resident(self.device, [block.single for block in self.blocks])

    @cached_property
    def reach(self) -> float:
        """The largest ``|(1, v)|`` of an item."""
        return max(block.reach for block in self.blocks)

    def columns(self, items: IntArray, *, single: bool = False) -> NDArray[Any]:
        """The features of given items (n,), in any order, as (d2, n), in double or single precision."""
        found = np.empty((self.shape[1], items.size), dtype=np.float32 if single else np.float64)
        number = items // BLOCK
        place = items - number * BLOCK  # several times as fast as `divmod` and fancy indexing
        cuts = [0, *(np.flatnonzero(number[1:] != number[:-1]) + 1).tolist(), items.size]
        for start, stop in pairwise(cuts) if items.size else ():  # runs of items in one block: few if items ascend
            block = self.blocks[number[start]]
            found[:, start:stop] = (block.single if single else block.columns).take(place[start:stop], axis=1)
        return found

    def with_row(self, item: int, row: FloatArray) -> Catalogue:
        """Replace the features of one item."""
        return self.with_rows(np.array([item]), row[None])

    def with_rows(self, items: IntArray, rows: FloatArray) -> Catalogue:
        """Replace the features of items (n,) by rows (n, d2): copies only the blocks that hold them."""
        blocks, (number, place) = list(self.blocks), np.divmod(items, BLOCK)
        for each in np.unique(number).tolist():
            mine = number == each
            columns = blocks[each].columns.copy(order="C")
            columns[:, place[mine]] = rows[mine].T
            blocks[each] = Block(columns)
        changed = replace(self, blocks=tuple(blocks))
        resident = self.__dict__.pop("resident", None)
        if resident is not None:  # the one copy on the device follows the last change
            resident.change(items, rows.T.astype(np.float32))
            changed.__dict__["resident"] = resident
        return changed

    def with_more(self, rows: FloatArray) -> Catalogue:
        """Append items with features (n, d2)."""
        full = len(self) // BLOCK
        rest = [block.columns for block in self.blocks[full:]]
        added = _blocks(np.concatenate([*rest, rows.T], axis=1))
        return replace(self, blocks=(*self.blocks[:full], *added), shape=(len(self) + len(rows), self.shape[1]))


def kept(holder: object, owner: object, make: Callable[[], T]) -> T:
    """What ``make`` computes from ``holder`` for an owner, cached on the holder until another owner asks."""
    held: tuple[object, T] | None = holder.__dict__.get("kept")
    if held is None or held[0] is not owner:
        held = holder.__dict__["kept"] = (owner, make())
    return held[1]


def _blocks(columns: FloatArray) -> Iterator[Block]:
    """Split features (d2, N) into blocks; several blocks are copies, so that none keeps the whole array in memory."""
    items = columns.shape[1]
    if items <= BLOCK:
        yield Block(columns)
        return
    for start in range(0, items, BLOCK):
        yield Block(np.ascontiguousarray(columns[:, start : start + BLOCK]))
