"""The items of a shelf in memory, kept up to date by reading only what changed in the database.

A few changes are read by the thread that needs them. Many changes, such as an upload of a million items, are read by a
separate thread; until it is done, visitors see the old items. So shelves do not wait for each other's catalogues.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from quietshelf.curation.stock import Stock
from quietshelf.model.choice.catalogue import BLOCK, Catalogue
from quietshelf.model.types import FloatArray, IntArray
from quietshelf.serving.service import logs
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.problems import Unavailable

T = TypeVar("T", bound=np.generic)

FEW = 2000
"""Most changes read right away: they take some hundredths of a second."""
PART = 1000
"""Rows held as rows at a time; the others are in arrays already."""
_items = schema.items
_CHANGED = (_items.c.shelf == sa.bindparam("of_shelf"), _items.c.version > sa.bindparam("after"),
            _items.c.version <= sa.bindparam("upto"))  # fmt: skip
_MANY = sa.select(_items.c.number).where(*_CHANGED).offset(FEW).limit(1)
_SINCE = sa.select(_items).where(*_CHANGED).order_by(_items.c.number)
_ALL = (
    sa.select(_items)
    .where(_items.c.shelf == sa.bindparam("of_shelf"), _items.c.number < sa.bindparam("count"))
    .order_by(_items.c.number)
)
_UNDER_WAY = sa.select(schema.uploads.c.base).where(
    schema.uploads.c.shelf == sa.bindparam("of_shelf"), schema.uploads.c.version.isnot(None)
)
_COUNT = sa.select(sa.func.max(_items.c.number)).where(_items.c.shelf == sa.bindparam("of_shelf"))


@dataclass(frozen=True, eq=False)
class ShelfItems:
    """The items of one shelf at one version.

    Attributes:
        shelf: Its number.
        version: Of the stock.
        limits: The shelf's limits; groups are numbered in their order.
        stock: The items as policies see them.
        ids: Item ids by item number.
        numbers: Item numbers by item id.
    """

    shelf: int
    version: int
    limits: dict[str, int]
    stock: Stock
    ids: tuple[str, ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)

    def serves(self, row: Row, limits: Mapping[str, int]) -> bool:
        """Whether these are items of this shelf under these limits, at any version."""
        return self.shelf == row["shelf"] and list(self.limits.items()) == list(limits.items())


def follow(connection: Connection, row: Row, limits: dict[str, int], before: ShelfItems | None) -> ShelfItems:
    """Read the items as they are now, reusing what has not changed in an earlier catalogue."""
    upto = row["stock_version"]
    if before is None or not before.serves(row, limits):
        before = ShelfItems(row["shelf"], -1, limits, stock_of([], limits))
        given: dict[str, Any] = {"of_shelf": row["shelf"], "count": visible(connection, row["shelf"])}
        parts = _parts(connection, _ALL, given)
    else:
        parts = _parts(connection, _SINCE, {"of_shelf": row["shelf"], "after": before.version, "upto": upto})
    return _with(before, parts, upto)


def counted(connection: Connection, shelf: int) -> int:
    """How many items a shelf has, including those of an upload being applied."""
    last = connection.execute(_COUNT, {"of_shelf": shelf}).scalar()
    return 0 if last is None else int(last) + 1


def visible(connection: Connection, shelf: int) -> int:
    """How many items visitors may see: those before an upload being applied."""
    base = connection.execute(_UNDER_WAY, {"of_shelf": shelf}).scalar()
    return counted(connection, shelf) if base is None else int(base)


def _parts(connection: Connection, query: sa.Select[Any], given: Mapping[str, Any]) -> Iterator[list[Row]]:
    found = connection.execute(query.execution_options(yield_per=PART), given)
    for part in found.mappings().partitions(PART):
        yield [dict(row) for row in part]


def _with(before: ShelfItems, parts: Iterator[list[Row]], version: int) -> ShelfItems:
    """Update the catalogue with current rows; new items come in the order of their numbers.

    Items are joined block by block, so that even a large catalogue is in memory only once and no step takes long.
    """
    count, stock, limits = len(before.ids), before.stock, before.limits
    added, waiting, ids = list[Stock](), 0, list[str]()
    for part in parts:
        known = [row for row in part if row["number"] < count]
        if known:
            stock = _patched(stock, known, limits)
        new = part[len(known) :]
        if new:
            assert new[0]["number"] == count + len(ids)  # noqa: S101 - numbers have no gaps
            ids += [row["id"] for row in new]
            added, waiting = [*added, stock_of(new, limits)], waiting + len(new)
        if waiting >= BLOCK:
            stock, added, waiting = _joined(stock, added), [], 0
    if not ids:
        return replace(before, stock=stock, version=version)
    numbers = dict(before.numbers)
    numbers.update(zip(ids, itertools.count(count)))  # all ids are new
    stock = _joined(stock, added)
    return replace(before, version=version, stock=stock, ids=(*before.ids, *ids), numbers=numbers)


def stock_of(rows: Sequence[Row], limits: Mapping[str, int]) -> Stock:
    """Rows of items as a `Stock`."""
    size = len(rows[0]["features"]) // 8 if rows else 0
    features = np.frombuffer(b"".join(row["features"] for row in rows)).reshape(len(rows), size)
    order = {name: number for number, name in enumerate(limits)}
    ranks = np.array([np.inf if row["rank"] is None else row["rank"] for row in rows], dtype=np.float64)

    def column(name: str, kind: Any) -> Any:
        return np.array([row[name] for row in rows], dtype=kind)

    return Stock(
        catalogue=Catalogue.of(np.asfortranarray(features)),
        revenue=column("revenue", np.float64),
        available=column("available", np.bool_),
        retired=column("retired", np.bool_),
        groups=np.array([order.get(row["group"], -1) for row in rows], dtype=np.int64) if limits else None,
        limits=np.array(list(limits.values()), dtype=np.int64) if limits else None,
        ranks=_or_none(ranks),
    )


def _joined(stock: Stock, more: Sequence[Stock]) -> Stock:
    """Concatenate stocks."""
    parts = [stock, *more] if len(stock) else [*more]
    if len(parts) <= 1:
        return parts[0] if parts else stock
    first, *others = [each.catalogue for each in parts if each.catalogue is not None]
    changes: dict[str, Any] = {"ranks": _or_none(np.concatenate([_ranks(each) for each in parts]))}
    for name in ("revenue", "available", "retired", *([] if stock.groups is None else ["groups"])):
        changes[name] = np.concatenate([getattr(each, name) for each in parts])
    return replace(parts[0], catalogue=first.with_more(np.concatenate([each[:] for each in others])), **changes)


def _patched(stock: Stock, rows: Sequence[Row], limits: Mapping[str, int]) -> Stock:
    """Update known items from these rows, copying only columns that change."""
    fresh, places = stock_of(rows, limits), np.array([row["number"] for row in rows])
    changes: dict[str, Any] = {}
    for name in ("catalogue", "revenue", "available", "retired", "groups"):
        before, now = getattr(stock, name), getattr(fresh, name)
        if before is not None and not np.array_equal(before[places], now):
            changes[name] = before.with_rows(places, now[:]) if name == "catalogue" else _with_at(before, places, now)
    ranks = _ranks(stock)
    if not np.array_equal(ranks[places], _ranks(fresh)):
        changes["ranks"] = _or_none(_with_at(ranks, places, _ranks(fresh)))
    return replace(stock, **changes) if changes else stock


def _with_at(array: NDArray[T], places: IntArray, values: NDArray[T]) -> NDArray[T]:
    changed = array.copy()
    changed[places] = values
    return changed


def _ranks(stock: Stock) -> FloatArray:
    return np.full(len(stock), np.inf) if stock.ranks is None else stock.ranks


def _or_none(ranks: FloatArray) -> FloatArray | None:
    """Every item's place in the present ranking; None if no item has one."""
    return ranks if np.isfinite(ranks).any() else None


