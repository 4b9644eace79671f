"""The items of a shelf: features (if the shelf knows them), revenue, group, and availability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.data.tables.cells import as_id
from quietshelf.model.assortment import checks
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.device import find_device
from quietshelf.model.types import BoolArray, FloatArray, Id, IntArray, finite, require


@dataclass(frozen=True, eq=False)
class Stock:
    """N items; the index of an item never changes.

    Attributes:
        catalogue: Item features (N, d2); None if each offer brings the features of every item.
        revenue: Revenue of each item if chosen, (N,), unless the offer says otherwise.
        available: Items that may be shown, (N,).
        retired: Items that will not be shown again, (N,).
        groups: Group of each item, (N,), -1 for none; None without groups.
        limits: The most items shown per group, (G,).
        ranks: Place of each item in the shop's present ranking, (N,), infinite for items not in it; None without one.
        ids: The shop's id of each item, (N,); None if items are named by index.
        group_names: The shop's name of each group, (G,); None if groups are named by number.
    """

    catalogue: Catalogue | None
    revenue: FloatArray
    available: BoolArray
    retired: BoolArray
    groups: IntArray | None
    limits: IntArray | None
    ranks: FloatArray | None = None
    ids: tuple[Id, ...] | None = None
    group_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, items: int, catalogue: FloatArray | None, groups: ArrayLike | None, limits: ArrayLike | None) -> Stock:
        """Make a stock in which all items are available and earn 1."""
        group, limit = checks.groups(groups, limits, items)
        yes = np.ones(items, dtype=bool)
        stored = None if catalogue is None else Catalogue.of(catalogue)
        return cls(stored, np.ones(items), yes, ~yes, group, limit)

    def on(self, device: str) -> Stock:
        """The same stock with its catalogue, if any, screened on that device."""
        find_device(device)
        return self if self.catalogue is None else self._with(catalogue=self.catalogue.on(device))

    def _with(self, **fields: Any) -> Stock:
        """Replace fields; the cached index of ids carries over, because ids are only ever appended."""
        new = replace(self, **fields)
        if "numbers" in self.__dict__:
            added = {name: index for index, name in enumerate((new.ids or ())[len(self) :], len(self))}
            new.__dict__["numbers"] = {**self.numbers, **added} if added else self.numbers
        return new

    def __len__(self) -> int:
        return int(self.revenue.size)

    @cached_property
    def offerable(self) -> BoolArray:
        """Items that may be shown now, (N,)."""
        return self.available & ~self.retired

    @cached_property
    def everything(self) -> bool:
        """Whether every item may be shown."""
        return bool(self.offerable.all())

    @cached_property
    def earned(self) -> FloatArray:
        """The revenues, (N,); if all are equal, one number broadcast, which policies recognise."""
        first = self.revenue[:1]
        equal = first.size > 0 and bool((self.revenue == first).all())
        return np.broadcast_to(first, self.revenue.shape) if equal else self.revenue

    @cached_property
    def numbers(self) -> dict[Id, int]:
        """The index of each item by its id."""
        return {name: index for index, name in enumerate(self.ids or ())}

    def index(self, item: Id, name: str = "item") -> int:
        """The index of an item, given its id if the stock has ids."""
        if self.ids is not None:
            named = isinstance(item, (str, int, np.integer)) and not isinstance(item, bool)
            require(named and item in self.numbers, f"{name} must be the id of an item of this shelf", **{name: item})
            return self.numbers[item]
        inside = isinstance(item, (int, np.integer)) and not isinstance(item, bool) and 0 <= item < len(self)
        require(inside, f"{name} must be from 0 to {len(self) - 1}", **{name: item})
        return int(item)

    def names(self, items: Iterable[int]) -> tuple[Id, ...]:
        """The ids of items; their indices if the stock has no ids."""
        return tuple(items) if self.ids is None else tuple(self.ids[item] for item in items)

    def places(self, name: str, given: Any) -> Any:
        """Turn ids into indices; masks, and input to a stock without ids, pass unchanged."""
        if given is None or self.ids is None or (isinstance(given, np.ndarray) and given.dtype == np.bool_):
            return given
        listed = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
        require(listed, f"{name} must be a list of ids, or a mask", **{name: given})
        items = list(given)
        if items and all(isinstance(each, bool) for each in items):
            return items
        found = [self.index(each, name) for each in items]
        if len(set(found)) < len(found):
            (again, _), *_ = Counter(items).most_common(1)
            require(False, f"{name} must name each item at most once", again=again)
        return found

    def known(self, item: Id) -> int:
        """The index of an item that is not retired."""
        index = self.index(item)
        require(not self.retired[index], "item must not be retired", item=item)
        return index

    def with_more(
        self, features: ArrayLike, revenue: ArrayLike, group: ArrayLike | None, ids: Sequence[Id] | None = None
    ) -> Stock:
        """Append new items."""
        if self.catalogue is None:
            raise ValueError("items can be added only to a catalogue: this shelf gets features with each offer")
        new = np.atleast_2d(finite("features", features))
        wanted = self.catalogue.shape[1]
        require(new.shape[1] == wanted, f"features must have shape (n, {wanted})", shape=new.shape)
        earned = np.broadcast_to(checks.revenue(revenue, len(new)), (len(new),))
        groups = self._with_groups(group, len(new))
        yes = np.ones(len(new), dtype=bool)
        return self._with(
            catalogue=self.catalogue.with_more(new),
            revenue=np.concatenate([self.revenue, earned]),
            available=np.concatenate([self.available, yes]),
            retired=np.concatenate([self.retired, ~yes]),
            groups=groups,
            ranks=None if self.ranks is None else np.append(self.ranks, np.full(len(new), np.inf)),
            ids=self._with_ids(ids, len(new)),
        )

    def ranked(self, ranking: Iterable[Id]) -> Stock:
        """Set the shop's present ranking, best first; items left out have no place in it."""
        return self._with(ranks=self.places_in(ranking))

    def places_in(self, ranking: Iterable[Id]) -> FloatArray:
        """The place of each item in a ranking, best first, (N,); infinite for those not in it."""
        listed = isinstance(ranking, Iterable) and not isinstance(ranking, (str, bytes, Mapping))
        require(listed, "ranking must be a list of items", ranking=ranking)
        order = [self.index(each, "ranking") for each in ranking]
        require(bool(order), "ranking must name at least one item", ranking=ranking)
        (most, times), *_ = Counter(order).most_common(1)
        require(times == 1, "ranking must name each item at most once", again=self.names([most])[0])
        places = np.full(len(self), np.inf)
        places[order] = np.arange(len(order))
        return places

    def changed(self, item: Id, *, features: ArrayLike | None, revenue: float | None, available: bool | None) -> Stock:
        """Change one item; offers already made keep what they used."""
        index, new = self.known(item), self
        if features is not None:
            if self.catalogue is None:
                raise ValueError("features can be changed only in a catalogue: this shelf gets them with each offer")
            row = finite("features", features, shape=(self.catalogue.shape[1],))
            new = new._with(catalogue=self.catalogue.with_row(index, row))
        if revenue is not None:
            earned = self.revenue.copy()
            earned[index] = checks.revenue(revenue, 1)
            new = new._with(revenue=earned)
        if available is not None:
            new = new._with(available=_altered(self.available, index, available))
        return new

    def without(self, item: Id) -> Stock:
        """Retire one item."""
        return self._with(retired=_altered(self.retired, self.known(item), True))

    def _with_ids(self, ids: Sequence[Id] | None, count: int) -> tuple[Id, ...] | None:
        if self.ids is None:
            require(ids is None, "ids need a shelf whose items have ids", ids=ids)
            return None
        added = named_items(ids or ())
        require(len(added) == count, f"ids must be given for each of the {count} new items", ids=list(added))
        known = [name for name in added if name in self.numbers]
        require(not known, "the id of a new item must be new", ids=known)
        return self.ids + added

    def _with_groups(self, group: ArrayLike | None, count: int) -> IntArray | None:
        if self.groups is None:
            require(group is None, "group needs a shelf with groups and limits", group=group)
            return None
        added = np.full(count, -1) if group is None else np.broadcast_to(np.asarray(group), (count,))
        groups, _ = checks.groups(np.concatenate([self.groups, added]), self.limits, len(self) + count)
        return groups


def named_items(ids: Iterable[Any]) -> tuple[Id, ...]:
    """Check ids of items: text or whole numbers, all different.

    >>> named_items(["a", "b", "a"])
    Traceback (most recent call last):
    ...
    ValueError: ids of items must be different, got id='a' at 0 and again at 2
    """
    require(not isinstance(ids, (str, bytes)), "items must be a list of ids", items=ids)
    found: dict[Id, int] = {}
    for place, each in enumerate(ids):
        name = as_id(f"items[{place}]", each)
        again = f"got id={name!r} at {found.get(name)} and again at {place}"
        require(name not in found, f"ids of items must be different, {again}")
        found[name] = place
    return tuple(found)


def _altered(mask: BoolArray, index: int, value: bool) -> BoolArray:
    changed = mask.copy()
    changed[index] = value
    return changed
