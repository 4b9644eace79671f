"""The likelihood of rounds stored as indices into a table, and its derivatives, without forming x.

Every feature map selects from (1, u) ⊗ (1, v), so with Θ the tastes as a matrix, f a factor for each visitor s and item
i (the division by the scale, and clipping if there is any), and m = sum_i p_i f v_i of a round, v standing for (1, v):

    utilities     U = f (u Θ v'), a matrix of all visitors and items, from which rounds are read
    gradient      sum_s u_s ⊗ (sum_i (chosen - P)_si f_si v_i), P the probabilities summed by visitor and item
    information   sum_s u_s u_s' ⊗ (sum_i P_si f_si² v_i v_i' - sum of m m' over the rounds of s)

Rounds of one visitor are summed before anything of size d² is formed: with n rounds of K items, S visitors and
d = d1 d2, this takes O(n (K + d2) d2 + S d1² d2²) instead of O(n K d²). The subtraction in the information is not
centred first, so curvature far below rounding is lost: fits need a ridge, which private and exact curators have anyway.
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
"""Rounds per step: a few megabytes at a time."""


@dataclass(frozen=True, eq=False)
class Factored:
    """Rounds of one world as indices; results have a leading axis of length one.

    Attributes:
        table: Visitors and items.
        visitor: Who came, (n,), an index into the table.
        items: What was shown, (n, K), -1 in empty places.
        position: The place chosen, (n,), or -1.
        factor: What x is multiplied by, besides the table's own division, (S, N); None for 1.
    """

    table: VisitorTable
    visitor: IntArray
    items: IntArray
    position: IntArray
    factor: FloatArray | None = None

    @property
    def rounds(self) -> int:
        """n, the number of rounds."""
        return len(self.visitor)

    @cached_property
    def largest(self) -> float:
        """The largest absolute entry of x, over all visitors and items."""
        u, v = np.abs(self._sides.visitors).max(axis=1), np.abs(self._sides.items).max(axis=1)
        return float((self._factors * u[:, None] * v).max(initial=0.0))

    def sums(self, theta: FloatArray) -> Sums:
        """The sums over all rounds at theta, (1, d)."""
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
        cell: Index of each place in the flattened matrix of visitors and items, (r, K).
        item: The item in each place; 0 in empty places, (r, K).
        held: Which places hold an item, (r, K).
        starts: The first round of each visitor.
        first: The visitor of each start.
    """

    cell: IntArray
    item: IntArray
    held: BoolArray
    starts: IntArray
    first: IntArray


class Sides(NamedTuple):
    """The two factors of the product that x is selected from, restricted to the entries that the map uses.

    Attributes:
        visitors: Of (1, u), (S, a).
        items: Of (1, v), (N, b).
        visitor_pairs: Products of entries i <= j, (S, a (a + 1) / 2).
        item_pairs: The same of items.
        selected: Index in the product of each place of x, (d,).
    """

    visitors: FloatArray
    items: FloatArray
    visitor_pairs: FloatArray
    item_pairs: FloatArray
    selected: IntArray


def sides_of(table: VisitorTable) -> Sides:
    """Work out the two sides for a table."""
    width = 1 + table.catalogue.shape[1]
    left, right = np.divmod(table.feature_map.in_product(table.visitors.shape[1], table.catalogue.shape[1]), width)
    used, place = np.unique(left, return_inverse=True)
    used_right, place_right = np.unique(right, return_inverse=True)
    u, v = _with_one(table.visitors)[:, used], _with_one(table.catalogue)[:, used_right]
    return Sides(u, v, _pairs(u), _pairs(v), place * used_right.size + place_right)


def _with_one(features: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(features)), features])


def _pairs(rows: FloatArray) -> FloatArray:
    """Products of entries i <= j of each row."""
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
    """The index of the pair (i, j) among the pairs i <= j, (size, size)."""
    table = np.zeros((size, size), dtype=np.int64)
    first, second = _upper(size)
    table[first, second] = table[second, first] = np.arange(first.size)
    return table