class Catalogues:
    """Reads large catalogues in a thread of its own, so that the writer never waits for them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._ready: dict[int, ShelfItems] = {}
        self._reading: set[int] = set()
        self._thread = ThreadPoolExecutor(1, "quietshelf-catalogues")

    def follow(self, connection: Connection, row: Row, limits: dict[str, int], before: ShelfItems | None) -> ShelfItems:
        """The current items or, while many changes are being read, the previous ones under the previous limits."""
        newest = self._newest(row, limits, before)
        given = {"of_shelf": row["shelf"], "after": -1 if newest is None else newest.version}
        if connection.execute(_MANY, {**given, "upto": row["stock_version"]}).first() is None:
            return follow(connection, row, limits, newest)
        self._begin(row, limits)
        if newest is not None and newest.ids:
            return newest
        if before is not None and before.ids and before.shelf == row["shelf"]:
            return replace(before, version=-1)  # other limits: the next look tries again
        raise Unavailable("the items of this shelf are being read; try again in a few seconds")

    def read(self, row: Row, limits: dict[str, int]) -> None:
        """Read a shelf's items now, so that the next `follow` finds them."""
        before = self._newest(row, limits, None)
        with self._store.read() as connection:
            found = follow(connection, _now(connection, row), limits, before)
        with self._lock:
            self._ready[row["shelf"]] = found

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _newest(self, row: Row, limits: dict[str, int], before: ShelfItems | None) -> ShelfItems | None:
        with self._lock:
            ready = self._ready.get(row["shelf"])
            if before is not None and ready is not None and before.version >= ready.version:
                del self._ready[row["shelf"]]
        found = [each for each in (before, ready) if each is not None and each.serves(row, limits)]
        return max(found, key=lambda each: each.version) if found else None

    def _begin(self, row: Row, limits: dict[str, int]) -> None:
        with self._lock:
            if row["shelf"] in self._reading:
                return
            self._reading.add(row["shelf"])
        self._thread.submit(self._run, row, limits)

    def _run(self, row: Row, limits: dict[str, int]) -> None:
        try:
            self.read(row, limits)
        except Exception as error:  # the next request tries again
            logs.failed("reading items", error)
        finally:
            with self._lock:
                self._reading.discard(row["shelf"])


def _now(connection: Connection, row: Row) -> Row:
    table = schema.shelves
    query = sa.select(table.c.stock_version).where(table.c.shelf == row["shelf"])
    return {**row, "stock_version": connection.execute(query).scalar_one()}
