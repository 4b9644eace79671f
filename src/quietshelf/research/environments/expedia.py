"""The hotel world: searches of a log resampled, choices simulated from tastes fitted to them, exact regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import SeedSequence

from quietshelf.data.logs.held_out import best_ridge
from quietshelf.data.logs.searches import Searches
from quietshelf.model.choice import fit
from quietshelf.model.choice.maps import FeatureMap, feature_map
from quietshelf.model.choice.tables import Drawn, VisitorTable
from quietshelf.model.types import FloatArray, IntArray, finite, integer, positive, require
from quietshelf.research.environments.resampled import ResampledEnvironment, Visitors


@dataclass(frozen=True, kw_only=True, eq=False)
class Hotels:
    """A semi-synthetic world: x of a visitor and a hotel is ``feature_map(u, v) / feature_scale``.

    Attributes:
        visitors: u of the searches to draw from, (n, d1).
        catalogue: v of the hotels, (N, d2).
        feature_map: How x is made of the two.
        theta: True tastes, (d,), for x after its division.
        feature_scale: What x is divided by.
        capacity: K.
        visitor_scale: Declared standard deviations of the visitor features, one or (d1,); not measured.
        visits: How often one search may come; None draws with replacement, as the paper does.
        revenue: What each hotel earns, (N,); None for 1 each.
    """

    visitors: FloatArray
    catalogue: FloatArray
    feature_map: FeatureMap
    theta: FloatArray
    feature_scale: float = 1.0
    capacity: int = 10
    visitor_scale: float | FloatArray = 1.0
    visits: int | None = None
    revenue: FloatArray | None = None

    def __post_init__(self) -> None:
        positive("feature_scale", self.feature_scale)
        finite("theta", self.theta, shape=(self.dim,))
        scale = finite("visitor_scale", np.broadcast_to(self.visitor_scale, self.visitors.shape[1:]))
        require(bool((scale > 0).all()), "visitor_scale must be positive", visitor_scale=self.visitor_scale)
        object.__setattr__(self, "visitor_scale", scale)
        integer("capacity", self.capacity, high=self.items, high_name="items")
        if self.revenue is not None:
            finite("revenue", self.revenue, shape=(self.items,))
        if self.visits is not None:
            integer("visits", self.visits)

    @property
    def items(self) -> int:
        """The number of hotels, N."""
        return self.table.items

    @property
    def dim(self) -> int:
        """The length of theta, d."""
        return self.table.dim

    def open(self, seeds: Sequence[SeedSequence]) -> ResampledEnvironment:
        """The world, once for each seed."""
        return ResampledEnvironment(self.population(), seeds, visits=self.visits)

    def population(self) -> Visitors:
        """Everybody who may come."""
        everybody = self.features(np.arange(len(self.visitors)))
        return Visitors(
            features=self.features,
            utility=everybody.utility(self.theta),
            revenue=np.ones(self.items) if self.revenue is None else self.revenue,
            capacity=self.capacity,
            theta=self.theta,
        )

    def features(self, numbers: IntArray) -> Drawn:
        """What the searches with these numbers, (R,), make of the hotels."""
        return self.table.drawn(numbers)

    @cached_property
    def table(self) -> VisitorTable:
        """All searches beside all hotels: who learns from them can keep rounds as numbers."""
        return VisitorTable(self.visitors, self.catalogue, self.feature_map, self.feature_scale)


def fitted(
    searches: Searches,
    *,
    feature_map_name: str = "concat",
    ridge: float | None = None,
    impressions: int = 50,
    quantile: float = 0.999,
    capacity: int = 10,
    visitor_scale: float = 1.0,
    visits: int | None = None,
) -> Hotels:
    """The world of a log: theta minimises ``-log-likelihood + ridge |theta|²/2`` on the features as they are.

    Args:
        searches: The log.
        feature_map_name: ``concat``, ``outer``, ``full`` or ``item``.
        ridge: How strongly theta is pulled to zero; None chooses it by held-out likelihood.
        impressions: Hotels shown less often are dropped; who booked one of them counts as having booked none.
        quantile: x is divided by this quantile of |x| over all searches and hotels, and theta multiplied by it.
        capacity: K.
        visitor_scale: Declared standard deviation of the visitor features.
        visits: How often one search may come; None for any number of times.
    """
    require(0 < quantile <= 1, "quantile must be in (0, 1]", quantile=quantile)
    kept, chosen_map = searches.frequent(impressions), feature_map(feature_map_name)
    rounds, catalogue = kept.rounds(chosen_map), kept.item_features()
    strength = best_ridge(rounds) if ridge is None else positive("ridge", ridge, zero=True)
    found = fit(*rounds, ridge=strength)
    require(bool(found.converged), "the fit must converge: more ridge", gradient_norm=float(found.gradient_norm))
    scale = float(np.quantile(VisitorTable(kept.visitor, catalogue, chosen_map).lengths, quantile))
    return Hotels(
        visitors=kept.visitor,
        catalogue=np.asfortranarray(catalogue),
        feature_map=chosen_map,
        theta=found.theta * scale,
        feature_scale=scale,
        capacity=capacity,
        visitor_scale=visitor_scale,
        visits=visits,
    )
