"""R1: whether a request is valid depends only on the request and on public state (docs/proofs.md, section 6).

It is checked completely before anything changes: an invalid request is not a visit and takes no slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.curation.settings import ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.data.tables import Schema
from quietshelf.model.assortment import checks
from quietshelf.model.assortment.solver import make_rules
from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.types import BoolArray, Context, Features, FloatArray, Id, finite, integer, require


def visitor_context(
    settings: ShelfSettings,
    stock: Stock,
    *,
    features: ArrayLike | Mapping[str, Any] | None,
    schema: Schema | None = None,
    revenue: ArrayLike | None = None,
    candidates: Any = None,
    required: Any = None,
    exclude: Any = None,
    capacity: int | None = None,
    ranking: Sequence[Id] | None = None,
) -> Context:
    """R1: validate a request and make the context that policies see. Masks may be boolean arrays or lists of items.

    Items are named by id, or by index if the stock has no ids; ``schema`` turns attributes into features. ``ranking``
    is what the shop would show this visitor today, best first. It must depend only on the visitor and on public data,
    which cannot be checked here.
    """
    count, most = len(stock), settings.capacity
    room = most if capacity is None else integer("capacity", capacity, high=most, high_name="the shelf's capacity")
    allowed = _allowed(stock, candidates, exclude)
    needed = _mask("required", required, stock)
    earned = stock.earned if revenue is None else checks.revenue(revenue, count)
    require(earned.ndim <= 1, "revenue must be one visitor's, (items,)", shape=earned.shape)
    if needed is not None:
        _check_required(stock, needed, allowed)
        rules = make_rules((count,), room, allowed, needed, False, stock.groups, stock.limits)
        checks.feasible(rules, stock.limits, (count,))
    return Context(
        features=_features(settings, stock, _encoded(schema, features)),
        revenue=earned if earned.shape == (count,) else np.broadcast_to(earned, (count,)),
        capacity=room,
        available=None if allowed is stock.offerable and stock.everything else allowed,
        required=needed,
        groups=stock.groups,
        limits=stock.limits,
        ranks=_ranks(settings, stock, ranking),
        fill=settings.fill,
    )


def _ranks(settings: ShelfSettings, stock: Stock, ranking: Sequence[Id] | None) -> FloatArray | None:
    """The place of each item in the present ranking: that of the offer, else that of the shelf."""
    if ranking is None:
        if settings.needs_ranking and stock.ranks is None:
            rule = "ranking must be given with each offer, or once for the shelf, to serve the present ranking"
            raise ValueError(f"{rule}, got ranking=None")
        return stock.ranks if settings.needs_ranking else None
    places = stock.places_in(ranking)
    return places if settings.needs_ranking else None  # ignored while the share is 1; that may change


def check_person(settings: ShelfSettings, person: str | None) -> None:
    """R1: check a person id: non-empty text, required where visits are counted. That one is given is public."""
    if person is None:
        require(settings.visits == 1, "person must be given where visits of a person are counted", person=person)
    else:
        given = "an empty text" if person == "" else f"an object of type {type(person).__name__}"
        require(isinstance(person, str) and person != "", f"person must be a non-empty text, got {given}")
        require(_encodes(person), "person must be text that UTF-8 can hold")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encoded(schema: Schema | None, features: ArrayLike | Mapping[str, Any] | None) -> ArrayLike | None:
    """Turn a visitor's attributes into features; features pass unchanged."""
    if not isinstance(features, Mapping):
        told = features is not None or schema is None or not schema.visitors
        require(told, "a visitor's attributes must be given, {} where none is known", features=features)
        return features
    if schema is None:
        raise ValueError(f"attributes of a visitor need a shelf with a schema, got features={dict(features)!r}")
    return schema.visitor(features)


def _check_required(stock: Stock, needed: BoolArray, allowed: BoolArray) -> None:
    """Report a clash by item id, before `checks.feasible` would report it by index."""
    clash = np.flatnonzero(needed & ~allowed)
    if stock.ids is not None and clash.size:
        raise ValueError(f"required items must be available, got item {stock.ids[clash[0]]!r}")


def _mask(name: str, value: Any, stock: Stock) -> BoolArray | None:
    if value is None:
        return None
    mask = checks.mask(name, stock.places(name, value), len(stock))
    if mask is not None:
        require(mask.ndim == 1, f"{name} must be one visitor's, (items,)", shape=mask.shape)
    return mask


def _allowed(stock: Stock, candidates: Any, exclude: Any) -> BoolArray:
    allowed = stock.offerable
    wanted, barred = _mask("candidates", candidates, stock), _mask("exclude", exclude, stock)
    if wanted is not None:
        allowed = allowed & wanted
    return allowed if barred is None else allowed & ~barred


def _features(settings: ShelfSettings, stock: Stock, features: ArrayLike | None) -> Features:
    if settings.map is None or stock.catalogue is None:
        if features is None:
            raise ValueError("features of every item must be given with each offer, got features=None")
        dense = finite("features", features, shape=(len(stock), settings.dim))
        require(dense.ndim == 2, "features must be one visitor's, (items, dim)", shape=dense.shape)
        return Dense(np.ascontiguousarray(dense))  # one memory layout, so that sums run in the same order for all
    visitor = finite("features", [] if features is None else features)
    require(visitor.ndim == 1, "features must be one visitor's, a list of numbers", shape=visitor.shape)
    wanted = settings.visitor_dim
    require(visitor.size == wanted, f"features must have length {wanted}", length=visitor.size)
    return Catalogued(visitor, stock.catalogue, settings.map)
