"""What Python decides and contributes, for other languages to do the same: ``python -m tests.clients.fixtures OUT``.

Offers are those of `curation.decisions.decide`, the very function by which the service makes them, and contributions
those of `curation.contributions`. The models are made to be hard: ties of equal and of nearly equal items, unequal,
zero and negative revenues, features that overflow, utilities far beyond what exp can take.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.choice.features import Catalogued
from quietshelf.choice.maps import MAPS, FeatureMap, feature_map
from quietshelf.curation.coins import SlotCoins
from quietshelf.curation.decisions import decide
from quietshelf.statistics import Grids, Shown, factors
from quietshelf.types import Context, FloatArray, Release

KINDS = ("plain", "ties", "near ties", "extreme", "far", "heavy", "overflow")


def main(path: Path, cases: int = 3000, seed: int = 1) -> None:
    """Write fixtures to a file."""
    rng = np.random.default_rng(seed)
    found = {
        "choices": [_choice(rng, KINDS[place % len(KINDS)]) for place in range(cases)],
        "contributions": [_contribution(rng) for _ in range(cases // 3)],
        "coins": [{"coins": key.hex(), "uniforms": _coins(key).random((1, 9))[0].tolist()} for key in _keys(rng, 20)],
    }
    path.write_text(json.dumps(found), encoding="utf-8")


def _choice(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    """One visitor before one catalogue, and what Python shows."""
    made = _map(rng)
    items = 1500 if rng.random() < 0.01 else int(rng.integers(2, 60))
    visitor_dim, item_dim = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    visitor, catalogue = _features(rng, kind, visitor_dim, items, item_dim)
    dim = made.dim(visitor_dim, item_dim)
    release = _release(rng, dim, alike=made.name == "item")
    revenue, (key,) = _revenue(rng, kind, items), _keys(rng, 1)
    capacity, fill = int(rng.integers(1, min(items, 8) + 1)), bool(rng.random() < 0.2)
    available = rng.random(items) < 0.8 if rng.random() < 0.4 else np.ones(items, dtype=bool)
    required = None
    if rng.random() < 0.2 and available.sum() >= capacity:
        required = np.isin(
            np.arange(items), rng.choice(np.flatnonzero(available), size=min(2, capacity), replace=False)
        )
    context = Context(
        features=Catalogued(visitor, catalogue, made),
        revenue=revenue,
        capacity=capacity,
        available=None if available.all() else available,
        required=required,
        fill=fill,
    )
    (decision,) = decide(["quiet"], [context], release, _coins(key))
    draws = float(release.draws)
    return {
        "kind": kind,
        "model": _model(made, release, visitor_dim, item_dim),
        "features": catalogue.tolist(),
        "revenue": revenue.tolist(),
        "available": available.tolist(),
        "required": [] if required is None else np.flatnonzero(required).tolist(),
        "visitor": visitor.tolist(),
        "capacity": capacity,
        "fill": fill,
        "coins": key.hex(),
        "normals": _coins(key).standard_normal((1, dim))[0].tolist() if draws else None,
        "items": decision.items.tolist(),
        "rows": [[repr(x) for x in row] for row in decision.rows.tolist()],  # JSON has no infinity
    }


def _map(rng: np.random.Generator) -> FeatureMap:
    return feature_map(
        str(rng.choice(list(MAPS))), intercept=bool(rng.random() < 0.8), effects=int(rng.choice([0, 0, 3]))
    )


def _features(
    rng: np.random.Generator, kind: str, visitor_dim: int, items: int, item_dim: int
) -> tuple[FloatArray, FloatArray]:
    """Features of the visitor and of the items."""
    visitor, catalogue = rng.normal(size=visitor_dim), rng.normal(size=(items, item_dim))
    if kind == "ties":  # several items alike, as where a column has few levels
        catalogue = np.round(catalogue[rng.integers(0, max(items // 3, 1), size=items)])
    elif kind == "near ties":
        catalogue = catalogue[rng.integers(0, max(items // 3, 1), size=items)]
        catalogue = catalogue * (1 + 1e-13 * rng.integers(-3, 4, size=catalogue.shape))
    elif kind == "extreme":
        visitor = visitor * rng.choice([1e60, 1e-200, 5e-324, 1.0], size=visitor_dim)
        catalogue[0] *= rng.choice([1e60, 1e-300, 1.0])
    elif kind == "overflow":  # of products: what becomes of infinity less infinity depends on the processor
        visitor = visitor * rng.choice([1e200, 1e150], size=visitor_dim)
        catalogue[0] *= rng.choice([1e200, 1.0])
    elif kind in ("far", "heavy"):
        visitor *= 200.0 if kind == "far" else 8.0
    return visitor, catalogue


def _release(rng: np.random.Generator, dim: int, *, alike: bool) -> Release:
    root = rng.normal(size=(dim, dim + 2))
    radius = np.asarray(rng.choice([0.0, 1.0, 0.3]))
    draws = np.asarray(float(rng.choice([0.0, 1.0])) if alike else 0.0)
    return Release(
        theta=rng.normal(size=dim) * rng.choice([0.1, 1.0, 3.0]),
        precision=root @ root.T + np.eye(dim),
        radius=radius,
        explore=np.asarray(False),
        count=np.asarray(1),
        draws=draws,
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
    )
    return np.asarray(laws[int(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1]))])


def _model(made: FeatureMap, release: Release, visitor_dim: int, item_dim: int) -> dict[str, Any]:
    name = {"name": made.name, "intercept": made.intercept, "effects": made.effects}
    draws = float(release.draws)
    return {
        "kind": "model",
        "shelf": "teas",
        "release": int(release.count),
        "map": {**name, "visitor_dim": visitor_dim, "item_dim": item_dim},
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
    seen = Shown(rows[None], np.ones((1, places), dtype=bool), np.array([chosen]))
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


def _coins(key: bytes) -> SlotCoins:
    return SlotCoins([key])


def _keys(rng: np.random.Generator, count: int) -> list[bytes]:
    return [rng.bytes(16) for _ in range(count)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
