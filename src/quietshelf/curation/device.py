"""Offers and contributions computed on the visitor's own device: what it receives, and what it does with it.

A device receives public data and the coins of its own slot, nothing else. It computes what the service would have
computed (R3, R6), in arithmetic whose every step is specified; features, wishes, items shown and the choice never leave
it. The service accepts what it sends back only if it passes `contributed`, and the theorem needs no more
(docs/proofs.md, section 6).

The three documents are plain data, signed and sent by the service; ``clients/typescript`` reads the same documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from quietshelf.curation.batches import Batch
from quietshelf.curation.coins import SlotCoins
from quietshelf.curation.contributions import contributions
from quietshelf.curation.decisions import Decision
from quietshelf.curation.requests import visitor_context
from quietshelf.curation.settings import ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.assortment import items_for
from quietshelf.model.assortment.exponential import exp
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.portable import utilities
from quietshelf.model.types import NOTHING, FloatArray, Release, integer, require
from quietshelf.policies.chance import DOUBT, JITTER, LARGEST, without_ties
from quietshelf.policies.shortlist import MANY
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.quiet import OpenBatch
from quietshelf.privacy.statistics import SCORE_BOUND, Factors, broken_rule
from quietshelf.privacy.statistics.factors import MARGIN, MOST_MOVED
from quietshelf.privacy.statistics.pair import STEPS

Document = Mapping[str, Any]
MOST_ITEMS = MANY
"""Largest catalogue that a device chooses from: larger ones use a shortlist, which needs a server."""
MOST_SHOWN = 100
MOST_ROWS = MOST_SHOWN + 1
"""Rows of a contribution: one per item shown, and one for no choice."""
DEVICE = "device"
"""The setting for contributions computed on the device."""
POLICY = "quiet"


def model_document(shelf: str, settings: ShelfSettings, stock: Stock, release: Release) -> dict[str, Any]:
    """What a device needs to know about a release to choose what to show."""
    if settings.map is None or stock.catalogue is None:
        raise ValueError("a device needs a catalogue to choose from, got catalogue=None")
    drawn = bool(release.draws.any())
    return {
        "kind": "model",
        "shelf": shelf,
        "release": int(release.count),
        "map": {
            "name": settings.feature_map,
            "intercept": settings.intercept,
            "effects": settings.item_effects,
            "visitor_dim": settings.visitor_dim,
            "item_dim": int(stock.catalogue.shape[1]),
        },
        "theta": release.theta.tolist(),
        "covariance": release.covariance.tolist(),
        "radius": float(release.radius),
        "draws": float(release.draws),
        "root": release.root.tolist() if drawn else None,
        "jitter": JITTER,
        "doubt": DOUBT,
        "largest": LARGEST,
    }


def catalogue_document(shelf: str, version: int, ids: Sequence[str], stock: Stock) -> dict[str, Any]:
    """The items, by number; the version is text, because it may exceed JavaScript's integers."""
    return {
        "kind": "catalogue",
        "shelf": shelf,
        "version": str(version),
        "ids": list(ids),
        "features": np.asarray(stock.catalogue).tolist(),
        "revenue": stock.revenue.tolist(),
        "offerable": stock.offerable.tolist(),
    }


def batch_document(shelf: str, batch: Batch) -> dict[str, Any]:
    """What a batch froze that contributions are computed with."""
    frozen = batch.frozen
    grids = batch_pair.grids(frozen.scales, frozen.size, batch.grid)
    return {
        "kind": "batch",
        "shelf": shelf,
        "batch": frozen.number,
        "size": frozen.size,
        "theta": frozen.theta.tolist(),
        "coordinates": frozen.coordinates.tolist(),
        "bound": float(frozen.scales.bound),
        "information_scale": float(frozen.scales.information),
        "score_grid": float(grids.score),
        "row_grid": float(grids.rows),
        "score_bound": SCORE_BOUND,
        "steps": STEPS,
        "margin": MARGIN,
        "most_moved": MOST_MOVED,
    }


class Wishes(NamedTuple):
    """What one visitor asks for; it stays on the device.

    Attributes:
        features: Features of the visitor, of the length that the model states.
        candidates: Ids of items that may be shown; None for all.
        exclude: Ids of items that must not be shown.
        capacity: The most items shown, at most the slot's capacity; None for that capacity.
        required: Ids of items that must be shown.
    """

    features: Sequence[float] = ()
    candidates: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    capacity: int | None = None
    required: Sequence[str] = ()


