"""The shop at work: replicates side by side, their visitors, choices and exact regret."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import BoolArray, Context, FloatArray, IntArray, Streams, balanced_normal
from quietshelf.research.environments.calibration import calibrated
from quietshelf.research.environments.logit import KnownRound, LogitRound, PreparedRounds
from quietshelf.research.environments.mixed import MixedRound, best_on_average

if TYPE_CHECKING:
    from quietshelf.research.environments.shop import Shop

TASTES, ITEMS, VISITORS, CHOICE, REVENUE, STOCK, CLASS, DRIFT = range(8)
"""The roles of a replicate's random streams: changing one law leaves the draws of the others alone."""
CLASSES = 16
"""Latent classes of visitors where tastes are mixed."""
PUBLIC_SEED = 1702
DECLARED = {"right": 1.0, "ten times": 10.0, "a tenth": 0.1, "nothing": 0.0}
"""By what the declared scales of features differ from the true ones."""


class ShopEnvironment(PreparedRounds):
    """R replicates of a shop, side by side; assortments may have an axis of contestants before theirs."""

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
        self._fixed = self._columns() if known else None
        self._thetas: FloatArray = np.empty((0, *self._tastes.shape))
        self._visits = 0

    @property
    def theta(self) -> FloatArray:
        """The tastes of the visitor who comes next, (R, d); their average where they are mixed."""
        if self.ahead:
            return self._tastes + self._intercept  # they stay, and the next visitors may be being drawn just now
        self._prepare()
        return np.asarray(self._thetas[self._used])

    @property
    def ahead(self) -> bool:
        """Unless tastes drift or items are new."""
        return not (self._shop.half_life or self._shop.new_every)

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
        here = self._on_the_shelf(np.asarray(self._next)) if shop.new_every else None
        available = None if here is None else np.broadcast_to(here, revenue.shape)
        return Context(Dense(np.swapaxes(columns, -1, -2)), revenue, shop.capacity, available)

    def _prepared(self, many: int) -> KnownRound:
        """The next rounds, as many as are worth solving together."""
        shop = self._shop
        self._thetas = self._drifted(many)
        columns = np.stack([self._columns() for _ in range(many)]) if self._fixed is None else self._fixed
        x = np.swapaxes(np.broadcast_to(columns, (many, *columns.shape[-3:])), -1, -2)
        revenue = np.broadcast_to(self._revenue, (many, *self._revenue.shape))
        context = Context(Dense(x), revenue, shop.capacity, self._stock(many))
        self._visits += many
        draws = self._streams[CHOICE].rounds(many).random((many, self._count))
        if shop.mixing:
            return self._mixed(context, draws)
        utility = context.features.utility(self._thetas)
        return KnownRound(context, utility, draws, LogitRound(context, utility, draws).best)

    def _mixed(self, context: Context, draws: FloatArray) -> KnownRound:
        classes = context.features.utility(self._thetas + self._apart[:, None])
        best = best_on_average(classes, context.revenue, self._shop.capacity, context.available)
        latent = (self._streams[CLASS].rounds(len(draws)).random(draws.shape) * CLASSES).astype(np.int64)
        own = np.take_along_axis(classes, latent[None, ..., None], axis=0)[0]
        return MixedRound(context, own, draws, best, np.ascontiguousarray(np.moveaxis(classes, 0, 1)))

    def _drifted(self, many: int) -> FloatArray:
        """The tastes of the visitors of the next rounds, (many, R, d)."""
        if not self._shop.half_life:
            return np.broadcast_to(self._tastes + self._intercept, (many, *self._tastes.shape))
        memory, found = 0.5 ** (1 / self._shop.half_life), list[FloatArray]()
        for _ in range(many):
            found.append(self._tastes + self._intercept)
            fresh = self._strong(self._streams[DRIFT].standard_normal(self._tastes.shape))
            self._tastes = memory * self._tastes + math.sqrt(1 - memory**2) * fresh
        return np.stack(found)

    def _stock(self, many: int) -> BoolArray | None:
        """What is available to the visitors of the next rounds, (many, R, N); None means everything."""
        shop, shape = self._shop, (many, self._count, self._shop.items)
        available: BoolArray | None = None
        if shop.availability < 1:
            available = self._streams[STOCK].rounds(many).random(shape) < shop.availability
        if shop.new_every:
            here = self._on_the_shelf(np.arange(self._visits, self._visits + many)[:, None, None])
            available = np.broadcast_to(here, shape) if available is None else available & here
        return available

    def _on_the_shelf(self, t: IntArray) -> BoolArray:
        """Items that have come by the time of visitor t, (..., N), where they come one after the other."""
        shop = self._shop
        return np.asarray(np.arange(shop.items) < shop.first_items + t // shop.new_every)

    def _columns(self) -> FloatArray:
        """Features of the visitors of one round, (R, d, N)."""
        shop = self._shop
        columns = shop.law.columns(self._streams[ITEMS], shop.items) if self._catalogue is None else self._catalogue
        if shop.visitor_dim:
            drawn = self._streams[VISITORS].standard_normal((self._count, shop.visitor_dim))
            visitor = np.append(np.ones((self._count, 1)), drawn, axis=1)
            columns = (visitor[:, :, None, None] * columns[:, None]).reshape(self._count, shop.dim, shop.items)
        return columns

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
