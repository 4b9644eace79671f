"""The shop of ``quietshelf serve --demo``: teas, and simulated visitors whose tastes only this module knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import Context, FloatArray, IntArray
from quietshelf.research.environments import LogitRound

TEAS: tuple[tuple[str, float, float, float], ...] = (
    ("Assam", 0.9, -0.4, 3.2), ("Darjeeling", 0.3, -0.1, 4.6), ("Ceylon", 0.6, -0.2, 3.0),
    ("Earl Grey", 0.5, 0.3, 3.4), ("Lapsang Souchong", 1.0, -0.8, 5.2), ("Keemun", 0.7, 0.1, 4.4),
    ("Pu-erh", 0.9, -0.7, 6.0), ("Sencha", -0.1, -0.5, 4.0), ("Gyokuro", 0.1, 0.0, 6.5), ("Matcha", 0.6, -0.6, 6.2),
    ("Genmaicha", -0.2, -0.1, 3.3), ("Jasmine", -0.3, 0.5, 3.6), ("Dragonwell", -0.1, -0.2, 5.0),
    ("Silver Needle", -0.8, 0.2, 6.8), ("White Peony", -0.7, 0.3, 5.4), ("Oolong", 0.2, 0.2, 4.8),
    ("Peppermint", -0.4, 0.4, 2.2), ("Camomile", -0.9, 0.6, 2.0), ("Rooibos", -0.3, 0.8, 2.4),
    ("Vanilla Rooibos", -0.3, 1.0, 2.8), ("Hibiscus", -0.2, -0.6, 2.3), ("Ginger & Lemon", 0.2, -0.4, 2.5),
    ("Chai", 0.8, 0.9, 3.1), ("Liquorice", 0.0, 1.0, 2.6),
)  # fmt: skip
"""Name, strength, sweetness, and revenue per cup."""
TASTES = np.array([-1.0, 0.6, 0.3, 0.2, 1.2, -0.9])
"""Coefficients of (1, strength, sweetness, mood, mood x strength, mood x sweetness)."""
WIDEST = float(np.sqrt(3.0))
"""A visitor's mood is uniform on [-WIDEST, WIDEST], so that its standard deviation is 1, as the shop declares."""


@dataclass(frozen=True)
class Shop:
    """The world of the demo; everything but the tastes is public."""

    items: int = len(TEAS)
    dim: int = TASTES.size
    capacity: int = 4

    @cached_property
    def catalogue(self) -> FloatArray:
        """Strength and sweetness, (N, 2)."""
        return np.array([tea[1:3] for tea in TEAS])

    @cached_property
    def revenue(self) -> FloatArray:
        """Revenue per cup, (N,)."""
        return np.array([tea[3] for tea in TEAS])

    @property
    def radius(self) -> float:
        """A public bound on the length of any feature vector, which the paper's policy needs."""
        return float(np.sqrt((1 + WIDEST**2) * (1 + (self.catalogue**2).sum(1)).max()))

    def open(self, seeds: Sequence[SeedSequence]) -> Visitors:
        """The visitors of one replicate per seed."""
        return Visitors(self, [np.random.default_rng(seed) for seed in seeds])


class Visitors:
    """Visitors, each with a mood, who choose by multinomial logit."""

    def __init__(self, shop: Shop, streams: list[np.random.Generator]) -> None:
        self._shop, self._streams = shop, streams
        self._map = feature_map("full")
        self._revenue = np.broadcast_to(shop.revenue, (len(streams), shop.items))
        self.round: LogitRound | None = None

    def context(self, t: int) -> Context:  # noqa: ARG002 - time does not matter
        """The next visitor."""
        mood = np.array([[stream.uniform(-WIDEST, WIDEST)] for stream in self._streams])
        features = Catalogued(mood, self._shop.catalogue, self._map)
        context = Context(features, self._revenue, self._shop.capacity)
        draw = np.array([stream.random() for stream in self._streams])
        self.round = LogitRound(context, features.utility(TASTES), draw)
        return context

    def choose(self, context: Context, assortment: IntArray) -> IntArray:  # noqa: ARG002 - that of the present visitor
        """What the present visitor chooses."""
        return self._present.choose(assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:  # noqa: ARG002 - the same
        """Expected revenue lost against the best assortment."""
        return self._present.regret(assortment)

    @property
    def best(self) -> float:
        """Expected revenue of the best assortment."""
        return float(self._present.best.sum())

    @property
    def _present(self) -> LogitRound:
        if self.round is None:
            raise ValueError("a visitor must have come first")
        return self.round
