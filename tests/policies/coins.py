"""Coins of visitors who decide alone or beside others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.types import BoolArray, Context, Features, FloatArray, IntArray


class Coins:
    """A generator for each visitor: row i of a draw depends on visitor i's number and on nothing else."""

    def __init__(self, visitors: IntArray) -> None:
        self._generators = [np.random.default_rng([11, int(visitor)]) for visitor in np.ravel(visitors)]
        self._alone = np.ndim(visitors) == 0

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""
        return self._drawn("random", size)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""
        return self._drawn("standard_normal", size)

    def _drawn(self, kind: str, size: tuple[int, ...]) -> FloatArray:
        if self._alone:
            return np.asarray(getattr(self._generators[0], kind)(size))
        assert size[0] == len(self._generators), "the first axis of a draw is the visitors"
        return np.stack([getattr(each, kind)(size[1:]) for each in self._generators])


class SelectiveCoins(Coins):
    """The same, drawn only where they are needed."""

    def __init__(self, visitors: IntArray) -> None:
        super().__init__(visitors)
        self.needed: list[BoolArray] = []

    def random_where(self, needed: BoolArray, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1) where needed, zero elsewhere."""
        assert needed.shape == size[:-1]
        self.needed.append(needed)
        return np.where(needed[..., None], self.random(size), 0.0)


def part_of(context: Context, who: Any) -> Context:
    """Some visitors, or one without an axis; who wishes nothing then has no mask."""
    features = context.features
    own: Features
    if isinstance(features, Catalogued):
        own = replace(features, visitor=features.visitor[who].copy())
    else:
        assert isinstance(features, Dense)
        own = Dense(features.x[who].copy())
    available = None if context.available is None or context.available[who].all() else context.available[who]
    required = None if context.required is None or not context.required[who].any() else context.required[who]
    revenue = context.revenue[who]
    if (revenue == 1.0).all():
        revenue = np.broadcast_to(1.0, revenue.shape)
    return replace(context, features=own, revenue=revenue, available=available, required=required)
