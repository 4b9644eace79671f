"""A request for an offer, checked in full before anything changes: an invalid one is not a visitor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.assortment import checks
from quietshelf.assortment.solver import make_rules
from quietshelf.choice.features import Catalogued, Dense
from quietshelf.choice.maps import feature_map
from quietshelf.shelf.settings import Settings
from quietshelf.shelf.stock import Stock
from quietshelf.types import BoolArray, Context, Features, finite, require, whole


def visitor_context(
    settings: Settings,
    stock: Stock,
    *,
    features: ArrayLike | None,
    revenue: ArrayLike | None = None,
    available: Any = None,
    required: Any = None,
    exclude: Any = None,
    capacity: int | None = None,
) -> Context:
    """The visitor as policies see one. Masks may be given as boolean arrays or as lists of item indices."""
    count, most = len(stock), settings.capacity
    room = most if capacity is None else whole("capacity", capacity, high=most, high_name="the shelf's capacity")
    allowed = _allowed(stock, available, exclude)
    needed = _mask("required", required, count)
    earned = stock.revenue if revenue is None else checks.revenue(revenue, count)
    require(earned.ndim <= 1, "revenue must be one visitor's, (items,)", shape=earned.shape)
    rules = make_rules((count,), room, allowed, needed, False, stock.groups, stock.limits)
    checks.feasible(rules, stock.limits, (count,))
    return Context(
        features=_features(settings, stock, features),
        revenue=np.broadcast_to(earned, (count,)),
        capacity=room,
        available=allowed,
        required=needed,
        groups=stock.groups,
        limits=stock.limits,
    )


def check_person(settings: Settings, person: str | None) -> None:
    """A person is a text; without one, visits cannot be counted."""
    if person is None:
        require(settings.visits == 1, "person must be given where visits of a person are counted", person=person)
    else:
        require(isinstance(person, str) and person != "", "person must be a non-empty text", person=type(person))
        require(not any(0xD800 <= ord(c) <= 0xDFFF for c in person), "person must be text that UTF-8 can hold")


def _mask(name: str, value: Any, count: int) -> BoolArray | None:
    mask = checks.mask(name, value, count)
    require(mask is None or mask.ndim == 1, f"{name} must be one visitor's, (items,)", shape=np.shape(value))
    return mask


def _allowed(stock: Stock, available: Any, exclude: Any) -> BoolArray:
    allowed = stock.offerable
    wanted, barred = _mask("available", available, len(stock)), _mask("exclude", exclude, len(stock))
    if wanted is not None:
        allowed = allowed & wanted
    return allowed if barred is None else allowed & ~barred


def _features(settings: Settings, stock: Stock, features: ArrayLike | None) -> Features:
    if settings.feature_map is None or stock.catalogue is None:
        if features is None:
            raise ValueError("features of every item must be given with each offer, got features=None")
        dense = finite("features", features, shape=(len(stock), settings.dim))
        require(dense.ndim == 2, "features must be one visitor's, (items, dim)", shape=dense.shape)
        return Dense(dense)
    chosen_map = feature_map(settings.feature_map, intercept=settings.intercept)
    if features is None and settings.visitor_dim is None and any(block.visitor for block in chosen_map.blocks):
        advice = "or the shelf be made with feature_map='item', where visitors are not told apart"
        raise ValueError(f"features must be given with each offer, {advice}, got features=None")
    visitor = finite("features", [] if features is None else features)
    require(visitor.ndim == 1, "features must be one visitor's, a list of numbers", shape=visitor.shape)
    if settings.visitor_dim is not None:
        wanted = settings.visitor_dim
        require(visitor.size == wanted, f"features must have length {wanted}", length=visitor.size)
    features_of = Catalogued(visitor, stock.catalogue, chosen_map)
    require(features_of.dim > 0, f"features must not be empty for the map {settings.feature_map}", features=features)
    return features_of
