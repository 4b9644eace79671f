"""A shop's log as a semi-synthetic world: its rounds resampled, choices simulated from tastes fitted to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence

from quietshelf.data.logs.log import Candidates, Log
from quietshelf.model.choice import fit
from quietshelf.model.choice.features import Dense
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import BoolArray, FloatArray, IntArray, check_shape, finite, integer, require
from quietshelf.research.environments.expedia import Hotels
from quietshelf.research.environments.resampled import ResampledEnvironment, Visitors


@dataclass(frozen=True, kw_only=True, eq=False)
class Logged:
    """A world in which the visitors and items of a log come again; an item is a place among a round's candidates.

    Attributes:
        x: Features of every candidate of every round, (n, J, d).
        available: Which places hold a candidate, (n, J).
        revenue: What each earns, (n, J).
        theta: True tastes, (d,).
        capacity: K.
    """

    x: FloatArray
    available: BoolArray
    revenue: FloatArray
    theta: FloatArray
    capacity: int

    def __post_init__(self) -> None:
        finite("x", self.x, shape=(*self.available.shape, None))
        check_shape("revenue", finite("revenue", self.revenue), self.available.shape)
        finite("theta", self.theta, shape=(self.dim,))
        integer("capacity", self.capacity, high=self.items, high_name="items")

    @property
    def items(self) -> int:
        """The most candidates of a round, N."""
        return int(self.x.shape[1])

    @property
    def dim(self) -> int:
        """The length of theta, d."""
        return int(self.x.shape[2])

    def open(self, seeds: Sequence[SeedSequence]) -> ResampledEnvironment:
        """The world, once for each seed."""
        return ResampledEnvironment(self.population(), seeds)

    def population(self) -> Visitors:
        """Everybody who may come."""
        return Visitors(
            features=self._features,
            utility=self.x @ self.theta,
            revenue=self.revenue,
            capacity=self.capacity,
            theta=self.theta,
            available=self.available,
        )

    def _features(self, numbers: IntArray) -> Dense:
        return Dense(self.x[numbers])


def world_of(log: Log, feature_map: FeatureMap, *, ridge: float = 1.0, capacity: int | None = None) -> Logged | Hotels:
    """The world fitted on a log, not in private.

    Where the log says what else could have been shown, each round keeps its own candidates and their features of that
    moment. Otherwise every item of the log may be shown to everybody, with its average features and revenue.
    """
    features = feature_map.dim(len(log.visitor_names), len(log.item_names))
    require(features > 0, "the log must have features for this map", feature_map=feature_map.name)
    found = fit(*log.offered(feature_map), ridge=ridge)
    require(bool(found.converged), "the fit must converge: more ridge", gradient_norm=float(found.gradient_norm))
    most = log.capacity if capacity is None else capacity
    if log.candidates:
        return world_of_candidates(log.offerable(feature_map), theta=found.theta, capacity=most)
    return world_of_items(log.visitor, *log.catalogue(), feature_map, theta=found.theta, capacity=most)


def world_of_candidates(candidates: Candidates, *, theta: FloatArray, capacity: int) -> Logged:
    """The world in which each round keeps its own candidates."""
    features, _, available = candidates.rounds
    return Logged(x=features, available=available, revenue=candidates.revenue, theta=theta, capacity=capacity)


def world_of_items(
    visitors: FloatArray,
    catalogue: FloatArray,
    revenue: FloatArray,
    feature_map: FeatureMap,
    *,
    theta: FloatArray,
    capacity: int,
) -> Hotels:
    """The world in which every item may be shown to everybody."""
    return Hotels(
        visitors=visitors,
        catalogue=np.asfortranarray(catalogue),
        feature_map=feature_map,
        theta=theta,
        capacity=capacity,
        revenue=revenue,
    )
