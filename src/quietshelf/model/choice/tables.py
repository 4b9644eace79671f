"""A table of recurring visitors and one catalogue, so that a round is stored as a few indices, not as features.

x of visitor s and item i is ``feature_map(u_s, v_i) / scale``. Storing s and the items shown is enough to recompute x
when it is needed: 44 bytes per round instead of 14,400 at d = 180 and K = 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import FloatArray, IntArray, finite, positive, require


@dataclass(frozen=True, eq=False)
class VisitorTable:
    """A finite set of visitors and one catalogue, immutable.

    Attributes:
        visitors: u of each visitor, (n, d1).
        catalogue: v of each item, (N, d2), the same for all visitors.
        feature_map: Makes x from the two.
        scale: What x is divided by.
    """

    visitors: FloatArray
    catalogue: FloatArray
    feature_map: FeatureMap
    scale: float = 1.0

    def __post_init__(self) -> None:
        catalogue = finite("catalogue", self.catalogue, shape=(None, None))
        object.__setattr__(self, "visitors", finite("visitors", self.visitors, shape=(None, None)))
        object.__setattr__(self, "catalogue", np.asfortranarray(catalogue))
        positive("scale", self.scale)
        require(not self.feature_map.effects, "a table needs a feature map without item effects", map=self.feature_map)

    @property
    def items(self) -> int:
        """N, the number of items."""
        return len(self.catalogue)

    @property
    def dim(self) -> int:
        """d, the length of x."""
        return self.feature_map.dim(self.visitors.shape[1], self.catalogue.shape[1])

    @cached_property
    def lengths(self) -> FloatArray:
        """|x| of every visitor and item, (n, N), from |left| |right| of each block."""
        u, v = (self.visitors**2).sum(axis=1), (self.catalogue**2).sum(axis=1)
        square = sum(np.outer(u**block.visitor, v**block.item) for block in self.feature_map.blocks)
        return np.asarray(np.sqrt(square) / self.scale)

    def drawn(self, numbers: IntArray) -> Drawn:
        """The visitors with these numbers, (...)."""
        return Drawn(self, numbers)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Features of some visitors of a table (the protocol ``quietshelf.model.types.Features``).

    Attributes:
        table: The table.
        numbers: Indices of the visitors, (...).

    >>> from quietshelf.model.choice.maps import feature_map
    >>> table = VisitorTable(np.array([[1.0], [10.0]]), np.array([[2.0, 3.0]]), feature_map("outer"), scale=2.0)
    >>> table.drawn(np.array([1, 0])).rows(np.array([[0], [0]])).tolist()
    [[[10.0, 15.0]], [[1.0, 1.5]]]
    """

    table: VisitorTable
    numbers: IntArray

    @property
    def items(self) -> int:
        """N, the number of items."""
        return self.table.items

    @property
    def dim(self) -> int:
        """d, the length of x."""
        return self.table.dim

    def utility(self, theta: FloatArray) -> FloatArray:
        """``x . theta`` of every item, (..., N), for theta (..., d)."""
        return self._undivided.utility(theta / self.table.scale)

    def norm(self, metric: FloatArray) -> FloatArray:
        """``sqrt(x' metric x)`` of every item, (..., N), for a positive semidefinite metric (..., d, d)."""
        return self._undivided.norm(metric) / self.table.scale

    def rows(self, items: IntArray) -> FloatArray:
        """The vectors x of the given items (..., K) as (..., K, d); zero where the place is empty."""
        return self._undivided.rows(items) / self.table.scale

    @cached_property
    def _undivided(self) -> Catalogued:
        table = self.table
        return Catalogued(table.visitors[self.numbers], table.catalogue, table.feature_map)
