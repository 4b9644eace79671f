"""What Python decides and contributes, for other languages to do the same: ``python -m tests.clients.fixtures OUT``.

Sets are those of `curation.device.choose`, and contributions those of `curation.contributions`. The worlds are made to
be hard: ties of equal and of nearly equal items, items that earn what the best set is worth, unequal, zero and negative
revenues, features that overflow or are denormal, utilities far beyond what exp can take.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quietshelf.curation.coins import SlotCoins
from quietshelf.curation.decisions import decide
from quietshelf.curation.device import Wishes, choose
from quietshelf.model.assortment import best
from quietshelf.model.assortment.exponential import exp
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import MAPS, FeatureMap, feature_map
from quietshelf.model.choice.portable import utilities
from quietshelf.model.types import Context, FloatArray, Release
from quietshelf.policies.chance import JITTER
from quietshelf.privacy.statistics import Grids, ObservedChoice, factors

KINDS = ("plain", "ties", "near ties", "equal", "indifferent", "extreme", "denormal", "far", "heavy", "overflow")
PER_WORLD = 20
"""Visitors to each model and catalogue."""


class World(NamedTuple):
    """A model and a catalogue.

    Attributes:
        kind: What makes it hard.
        made: The feature map.
        release: What was learned.
        catalogue: Features of items, (N, d2).
        revenue: (N,).
        visitor_dim: d1.
        fill: Whether as many items are shown as fit.
    """

    kind: str
    made: FeatureMap
    release: Release
    catalogue: FloatArray
    revenue: FloatArray
    visitor_dim: int
    fill: bool


def main(path: Path, cases: int = 3000, seed: int = 1) -> None:
    """Write fixtures to a file."""
    rng = np.random.default_rng(seed)
    found = {
        "worlds": [_visited(rng, _world(rng, KINDS[place % len(KINDS)])) for place in range(-(-cases // PER_WORLD))],
        "contributions": [_contribution(rng) for _ in range(min(cases // 3, 1000))],
        "exp": {"of": (given := rng.uniform(-300.0, 23.0, 20_000)).tolist(), "is": _digest(exp(given))},
        "coins": [{"coins": key.hex(), "uniforms": _coins(key).random((1, 9))[0].tolist()} for key in _keys(rng, 20)],
    }
    path.write_text(json.dumps(found), encoding="utf-8")


def _world(rng: np.random.Generator, kind: str) -> World:
    effects = int(rng.choice([0, 0, 3]))
    made = feature_map(str(rng.choice(list(MAPS))), intercept=bool(rng.random() < 0.8), effects=effects)
    items = 1500 if rng.random() < 0.01 else int(rng.integers(1, 60))
    visitor_dim, item_dim = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    catalogue = _catalogue(rng, kind, items, item_dim)
    release = _release(rng, made.dim(visitor_dim, item_dim), alike=made.name == "item")
    return World(kind, made, release, catalogue, _revenue(rng, kind, items), visitor_dim, bool(rng.random() < 0.2))


def _visited(rng: np.random.Generator, world: World) -> dict[str, Any]:
    """A world, and what Python shows to some visitors."""
    visitors = [_visitor(rng, world.kind, world.visitor_dim) for _ in range(PER_WORLD)]
    model = _model(world)
    ids = [str(item) for item in range(len(world.revenue))]
    catalogue = {
        "kind": "catalogue",
        "shelf": "teas",
        "edition": "one",
        "version": "1",
        "ids": ids,
        "features": world.catalogue.tolist(),
        "revenue": world.revenue.tolist(),
        "offerable": (rng.random(len(ids)) < rng.choice([1.0, 0.8])).tolist(),
    }
    visits = [_visit(rng, world, model, catalogue, visitor) for visitor in visitors]
    return {"kind": world.kind, "model": model, "catalogue": catalogue, "visits": visits}


def _visit(
    rng: np.random.Generator, world: World, model: dict[str, Any], catalogue: dict[str, Any], visitor: FloatArray
) -> dict[str, Any]:
    """One visitor, what Python shows, and whether a service that decides by faster sums would show the same."""
    ids, (key,), dim = catalogue["ids"], _keys(rng, 1), len(model["theta"])
    offerable = np.array(catalogue["offerable"])
    on = np.flatnonzero(offerable & (rng.random(len(ids)) < rng.choice([1.0, 0.7, 0.05])))
    capacity = int(rng.integers(1, min(len(ids), 8) + 1))
    required = rng.choice(on, size=min(2, capacity), replace=False) if rng.random() < 0.2 and len(on) > 1 else on[:0]
    normals = _coins(key).standard_normal((1, dim))[0].tolist() if model["draws"] else None
    slot = {"capacity": capacity, "fill": world.fill, "coins": key.hex(), "normals": normals}
    everything = len(on) == offerable.sum()
    candidates = None if everything else [ids[item] for item in on]
    wishes = Wishes(visitor.tolist(), candidates, required=[ids[item] for item in np.sort(required)])
    if world.kind == "indifferent":
        world = world._replace(revenue=_indifferent(world, visitor, key, capacity))
        catalogue = {**catalogue, "revenue": world.revenue.tolist()}
    decision = choose(model, catalogue, slot, wishes)
    context = Context(
        features=Catalogued(visitor, world.catalogue, world.made),
        revenue=world.revenue,
        capacity=capacity,
        available=None if len(on) == len(ids) else np.isin(np.arange(len(ids)), on),
        required=np.isin(np.arange(len(ids)), required) if len(required) else None,
        fill=world.fill,
    )
    (other,) = decide(["quiet"], [context], world.release, _coins(key))
    theta, covariance = np.array(model["theta"]), np.array(model["covariance"])
    with np.errstate(all="ignore"):
        utility = utilities(context.features, theta, covariance, model["radius"])  # type: ignore[arg-type]
    return {
        "visitor": visitor.tolist(),
        **slot,
        "candidates": candidates,
        "required": wishes.required,
        "revenue": catalogue["revenue"] if world.kind == "indifferent" else None,
        "items": decision.items.tolist(),
        "served": decision.items.tolist() == other.items.tolist(),
        "utilities": _digest(utility),
        "rows": [[repr(x) for x in row] for row in decision.rows.tolist()],  # JSON has no infinity
    }


def _catalogue(rng: np.random.Generator, kind: str, items: int, dim: int) -> FloatArray:
    catalogue = rng.normal(size=(items, dim))
    alike = rng.integers(0, max(items // 3, 1), size=items)  # several items alike, as where a column has few levels
    if kind == "ties":
        return np.round(catalogue[alike])
    if kind == "near ties":
        return np.asarray(catalogue[alike] * (1 + 1e-13 * rng.integers(-3, 4, size=catalogue.shape)))
    if kind == "equal":
        return np.asarray(catalogue[alike * 0])
    if kind == "denormal":
        return np.asarray(catalogue * rng.choice([1e-308, 1e-316, 5e-324], size=catalogue.shape))
    if kind in ("extreme", "overflow"):
        catalogue[0] *= rng.choice([1e60, 1e-300, 1.0] if kind == "extreme" else [1e200, 1.0])
    return catalogue


SIZES = {
    "extreme": (1e60, 1e-200, 5e-324, 1.0),
    "overflow": (1e300, 1e200, 1e150, 1.0),
    "denormal": (1e-308, 5e-324, 1e300, 1.0),
    "far": (200.0,),
    "heavy": (8.0,),
}
"""By which features of visitors are multiplied."""


def _visitor(rng: np.random.Generator, kind: str, dim: int) -> FloatArray:
    return np.asarray(rng.normal(size=dim) * rng.choice(SIZES.get(kind, (1.0,)), size=dim))


def _release(rng: np.random.Generator, dim: int, *, alike: bool) -> Release:
    root = rng.normal(size=(dim, dim + 2))
    return Release(
        theta=rng.normal(size=dim) * rng.choice([0.1, 1.0, 3.0]),
        precision=root @ root.T + np.eye(dim),
        radius=np.asarray(rng.choice([0.0, 1.0, 0.3])),
        explore=np.asarray(False),
        count=np.asarray(1),
        draws=np.asarray(float(rng.choice([0.0, 1.0])) if alike else 0.0),
    )


def _revenue(rng: np.random.Generator, kind: str, items: int) -> FloatArray:
    if kind == "heavy":  # beside large weights expected revenue has to be known to more digits than a double has
        return np.where(
            rng.random(items) < 0.8, 1.0 + 2.0**-52 * rng.integers(0, 9, items), rng.uniform(1.0, 2.5, items)
        )
    laws = (
        np.full(items, 2.5),
        rng.uniform(0.5, 5.0, items),
        rng.choice([1.0, 2.0, 3.0], items),
        rng.normal(size=items),
        -rng.uniform(0.0, 1.0, items),
        rng.uniform(0.5, 5.0, items) * rng.choice([1e150 / 5, 1e-150, 1.0]),
    )
    return np.asarray(laws[int(rng.choice(6, p=[0.35, 0.3, 0.2, 0.09, 0.01, 0.05]))])


def _indifferent(world: World, visitor: FloatArray, key: bytes, capacity: int) -> FloatArray:
    """Some items earn what the best set of all is worth to this visitor, to some units in the last place."""
    items = len(world.revenue)
    revenue = np.where(world.revenue > 0, world.revenue, 1.0)
    features = Catalogued(visitor, world.catalogue, world.made)
    utility = utilities(features, world.release.theta, world.release.covariance, float(world.release.radius))
    utility += JITTER * max(1.0, np.abs(utility).max()) * _coins(key).random((1, items))[0]
    worth = best(utility=utility, revenue=revenue, capacity=capacity).expected_revenue
    steps = np.arange(items) % 5 - 2
    return np.where(np.arange(items) % 2 == 1, worth + steps * np.spacing(worth), revenue)


def _model(world: World) -> dict[str, Any]:
    made, release, draws = world.made, world.release, float(world.release.draws)
    name = {"name": made.name, "intercept": made.intercept, "effects": made.effects}
    return {
        "kind": "model",
        "shelf": "teas",
        "release": int(release.count),
        "map": {**name, "visitor_dim": world.visitor_dim, "item_dim": world.catalogue.shape[1]},
        "theta": release.theta.tolist(),
        "covariance": release.covariance.tolist(),
        "radius": float(release.radius),
        "draws": draws,
        "root": release.root.tolist() if draws else None,
    }


def _contribution(rng: np.random.Generator) -> dict[str, Any]:
    """One visitor, and what Python makes of what they saw and chose."""
    dim, places = int(rng.integers(1, 9)), int(rng.integers(0, 7))
    rows = rng.normal(size=(places, dim)) * rng.choice([0.01, 1.0, 30.0, 1e200], p=[0.2, 0.6, 0.15, 0.05])
    chosen = int(rng.integers(-1, places)) if places else -1
    theta, coordinates = rng.normal(size=dim), rng.normal(size=(dim, dim)) * rng.choice([0.1, 1.0, 5.0])
    bound, grids = float(rng.choice([0.05, 0.7, 3.0])), Grids(2.0**-20, 2.0 ** -float(rng.integers(3, 31)))
    seen = ObservedChoice(rows[None], np.ones((1, places), dtype=bool), np.array([chosen]))
    found = factors(seen, theta, coordinates, bound, grids)
    return {
        "batch": {
            "theta": theta.tolist(),
            "coordinates": coordinates.tolist(),
            "bound": bound,
            "score_grid": grids.score,
            "row_grid": float(grids.rows),
        },
        "shown": rows.tolist(),
        "chosen": chosen,
        "score": found.score[0].tolist(),
        "rows": found.rows[0].tolist(),
    }


def _digest(numbers: FloatArray) -> str:
    """Of their bits; what is not a number, and minus zero, have many."""
    plain = np.where(np.isnan(numbers), np.nan, numbers) + 0.0
    return hashlib.sha256(plain.astype("<f8").tobytes()).hexdigest()


def _coins(key: bytes) -> SlotCoins:
    return SlotCoins([key])


def _keys(rng: np.random.Generator, count: int) -> list[bytes]:
    return [rng.bytes(16) for _ in range(count)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
