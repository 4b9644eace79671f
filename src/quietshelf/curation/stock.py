"""The items of a shelf: features (where the shelf knows them), revenue, group, and whether they may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.assortment import checks
from quietshelf.types import BoolArray, FloatArray, IntArray, as_array, finite, require


@dataclass(frozen=True, eq=False)
class Stock:
    """N items; an index once given keeps its item for good.

    Attributes:
        catalogue: Item features (N, d2); None where each offer brings the features of every item.
        revenue: Earned when an item is chosen, (N,), unless the offer says otherwise.
        available: Items that may be shown, (N,).
        retired: Items that will not be shown again, (N,).
        groups: Group of each item, (N,), -1 for none; None without groups.
        limits: The most items shown of each group, (G,).
        ranks: Place of each item in the shop's present ranking, (N,), infinite for items not in it; None without one.
    """

    catalogue: FloatArray | None
    revenue: FloatArray
    available: BoolArray
    retired: BoolArray
    groups: IntArray | None
    limits: IntArray | None
    ranks: FloatArray | None = None

    @classmethod
    def of(cls, items: int, catalogue: FloatArray | None, groups: ArrayLike | None, limits: ArrayLike | None) -> Stock:
        """All items available, revenue 1."""
        group, limit = checks.groups(groups, limits, items)
        yes = np.ones(items, dtype=bool)
        return cls(catalogue, np.ones(items), yes, ~yes, group, limit)

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
        """The revenues, (N,); one number broadcast where they are equal, by which policies know that they are."""
        first = self.revenue[:1]
        equal = first.size > 0 and bool((self.revenue == first).all())
        return np.broadcast_to(first, self.revenue.shape) if equal else self.revenue

    def known(self, item: int) -> int:
        """A valid, living item index."""
        inside = isinstance(item, (int, np.integer)) and not isinstance(item, bool) and 0 <= item < len(self)
        require(inside, f"item must be from 0 to {len(self) - 1}", item=item)
        require(not self.retired[item], "item must not be retired", item=item)
        return int(item)

    def with_more(self, features: ArrayLike, revenue: ArrayLike, group: ArrayLike | None) -> Stock:
        """The stock with new items at the end."""
        if self.catalogue is None:
            raise ValueError("items can be added only to a catalogue: this shelf gets features with each offer")
        new = np.atleast_2d(finite("features", features))
        wanted = self.catalogue.shape[1]
        require(new.shape[1] == wanted, f"features must have shape (n, {wanted})", shape=new.shape)
        earned = np.broadcast_to(checks.revenue(revenue, len(new)), (len(new),))
        groups = self._with_groups(group, len(new))
        yes = np.ones(len(new), dtype=bool)
        return replace(
            self,
            catalogue=np.asfortranarray(np.concatenate([self.catalogue, new])),
            revenue=np.concatenate([self.revenue, earned]),
            available=np.concatenate([self.available, yes]),
            retired=np.concatenate([self.retired, ~yes]),
            groups=groups,
            ranks=None if self.ranks is None else np.append(self.ranks, np.full(len(new), np.inf)),
        )

    def ranked(self, ranking: Sequence[int]) -> Stock:
        """The stock with the shop's present ranking, best first, by item index; items left out have no place in it."""
        return replace(self, ranks=places_in(ranking, len(self)))

    def changed(self, item: int, *, features: ArrayLike | None, revenue: float | None, available: bool | None) -> Stock:
        """The stock with one item altered; offers already made keep what they used."""
        index, new = self.known(item), self
        if features is not None:
            if self.catalogue is None:
                raise ValueError("features can be changed only in a catalogue: this shelf gets them with each offer")
            row = finite("features", features, shape=(self.catalogue.shape[1],))
            catalogue = self.catalogue.copy(order="F")
            catalogue[index] = row
            new = replace(new, catalogue=catalogue)
        if revenue is not None:
            earned = self.revenue.copy()
            earned[index] = checks.revenue(revenue, 1)
            new = replace(new, revenue=earned)
        if available is not None:
            new = replace(new, available=_with(self.available, index, available))
        return new

    def without(self, item: int) -> Stock:
        """The stock with one item retired."""
        return replace(self, retired=_with(self.retired, self.known(item), True))

    def _with_groups(self, group: ArrayLike | None, count: int) -> IntArray | None:
        if self.groups is None:
            require(group is None, "group needs a shelf with groups and limits", group=group)
            return None
        added = np.full(count, -1) if group is None else np.broadcast_to(np.asarray(group), (count,))
        groups, _ = checks.groups(np.concatenate([self.groups, added]), self.limits, len(self) + count)
        return groups


def places_in(ranking: Sequence[int], items: int) -> FloatArray:
    """The place of each item in a ranking of item indices, best first, (N,); infinite for those not in it."""
    listed = as_array("ranking", ranking)
    whole_numbers = listed.ndim == 1 and (listed.dtype.kind in "iu" or not listed.size)
    require(whole_numbers, "ranking must be a list of item indices", ranking=ranking)
    order = listed.astype(np.int64)
    inside = bool(((order >= 0) & (order < items)).all())
    require(inside, f"ranking must name items from 0 to {items - 1}", ranking=ranking)
    require(np.unique(order).size == order.size, "ranking must name each item at most once", ranking=ranking)
    require(order.size > 0, "ranking must name an item at least", ranking=ranking)
    places = np.full(items, np.inf)
    places[order] = np.arange(order.size)
    return places


def _with(mask: BoolArray, index: int, value: bool) -> BoolArray:
    changed = mask.copy()
    changed[index] = value
    return changed
