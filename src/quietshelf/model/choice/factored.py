"""The likelihood of rounds that are kept as numbers of a table, and its derivatives, without forming x.

Every feature map selects from (1, u) ⊗ (1, v), so with Θ the tastes as a matrix and f a factor for each visitor s and
item i (the division, and clipping where there is any), and m = sum_i p_i f v_i of a round, v standing for (1, v):

    utilities     U = f (u Θ v'), a matrix of all visitors and items, which rounds read from
    gradient      sum_s u_s ⊗ (sum_i (chosen - P)_si f_si v_i), P the probabilities added up by visitor and item
    information   sum_s u_s u_s' ⊗ (sum_i P_si f_si² v_i v_i' - sum of m m' over the rounds of s)

Rounds of one visitor meet before anything of size d² is touched: with n rounds of K items, S visitors and d = d1 d2,
O(n (K + d2) d2 + S d1² d2²) in place of O(n K d²). What is subtracted is not centred first, so curvature far below
rounding is lost: fits need a ridge, which private and exact curators have anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from quietshelf.model.choice.likelihood import shares
from quietshelf.model.choice.sums import Sums
from quietshelf.model.choice.tables import VisitorTable
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray

ROUNDS = 1 << 14
"""Rounds of one step: a few megabytes at a time."""


@dataclass(frozen=True, eq=False)
class Factored:
    """Rounds of one world as numbers; its results have a leading axis of length one.

    Attributes:
        table: Visitors and items.
        visitor: Who came, (n,), a place in the table.
        items: What was shown, (n, K), -1 in empty places.
        position: The place chosen, (n,), or -1.
        factor: What x is multiplied by beside the table's own division, (S, N); None for nothing.
    """

    table: VisitorTable
    visitor: IntArray
    items: IntArray
    position: IntArray
    factor: FloatArray | None = None

    @property
    def rounds(self) -> int:
        """How many, n."""
        return len(self.visitor)

    @cached_property
    def largest(self) -> float:
        """The largest entry of x in size, over all visitors and items."""
        u, v = np.abs(self._sides.visitors).max(axis=1), np.abs(self._sides.items).max(axis=1)
        return float((self._factors * u[:, None] * v).max(initial=0.0))

    def sums(self, theta: FloatArray) -> Sums:
        """Everything that Newton needs at theta, (1, d)."""
        sides, utility = self._sides, self._utility(theta[0])
        total, squares = np.zeros(utility.size), np.zeros((len(utility), sides.item_pairs.shape[1]))
        log_partition = 0.0
        for part in self._parts:
            share = shares(np.where(part.held, utility.ravel()[part.cell], 0.0), part.held)
            log_partition += float(share.log_partition.sum())
            total += np.bincount(part.cell[part.held], weights=share.items[part.held], minlength=utility.size)
            weight = share.items * self._factors.ravel()[part.cell]
            mean = np.einsum("nk,nkd->nd", weight, sides.items[part.item])
            squares[part.first] += np.add.reduceat(_pairs(mean), part.starts, axis=0)
        shown = total.reshape(utility.shape)
        left = ((self._chosen - shown) * self._factors) @ sides.items
        spread = (shown * self._factors**2) @ sides.item_pairs - squares
        information = _symmetric(sides.visitor_pairs.T @ spread, sides)[np.ix_(sides.selected, sides.selected)]
        value = float((self._chosen * utility).sum()) - log_partition
        return Sums(np.array([value]), (sides.visitors.T @ left).ravel()[sides.selected][None], information[None])

    def _utility(self, theta: FloatArray) -> FloatArray:
        sides = self._sides
        matrix = np.zeros(sides.visitors.shape[1] * sides.items.shape[1])
        matrix[sides.selected] = theta
        inside: FloatArray = sides.visitors @ matrix.reshape(sides.visitors.shape[1], -1) @ sides.items.T
        return inside * self._factors

    @cached_property
    def _factors(self) -> FloatArray:
        shape = (len(self.table.visitors), self.table.items)
        given = np.ones(shape) if self.factor is None else self.factor
        return np.asarray(given / self.table.scale)

    @cached_property
    def _chosen(self) -> FloatArray:
        """How often each visitor took each item, (S, N)."""
        took = np.flatnonzero(self.position != NOTHING)
        cell = self.visitor[took].astype(np.int64) * self.table.items + self.items[took, self.position[took]]
        shape = (len(self.table.visitors), self.table.items)
        return np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    @cached_property
    def _sides(self) -> Sides:
        return sides_of(self.table)

    @cached_property
    def _parts(self) -> list[Part]:
        order = np.argsort(self.visitor, kind="stable")
        return list(self._cut(order))

    def _cut(self, order: IntArray) -> Iterator[Part]:
        for begin in range(0, order.size, ROUNDS):
            rounds = order[begin : begin + ROUNDS]
            visitor, items = self.visitor[rounds].astype(np.int64), self.items[rounds]
            held = items != NOTHING
            item = np.where(held, items, 0)
            starts = np.flatnonzero(np.diff(visitor, prepend=-1))
            cell = visitor[:, None] * self.table.items + item
            yield Part(cell, item, held, starts, visitor[starts])


class Part(NamedTuple):
    """Some rounds, in the order of their visitors.

    Attributes:
        cell: Where each place shown stands in the matrix of visitors and items, (r, K).
        item: Its item; 0 in empty places, (r, K).
        held: Which places hold an item, (r, K).
        starts: The first round of each visitor.
        first: That visitor.
    """

    cell: IntArray
    item: IntArray
    held: BoolArray
    starts: IntArray
    first: IntArray


class Sides(NamedTuple):
    """The two sides of the product that x is selected from, as far as the map uses them.

    Attributes:
        visitors: Of (1, u), (S, a).
        items: Of (1, v), (N, b).
        visitor_pairs: Products of two entries, the first not after the second, (S, a (a + 1) / 2).
        item_pairs: The same of items.
        selected: Where each place of x stands in the product, (d,).
    """

    visitors: FloatArray
    items: FloatArray
    visitor_pairs: FloatArray
    item_pairs: FloatArray
    selected: IntArray


def sides_of(table: VisitorTable) -> Sides:
    """The sides of a table's product."""
    width = 1 + table.catalogue.shape[1]
    left, right = np.divmod(table.feature_map.in_product(table.visitors.shape[1], table.catalogue.shape[1]), width)
    used, place = np.unique(left, return_inverse=True)
    used_right, place_right = np.unique(right, return_inverse=True)
    u, v = _with_one(table.visitors)[:, used], _with_one(table.catalogue)[:, used_right]
    return Sides(u, v, _pairs(u), _pairs(v), place * used_right.size + place_right)


def _with_one(features: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(features)), features])


def _pairs(rows: FloatArray) -> FloatArray:
    """Products of two entries of each row, the first not after the second."""
    first, second = _upper(rows.shape[-1])
    return np.asarray(rows[:, first] * rows[:, second])


def _symmetric(pairs: FloatArray, sides: Sides) -> FloatArray:
    """The matrix over the whole product, (a b, a b), from its entries for pairs of visitor and of item features."""
    a, b = sides.visitors.shape[1], sides.items.shape[1]
    full = pairs[_places(a)][:, :, _places(b)]
    return full.transpose(0, 2, 1, 3).reshape(a * b, a * b)


@lru_cache(maxsize=32)
def _upper(size: int) -> tuple[IntArray, IntArray]:
    first, second = np.triu_indices(size)
    return first, second


@lru_cache(maxsize=32)
def _places(size: int) -> IntArray:
    """Where the pair (i, j) stands among pairs with the first not after the second, (size, size)."""
    table = np.zeros((size, size), dtype=np.int64)
    first, second = _upper(size)
    table[first, second] = table[second, first] = np.arange(first.size)
    return table
