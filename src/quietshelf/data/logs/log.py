"""A shop's own log: rounds of items, what was shown and what was chosen.

Rows are grouped by round, and rounds keep their order of first appearance in the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Log:
    """A validated log of n rounds, made by `quietshelf.data.logs.reading.read_log`.

    Attributes:
        start: The rows of round t are ``start[t]`` to ``start[t + 1] - 1``, (n + 1,).
        item: Item of each row, an index into ``item_ids``, (rows,).
        shown: Whether the row's item was shown, (rows,).
        chosen: Whether it was chosen, (rows,).
        available: Whether it could have been shown, (rows,).
        revenue: Its revenue if chosen, (rows,).
        features: Item features of each row, (rows, d2).
        visitor: Visitor features of each round, (n, d1).
        item_ids: Ids of the items in the file.
        item_names: Names of the item features.
        visitor_names: Names of the visitor features.
        person: Person of each round, numbered in the order of their ids, (n,); None if the log does not say.
        time: Rank of each round in time, (n,); None if the log does not say.
        propensity: Probability with which the assortment was drawn, (n,); None if the log does not say.
        random: Whether it was drawn uniformly from the available items, (n,); None if the log does not say.
    """

    start: IntArray
    item: IntArray
    shown: BoolArray
    chosen: BoolArray
    available: BoolArray
    revenue: FloatArray
    features: FloatArray
    visitor: FloatArray
    item_ids: tuple[str, ...]
    item_names: tuple[str, ...]
    visitor_names: tuple[str, ...]
    person: IntArray | None = None
    time: IntArray | None = None
    propensity: FloatArray | None = None
    random: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def round(self) -> IntArray:
        """The round of each row, (rows,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @property
    def candidates(self) -> bool:
        """Whether the log lists items that were available but not shown."""
        return bool((self.available & ~self.shown).any())

    @property
    def capacity(self) -> int:
        """The most items shown in one round."""
        return int(np.bincount(self.round[self.shown], minlength=1).max())

    def offered(self, feature_map: FeatureMap) -> EncodedRounds:
        """The items shown in each round, in the form that `fit` takes."""
        return self._padded(feature_map, self.shown).rounds

    def offerable(self, feature_map: FeatureMap, *, width: int = 1) -> Candidates:
        """All items available in each round, with which of them were shown and chosen.

        Padded to the longest round, or to ``width`` if that is longer.
        """
        return self._padded(feature_map, self.available, width)

    def catalogue(self) -> tuple[FloatArray, FloatArray]:
        """Features and revenue of every item, (N, d2) and (N,): averages over its rows."""
        count = np.maximum(np.bincount(self.item, minlength=len(self.item_ids)), 1)
        columns = np.column_stack([self.features, self.revenue])
        sums = np.zeros((len(self.item_ids), columns.shape[1]))
        np.add.at(sums, self.item, columns)
        means = sums / count[:, None]
        return means[:, :-1], means[:, -1]

    def _padded(self, feature_map: FeatureMap, kept: BoolArray, width: int = 1) -> Candidates:
        rows = np.flatnonzero(kept)
        in_round = self.round[rows]
        first = np.searchsorted(in_round, np.arange(len(self)))
        place = np.arange(rows.size) - first[in_round]
        table = np.full((len(self), max(int(place.max(initial=0)) + 1, width)), NOTHING)
        table[in_round, place] = rows
        there = table != NOTHING
        features = feature_map.dense(self.visitor, self.features[table])
        features[~there] = 0.0
        taken = self.chosen[table] & there
        choice = np.where(taken.any(axis=1), taken.argmax(axis=1), NOTHING)
        return Candidates(
            rounds=EncodedRounds(features, choice, there),
            shown=self.shown[table] & there,
            revenue=np.where(there, self.revenue[table], 0.0),
        )


@dataclass(frozen=True, eq=False)
class Candidates:
    """The available items of each round.

    Attributes:
        rounds: Features (n, J, d), place chosen (n,), which places hold an item (n, J).
        shown: Which places were shown, (n, J).
        revenue: Revenue of each, (n, J).
    """

    rounds: EncodedRounds
    shown: BoolArray
    revenue: FloatArray
