"""Laws of what is known of an item: normal features, bestsellers beside them, categories and a price, or its number.

Each draws the columns ``(1, v)`` of N items side by side, and knows their mean and second moment in closed form: what a
shop may declare before its first visitor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from quietshelf.model.types import FloatArray, Streams

RARITY = 1.5
"""The level of rank l of a category has a share in proportion to 1 / l^RARITY."""
PRICE_SPREAD = 1.0
"""Standard deviation of the logarithm of a price: the dearest of 300 items costs about 20 times the median one."""

BESTSELLERS, BESTSELLING = 0.1, 2.0
"""The share of items that sell beyond what features say, and by how many standard deviations of what features say."""


class ItemLaw(Protocol):
    """How items come about; equal for all of them, and independent."""

    @property
    def width(self) -> int:
        """How many numbers describe an item, an intercept's 1 included where it has one."""

    @property
    def constant(self) -> FloatArray:
        """The direction along which all items have the utility 1, (width,)."""

    @property
    def mean(self) -> FloatArray:
        """Of ``(1, v)``, (width,)."""

    @property
    def second(self) -> FloatArray:
        """Mean of its outer product, (width, width)."""

    def columns(self, streams: Streams, count: int) -> FloatArray:
        """The items of each world, (R, width, N)."""

    def tastes(self, normal: FloatArray) -> FloatArray:
        """Tastes (..., width) from standard normal numbers, before they are scaled to their strength."""


@dataclass(frozen=True)
class NormalItems:
    """``(1, v)`` with v normal, each feature of variance 1 and any two of them of the same correlation."""

    items: int
    dim: int
    correlation: float = 0.0

    @property
    def width(self) -> int:
        """An intercept and the features."""
        return 1 + self.dim

    @property
    def constant(self) -> FloatArray:
        """The intercept."""
        return np.asarray(np.eye(self.width)[0])

    @cached_property
    def mean(self) -> FloatArray:
        """Of the intercept alone."""
        return np.asarray(np.eye(self.width)[0])

    @cached_property
    def second(self) -> FloatArray:
        """Identity but for the correlation."""
        second = np.eye(self.width)
        second[1:, 1:] += self.correlation * (1.0 - np.eye(self.dim))
        return second

    def columns(self, streams: Streams, count: int) -> FloatArray:
        """A number that all features share, by the root of the correlation, and one of each feature."""
        drawn = streams.standard_normal((len(streams), self.width, count))
        own, common = drawn[:, 1:], drawn[:, :1]
        made = np.empty_like(drawn)
        made[:, 0] = 1.0
        made[:, 1:] = math.sqrt(1.0 - self.correlation) * own + math.sqrt(self.correlation) * common
        return made

    def tastes(self, normal: FloatArray) -> FloatArray:
        """All alike."""
        return normal


@dataclass(frozen=True)
class CategoryItems:
    """``(1, dummies of each category, price)``: the first, most frequent level has no dummy; others are ever rarer."""

    items: int
    categories: int
    levels: int

    @property
    def width(self) -> int:
        """An intercept, a dummy of every level but the first, a price."""
        return 2 + self.categories * (self.levels - 1)

    @property
    def constant(self) -> FloatArray:
        """The intercept."""
        return np.asarray(np.eye(self.width)[0])

    @cached_property
    def shares(self) -> FloatArray:
        """Of the levels of each category, (levels,), falling."""
        share = np.arange(1.0, self.levels + 1) ** -RARITY
        return np.asarray(share / share.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """Shares of the levels, and the mean of a lognormal price."""
        price = math.exp(PRICE_SPREAD**2 / 2)
        return np.concatenate([[1.0], np.tile(self.shares[1:], self.categories), [price]])

    @cached_property
    def second(self) -> FloatArray:
        """Two levels of one category exclude each other; all else is independent."""
        second = np.outer(self.mean, self.mean)
        size = self.levels - 1
        for category in range(self.categories):
            place = slice(1 + category * size, 1 + (category + 1) * size)
            second[place, place] = np.diag(self.shares[1:])
        second[-1, -1] = math.exp(2 * PRICE_SPREAD**2)
        return second

    def columns(self, streams: Streams, count: int) -> FloatArray:
        """A level of each category, and exp of a normal number."""
        worlds = len(streams)
        uniform = streams.random((worlds, self.categories, count))
        level = np.searchsorted(np.cumsum(self.shares)[:-1], uniform, side="right")
        dummies = level[:, :, None, :] == np.arange(1, self.levels)[:, None]
        price = np.exp(PRICE_SPREAD * streams.standard_normal((worlds, 1, count)))
        one = np.ones((worlds, 1, count))
        return np.concatenate([one, dummies.reshape(worlds, -1, count).astype(np.float64), price], axis=1)

    def tastes(self, normal: FloatArray) -> FloatArray:
        """Of the levels alike, however rare; a price is disliked, by as much as a level per standard deviation."""
        made = normal.copy()
        made[..., -1] = -np.abs(normal[..., -1]) / math.sqrt(self.second[-1, -1] - self.mean[-1] ** 2)
        return made


@dataclass(frozen=True)
class BestsellerItems:
    """``(1, v, e_i)``: normal features, and an effect of each item, which is large for a tenth of them and 0 else."""

    items: int
    dim: int

    @property
    def width(self) -> int:
        """An intercept, the features, an effect of each item."""
        return 1 + self.dim + self.items

    @property
    def constant(self) -> FloatArray:
        """The intercept."""
        return np.asarray(np.eye(self.width)[0])

    @cached_property
    def mean(self) -> FloatArray:
        """Of the intercept, and of effects that are all alike."""
        return np.concatenate([[1.0], np.zeros(self.dim), np.full(self.items, 1.0 / self.items)])

    @cached_property
    def second(self) -> FloatArray:
        """Features are independent of which item it is."""
        second = np.diag(np.concatenate([np.ones(1 + self.dim), self.mean[1 + self.dim :]]))
        second[0], second[:, 0] = self.mean, self.mean
        return second

    def columns(self, streams: Streams, count: int) -> FloatArray:
        """Normal features over the identity, in every world."""
        worlds = len(streams)
        drawn = streams.standard_normal((worlds, self.dim, count))
        effects = np.broadcast_to(np.eye(self.items, count), (worlds, self.items, count))
        return np.concatenate([np.ones((worlds, 1, count)), drawn, effects], axis=1)

    def tastes(self, normal: FloatArray) -> FloatArray:
        """Of features alike; those items are bestsellers whose number is among the largest."""
        made, own = normal.copy(), normal[..., 1 + self.dim :]
        least = np.quantile(own, 1.0 - BESTSELLERS, axis=-1, keepdims=True)
        made[..., 1 + self.dim :] = np.where(own > least, BESTSELLING * math.sqrt(self.dim), 0.0)
        return made


@dataclass(frozen=True)
class NumberedItems:
    """One-hot: nothing is known of an item but which one it is."""

    items: int

    @property
    def width(self) -> int:
        """One number an item; they hold the intercept."""
        return self.items

    @property
    def constant(self) -> FloatArray:
        """All items together."""
        return np.ones(self.items)

    @cached_property
    def mean(self) -> FloatArray:
        """The same of all."""
        return np.full(self.items, 1.0 / self.items)

    @cached_property
    def second(self) -> FloatArray:
        """Each item is itself."""
        return np.eye(self.items) / self.items

    def columns(self, streams: Streams, count: int) -> FloatArray:
        """The identity, in every world."""
        return np.broadcast_to(np.eye(self.items), (len(streams), self.items, count))

    def tastes(self, normal: FloatArray) -> FloatArray:
        """All alike."""
        return normal
