"""The shop at work: replicates side by side, their visitors, choices and exact regret."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import SeedSequence

from quietshelf.choice.features import Dense
from quietshelf.environments.calibration import calibrated
from quietshelf.environments.logit import KnownRound, LogitRound, OpenRound
from quietshelf.environments.mixed import MixedRound, best_on_average
from quietshelf.types import BoolArray, Context, FloatArray, Streams, balanced_normal

if TYPE_CHECKING:
    from quietshelf.environments.shop import Shop

TASTES, ITEMS, VISITORS, CHOICE, REVENUE, STOCK, CLASS, DRIFT = range(8)
"""The roles of a replicate's random streams: changing one law leaves the draws of the others alone."""
TOGETHER = 256
"""Best assortments that are solved in one call, for all replicates of some rounds."""
CLASSES = 16
"""Latent classes of visitors where tastes are mixed."""
PUBLIC_SEED = 1702
DECLARED = {"right": 1.0, "ten times": 10.0, "a tenth": 0.1, "nothing": 0.0}
"""By what the declared scales of features differ from the true ones."""


class Visit(NamedTuple):
    """One visitor of each world, before anybody knows the best offer."""

    theta: FloatArray
    context: Context
    draw: FloatArray


class ShopEnvironment(OpenRound):
    """R replicates of a shop, side by side; assortments may have an axis of contestants before theirs."""

    stacks = True

    def __init__(self, shop: Shop, seeds: Sequence[SeedSequence]) -> None:
        super().__init__(seeds, roles=8)
        self._shop = shop
        self._catalogue = None if shop.per_visitor else shop.law.columns(self._streams[ITEMS], shop.items)
        self._tastes = self._strong(self._streams[TASTES].standard_normal((self._count, shop.dim)))
        self._apart = self._deviations()
        intercept = calibrated(shop, self._tastes[:, None] + np.moveaxis(self._apart, 0, 1), self._catalogue)
        self._intercept = intercept[:, None] * self._first(shop.law.constant)
        self._revenue: FloatArray = np.broadcast_to(1.0, (self._count, shop.items))
        if shop.revenue == "uniform":
            self._revenue = np.array(self._streams[REVENUE].random(self._revenue.shape))
        known = self._catalogue is not None and not shop.visitor_dim
        self._fixed = self._features() if known else None
        self._ready: list[tuple[FloatArray, KnownRound]] = []
        self._visits = 0

    @property
    def theta(self) -> FloatArray:
        """The tastes of the visitor who comes next, (R, d); their average where they are mixed."""
        if not self._ready:
            self._ready = self._prepared()
        return self._ready[0][0]

    def context(self, t: int) -> Context:
        """The visitor of round t in every world; rounds come one after the other, from 0."""
        self._expect(t)
        if not self._ready:
            self._ready = self._prepared()
        return self._begin(self._ready.pop(0)[1])

    @property
    def made_up(self) -> Callable[[FloatArray, int], Context] | None:
        """Contexts of made-up visitors as the shop declares them, (R, number); None if it declares nothing."""
        return self._made_up if DECLARED[self._shop.declared] else None

    def _made_up(self, factor: FloatArray, number: int) -> Context:
        shop, wrong = self._shop, factor * DECLARED[self._shop.declared]
        revenue = np.broadcast_to(self._revenue[:, None], (self._count, number, shop.items))
        if self._catalogue is None:
            drawn = shop.law.columns(_public(number), shop.items)
            columns = np.where(shop.law.constant == 1, 1.0, wrong[:, None])[:, None, :, None] * drawn
        else:
            columns = np.broadcast_to(self._catalogue[:, None], (self._count, number, *self._catalogue.shape[1:]))
        if shop.visitor_dim:
            drawn = wrong[:, None, None] * balanced_normal(number, shop.visitor_dim)
            visitor = np.concatenate([np.ones((self._count, number, 1)), drawn], axis=-1)
            columns = visitor[..., None, None] * columns[:, :, None]
            columns = columns.reshape(self._count, number, shop.dim, shop.items)
        here = self._on_the_shelf(self._next)
        available = None if here is None else np.broadcast_to(here, revenue.shape)
        return Context(Dense(np.swapaxes(columns, -1, -2)), revenue, shop.capacity, available)

    def _prepared(self) -> list[tuple[FloatArray, KnownRound]]:
        """The next rounds, as many as are worth solving together."""
        visits = [self._visit() for _ in range(max(1, TOGETHER // self._count))]
        solved = self._mixed(visits) if self._shop.mixing else self._solved(visits)
        return [(visit.theta, each) for visit, each in zip(visits, solved, strict=True)]

    def _solved(self, visits: Sequence[Visit]) -> list[KnownRound]:
        utility = np.stack([visit.context.features.utility(visit.theta) for visit in visits])
        draws = np.stack([visit.draw for visit in visits])
        first = visits[0].context
        together = Context(first.features, first.revenue, first.capacity, _stocks(visits))
        best = LogitRound(together, utility, draws).best
        parts = zip(visits, utility, best, strict=True)
        return [KnownRound(visit.context, own, visit.draw, value) for visit, own, value in parts]

    def _mixed(self, visits: Sequence[Visit]) -> list[KnownRound]:
        classes = np.stack([visit.context.features.utility(visit.theta + self._apart) for visit in visits], axis=1)
        revenue = np.broadcast_to(self._revenue, classes.shape[1:])
        best = best_on_average(classes, revenue, self._shop.capacity, _stocks(visits))
        worlds = np.arange(self._count)
        rounds: list[KnownRound] = []
        for place, visit in enumerate(visits):
            latent = (self._streams[CLASS].random((self._count,)) * CLASSES).astype(np.int64)
            every = classes[:, place]
            rounds.append(MixedRound(visit.context, every[latent, worlds], visit.draw, best[place], every))
        return rounds

    def _visit(self) -> Visit:
        shop, theta = self._shop, self._tastes + self._intercept
        available: BoolArray | None = None
        if shop.availability < 1:
            available = self._streams[STOCK].random((self._count, shop.items)) < shop.availability
        here, self._visits = self._on_the_shelf(self._visits), self._visits + 1
        if here is not None:
            available = np.broadcast_to(here, (self._count, shop.items)) if available is None else available & here
        if shop.half_life:
            memory = 0.5 ** (1 / shop.half_life)
            fresh = self._strong(self._streams[DRIFT].standard_normal(self._tastes.shape))
            self._tastes = memory * self._tastes + math.sqrt(1 - memory**2) * fresh
        features = self._features() if self._fixed is None else self._fixed
        context = Context(features, self._revenue, shop.capacity, available)
        return Visit(theta, context, self._streams[CHOICE].random((self._count,)))

    def _on_the_shelf(self, t: int) -> BoolArray | None:
        """Items that have come by the time of visitor t, (N,); None if all are there at once."""
        shop = self._shop
        if not shop.new_every:
            return None
        return np.arange(shop.items) < shop.first_items + t // shop.new_every

    def _features(self) -> Dense:
        shop = self._shop
        columns = shop.law.columns(self._streams[ITEMS], shop.items) if self._catalogue is None else self._catalogue
        if shop.visitor_dim:
            drawn = self._streams[VISITORS].standard_normal((self._count, shop.visitor_dim))
            visitor = np.append(np.ones((self._count, 1)), drawn, axis=1)
            columns = (visitor[:, :, None, None] * columns[:, None]).reshape(self._count, shop.dim, shop.items)
        return Dense(np.swapaxes(columns, -1, -2))

    def _deviations(self) -> FloatArray:
        """Tastes of each class of visitors less the average ones, (M, R, d); one class if they are not mixed."""
        if not self._shop.mixing:
            return np.zeros((1, *self._tastes.shape))
        drawn = self._streams[CLASS].standard_normal((self._count, CLASSES, self._shop.dim))
        apart = self._strong(drawn)
        apart = apart - apart.mean(axis=1, keepdims=True)
        return np.moveaxis(self._shop.mixing * math.sqrt(CLASSES / (CLASSES - 1)) * apart, 1, 0)

    def _strong(self, normal: FloatArray) -> FloatArray:
        """Tastes (..., d) from standard normal numbers: as strong as the shop says, items of utility 0 on average."""
        shop = self._shop
        shape = (*normal.shape[:-1], 1 + shop.visitor_dim, shop.law.width)
        tastes = shop.law.tastes(normal.reshape(shape)).reshape(normal.shape)
        tastes = tastes - (tastes * self._first(shop.law.mean)).sum(-1, keepdims=True) * self._first(shop.law.constant)
        variance = ((tastes[..., None, :] @ shop.covariance)[..., 0, :] * tastes).sum(-1, keepdims=True)
        return np.asarray(shop.taste / np.sqrt(variance) * tastes)

    def _first(self, of_items: FloatArray) -> FloatArray:
        """Of x, (d,), what is said of the items alone, whoever visits."""
        return np.kron(np.eye(1 + self._shop.visitor_dim)[0], of_items)


def _public(count: int) -> Streams:
    """Streams that anybody may know."""
    return Streams([SeedSequence([PUBLIC_SEED, number]) for number in range(count)])


def _stocks(visits: Sequence[Visit]) -> BoolArray | None:
    """What is available to each, (visits, R, N)."""
    found = [visit.context.available for visit in visits if visit.context.available is not None]
    return np.stack(found) if found else None