def choose(model: Document, catalogue: Document, slot: Document, wishes: Wishes) -> Decision:
    """R3: decide what to show: items by number, and their features x.

    The order of every operation is specified (`choice.portable`, `assortment.exponential`), so that every device shows
    the same items, whatever its language and processor. A service that sums in another order shows them too, unless
    items tie to within rounding; then both sets are worth the same.
    """
    ids, named = catalogue["ids"], model["map"]
    features = np.reshape(np.asarray(catalogue["features"], dtype=np.float64), (len(ids), named["item_dim"]))
    stock = Stock.of(len(ids), features, None, None)._with(
        revenue=np.asarray(catalogue["revenue"], dtype=np.float64),
        available=np.asarray(catalogue["offerable"], dtype=bool),
        ids=tuple(ids),
    )
    most = slot["capacity"]
    settings = ShelfSettings(
        rho=1.0,  # unused here: releases were noisy before they arrived
        capacity=most,
        fill=slot["fill"],
        feature_map=named["name"],
        intercept=named["intercept"],
        item_effects=named["effects"],
        visitor_dim=named["visitor_dim"],
    )
    asked = integer("capacity", most if wishes.capacity is None else wishes.capacity, high=most)
    context = visitor_context(
        settings,
        stock,
        features=list(wishes.features),
        candidates=wishes.candidates,
        required=list(wishes.required) or None,
        exclude=list(wishes.exclude) or None,
        capacity=min(asked, len(ids)),
    )
    assert isinstance(context.features, Catalogued)  # noqa: S101 - settings have a map
    theta, covariance = _tastes(model, slot), np.array(model["covariance"], dtype=np.float64)
    coins = SlotCoins.seeded([slot["coins"]]).random((1, len(ids)))[0]
    with np.errstate(all="ignore"):  # numbers that overflow still get an offer, and no warning may show them
        utility = utilities(context.features, theta, covariance, model["radius"])
        items = items_for(context, without_ties(utility, coins), context.revenue, exp)
        items = items[items != NOTHING]
        return Decision(items, context.features.rows(items))


def contribute(batch: Document, rows: FloatArray, place: int) -> dict[str, Any]:
    """R6: the contribution of a visitor who saw items with these features, (k, d), and chose ``place``, -1 for none."""
    dim = len(batch["theta"])
    [part] = contributions([np.reshape(rows, (-1, dim))], [place], _frozen(batch), batch["score_grid"])
    return {"score": part[:dim].tolist(), "rows": part[dim:].reshape(-1, dim).tolist()}


def contributed(score: Sequence[float], rows: Sequence[Sequence[float]], batch: Batch) -> FloatArray:
    """R6: check a received contribution and return it flat; a `ValueError` says why it is refused.

    A contribution that passes has every property that the theorem needs, whoever computed it: a lying device does no
    more than some visitor could. The check depends only on the contribution and on what its batch froze.
    """
    frozen = batch.frozen
    dim = frozen.theta.shape[-1]
    require(len(score) == dim, f"score must have {dim} numbers", length=len(score))
    require(len(rows) <= MOST_ROWS, f"rows must be at most {MOST_ROWS}", rows=len(rows))
    require(all(len(row) == dim for row in rows), f"each of rows must have {dim} numbers")
    given = Factors(np.array(score, dtype=np.float64), np.array(rows, dtype=np.float64).reshape(-1, dim))
    grids = batch_pair.grids(frozen.scales, frozen.size, batch.grid)
    rule = broken_rule(given, float(frozen.scales.bound), grids)
    if rule is not None:
        raise ValueError(rule)
    return np.concatenate([given.score, given.rows.ravel()]) + 0.0  # no negative zeros


def check_device(settings: ShelfSettings, *, groups: bool, attributes: bool) -> None:
    """Refuse settings that a device cannot serve, or that would need the visitor's data."""
    require(settings.feature_map is not None, "contributions on the device need a catalogue")
    rule = "with contributions='device'"
    most, silent = settings.capacity, settings.on_no_answer
    require(most <= MOST_SHOWN, f"capacity must be at most {MOST_SHOWN} {rule}", capacity=most)
    require(silent == "zero", f"on_no_answer must be 'zero' {rule}: nobody else can compute it", on_no_answer=silent)
    require(settings.policy == POLICY, f"policy must be {POLICY!r} {rule}", policy=settings.policy)
    require(not groups, f"limits on groups must be left out {rule}")
    require(not attributes, f"visitors must have features, and no attributes in the schema, {rule}")
    arms = settings.comparison == 0 and settings.learned_share == 1
    require(arms, f"comparison must be 0 and learned_share 1 {rule}", comparison=settings.comparison)


def _tastes(model: Document, slot: Document) -> FloatArray:
    """Tastes drawn for this visitor if the model asks for draws, (d,), else theta. Sums run from first to last."""
    theta = np.array(model["theta"], dtype=np.float64)
    if model["draws"] == 0:
        return theta
    away = np.zeros(theta.size)
    for normal, column in zip(slot["normals"], np.array(model["root"], dtype=np.float64).T, strict=True):
        away += normal * column
    return np.asarray(theta + model["draws"] * away)


def _frozen(batch: Document) -> OpenBatch:
    """Read from a document what the batch froze."""
    theta = np.asarray(batch["theta"], dtype=np.float64)
    none = np.zeros((1, theta.size, theta.size))
    return OpenBatch(
        number=batch["batch"],
        size=batch["size"],
        theta=theta,
        coordinates=np.asarray(batch["coordinates"], dtype=np.float64),
        scales=batch_pair.Scales(0.0, batch["information_scale"], batch["bound"]),
        expected=none,
        spread=np.asarray(1.0),
    )
