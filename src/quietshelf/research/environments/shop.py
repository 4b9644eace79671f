"""A shop as plain data: how many buy, what is known of items and visitors, how tastes vary, and what is declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.types import FloatArray, integer, one_of, positive, require
from quietshelf.research.environments.item_laws import (
    BestsellerItems,
    CategoryItems,
    ItemLaw,
    NormalItems,
    NumberedItems,
)
from quietshelf.research.environments.shop_visits import DECLARED, ShopEnvironment

FEATURES = ("normal", "bestsellers", "categories", "ids")
REVENUES = ("equal", "uniform")


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A shop whose visitors choose by a logit of ``x = (1, u) ⊗ (1, v)``, u theirs and v the item's; ``e_i`` for ids.

    Tastes are drawn once per replicate, then the intercept is solved for: of random offers to a fixed, public sample of
    visitors the share ``conversion_rate`` ends in a choice, in every replicate. Unless features are drawn for each
    visitor, the items, too, are drawn once per replicate.

    Attributes:
        items: N.
        capacity: K.
        conversion_rate: Share of visitors who choose something if offers are random.
        features: Of items: ``normal`` (``item_dim`` of them), ``bestsellers`` (the same, and an effect of each item,
            large for a tenth of them), ``categories`` (so many ``categories`` with so many ``levels``, the rarer the
            later, and a lognormal price) or ``ids`` (one-hot).
        item_dim: Length of v where it is normal.
        visitor_dim: Length of u, standard normal; 0 for visitors of whom nothing is known.
        per_visitor: Whether v is drawn for each visitor, as with search results, not once per replicate.
        correlation: Of any two normal features of an item.
        categories: How many an item has.
        levels: Of each category.
        taste: Standard deviation of an item's utility, over items and visitors.
        revenue: ``equal``, 1 for all, or ``uniform``, drawn on [0, 1] for each item once per replicate.
        availability: Chance that an item is available to a visitor.
        new_every: The last fifth of the items come later, one every so many visitors; 0 if all are there at once.
        mixing: Standard deviation of a visitor's own utilities around those of average tastes, as a share of ``taste``:
            visitors are of 16 latent classes, all equally likely; regret is then that of `MixedRound`.
        half_life: Visitors after which the correlation of tastes with today's is one half; 0 if tastes stay.
        declared: Scales of features as declared: ``right``, ``ten times`` too large, ``a tenth`` of them, ``nothing``.

    >>> Shop(items=20, capacity=1, conversion_rate=0.1, item_dim=2).dim
    3
    >>> Shop(items=20, capacity=1, conversion_rate=1.0)
    Traceback (most recent call last):
    ...
    ValueError: conversion_rate must be between 0 and 1, got conversion_rate=1.0
    """

    items: int
    capacity: int
    conversion_rate: float
    features: str = "normal"
    item_dim: int = 4
    visitor_dim: int = 0
    per_visitor: bool = False
    correlation: float = 0.0
    categories: int = 2
    levels: int = 8
    taste: float = 1.0
    revenue: str = "equal"
    availability: float = 1.0
    new_every: int = 0
    mixing: float = 0.0
    half_life: int = 0
    declared: str = "right"

    def __post_init__(self) -> None:
        integer("items", self.items)
        integer("capacity", self.capacity, high=self.items, high_name="items")
        require(
            0 < self.conversion_rate < 1,
            "conversion_rate must be between 0 and 1",
            conversion_rate=self.conversion_rate,
        )
        one_of("features", self.features, FEATURES)
        for key, low in (
            ("item_dim", 1),
            ("visitor_dim", 0),
            ("categories", 1),
            ("levels", 2),
            ("half_life", 0),
            ("new_every", 0),
        ):
            integer(key, getattr(self, key), low=low)
        require(isinstance(self.per_visitor, bool), "per_visitor must be True or False", per_visitor=self.per_visitor)
        require(0 <= self.correlation < 1, "correlation must be in [0, 1)", correlation=self.correlation)
        positive("taste", self.taste)
        one_of("revenue", self.revenue, REVENUES)
        require(0 < self.availability <= 1, "availability must be in (0, 1]", availability=self.availability)
        positive("mixing", self.mixing, zero=True)
        one_of("declared", self.declared, DECLARED)
        known = self.features in ("bestsellers", "ids")
        rule = "ids are the same for all visitors: per_visitor needs other features"
        require(not (self.per_visitor and known), rule, features=self.features)
        rule = "an effect of an item is the same for all visitors: visitor_dim needs other features"
        require(not (self.visitor_dim and self.features == "bestsellers"), rule, visitor_dim=self.visitor_dim)
        rule = "the items that are there at once must be at least capacity"
        require(not self.new_every or self.first_items >= self.capacity, rule, capacity=self.capacity)
        require(self.features == "normal" or not self.correlation, "only normal features are correlated")
        rule = "a price is always disliked: half_life needs other features"
        require(not (self.half_life and self.features == "categories"), rule, half_life=self.half_life)

    @cached_property
    def law(self) -> ItemLaw:
        """How items come about."""
        if self.features == "normal":
            return NormalItems(self.items, self.item_dim, self.correlation)
        if self.features == "categories":
            return CategoryItems(self.items, self.categories, self.levels)
        if self.features == "bestsellers":
            return BestsellerItems(self.items, self.item_dim)
        return NumberedItems(self.items)

    @property
    def item_effects(self) -> int:
        """How many of the last places of x are item effects, as declared: all of them for ids."""
        return self.items if self.features in ("bestsellers", "ids") and DECLARED[self.declared] else 0

    @property
    def first_items(self) -> int:
        """How many items are there at once."""
        return self.items - (self.items // 5 if self.new_every else 0)

    @property
    def dim(self) -> int:
        """The length of theta, d."""
        return (1 + self.visitor_dim) * self.law.width

    @property
    def covariance(self) -> FloatArray:
        """Of x, over items and visitors, (d, d)."""
        mean = np.kron(np.eye(1 + self.visitor_dim)[0], self.law.mean)
        return np.asarray(np.kron(np.eye(1 + self.visitor_dim), self.law.second) - np.outer(mean, mean))

    @property
    def conversion(self) -> float | None:
        """Share of visitors who choose something, as declared; None where nothing is."""
        return self.conversion_rate if DECLARED[self.declared] else None

    def open(self, seeds: Sequence[SeedSequence]) -> ShopEnvironment:
        """The shop, once for each seed."""
        return ShopEnvironment(self, seeds)
