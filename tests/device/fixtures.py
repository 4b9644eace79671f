"""Cases for devices that are written in another language: what Python shows, contributes, tosses and signs.

``python tests/device/fixtures.py OUT.json --cases 2000``; the same seed gives the same cases. A device is right if it
shows the same items and contributes the same numbers. A number whose exact value lies at a boundary of rounding may
differ by one step of the grid: the service takes either.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from quietshelf.client import ticket
from quietshelf.curation.batches import Batch
from quietshelf.curation.coins import SlotCoins
from quietshelf.curation.device import Wishes, batch_document, catalogue_document, choose, contribute, model_document
from quietshelf.curation.settings import ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.types import Release
from quietshelf.privacy.release.batch_pair import scales
from quietshelf.privacy.release.noise import GRID
from quietshelf.privacy.release.quiet import OpenBatch
from quietshelf.serving.service.access import signing

SHELF = "teas"
PER_MODEL = 20
"""Cases that share a model and a catalogue."""


def cases(count: int, seed: int) -> dict[str, Any]:
    """So many choices, and as many contributions, of all kinds."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {name: [] for name in ("models", "catalogues", "batches", "choices", "contributions")}
    while len(found["choices"]) < count:
        _world(rng, found)
    drawn = [SlotCoins([rng.bytes(16)]) for _ in range(20)]
    found["coins"] = [{"coins": each.seeds[0], "uniforms": each.random((1, 9))[0].tolist()} for each in drawn]
    found["tickets"] = [_ticket(rng, person) for person in (None, "customer 17", "Zoë 7")]
    found["signatures"] = [_signature(rng, each) for each in (found["models"][0], found["catalogues"][0], {"x": "Zoë"})]
    return found


def _world(rng: np.random.Generator, found: dict[str, Any]) -> None:
    """One model, catalogue and batch, and visitors who meet them."""
    kind = rng.choice(["plain", "plain", "ties", "revenues", "extreme", "popular"])
    name = str(rng.choice(list(MAPS)))
    visitor_dim = 0 if kind == "popular" else int(rng.integers(1, 4))
    name = "item" if kind == "popular" else name
    items, item_dim = int(rng.integers(1, 30)), int(rng.integers(1, 4))
    effects = int(rng.integers(0, items + 3)) if rng.random() < 0.3 else 0
    settings = ShelfSettings(
        rho=1.0,
        capacity=int(rng.integers(1, 11)),
        fill=bool(rng.random() < 0.2),
        feature_map=name,
        intercept=bool(rng.random() < 0.8),
        item_effects=effects,
        visitor_dim=visitor_dim,
    )
    stock = _stock(rng, kind, items, item_dim)
    dim = feature_map(name, intercept=settings.intercept, effects=effects).dim(visitor_dim, item_dim)
    number = len(found["models"])
    release, batch = _release(rng, kind, dim, number), _batch(rng, dim, number)
    ids = [str(each) for each in stock.ids or ()]
    model = model_document(SHELF, settings, stock, release)
    catalogue = catalogue_document(SHELF, number, ids, stock)
    found["models"].append(model)
    found["catalogues"].append(catalogue)
    found["batches"].append(batch_document(SHELF, batch))
    for _ in range(PER_MODEL):
        _visit(rng, kind, settings, found)


def _stock(rng: np.random.Generator, kind: str, items: int, dim: int) -> Stock:
    features = rng.normal(size=(items, dim))
    if kind == "ties":
        features = np.round(features[rng.integers(0, max(1, items // 4), items)], 1)
    revenue = rng.uniform(0.5, 10.0, items) if kind == "revenues" or rng.random() < 0.2 else np.full(items, 3.0)
    if kind == "revenues" and rng.random() < 0.3:
        revenue[rng.integers(0, items)] = rng.choice([0.0, -1.0, 1e6])
    offerable = rng.random(items) < 0.9
    offerable[0] = True
    stock = Stock.of(items, features, None, None)
    return stock._with(revenue=revenue, available=offerable, ids=tuple(f"item {each}" for each in range(items)))


def _release(rng: np.random.Generator, kind: str, dim: int, number: int) -> Release:
    root = rng.normal(size=(dim, dim))
    return Release(
        theta=rng.normal(size=dim) * rng.choice([0.1, 1.0, 3.0]),
        precision=root @ root.T + np.eye(dim),
        radius=np.asarray(float(rng.choice([0.0, 0.5, 1.0]))),
        explore=np.asarray(False),
        count=np.asarray(number),
        draws=np.asarray(0.45 if kind == "popular" else float(rng.choice([0.0, 0.225]))),
    )


def _batch(rng: np.random.Generator, dim: int, number: int) -> Batch:
    bound = float(rng.choice([0.25, 1.0, 3.0]))
    frozen = OpenBatch(
        number=number,
        size=int(rng.integers(10, 50_000)),
        theta=rng.normal(size=dim),
        coordinates=np.triu(rng.normal(size=(dim, dim))) * rng.choice([0.1, 1.0, 10.0]),
        scales=scales(rho=float(rng.choice([0.1, 1.0])), bound=bound),
        expected=np.zeros((1, dim, dim)),
        spread=np.asarray(1.0),
    )
    return Batch(frozen, GRID, 60.0)


def _visit(rng: np.random.Generator, kind: str, settings: ShelfSettings, found: dict[str, Any]) -> None:
    model, catalogue, batch = (found[name][-1] for name in ("models", "catalogues", "batches"))
    ids, place = catalogue["ids"], len(found["models"]) - 1
    features = rng.normal(size=settings.visitor_dim)
    if kind == "extreme":
        features *= 10.0 ** rng.choice([-320, -160, 0, 3, 100, 160, 200, 300])
    some = [str(each) for each in rng.permutation(ids)[: int(rng.integers(0, 3))]]
    candidates = [str(each) for each in rng.permutation(ids)[: int(rng.integers(1, len(ids) + 1))]]
    wishes = Wishes(
        features.tolist(),
        sorted(candidates) if rng.random() < 0.2 else None,
        sorted(some),
        int(rng.integers(1, settings.capacity + 1)) if rng.random() < 0.2 else settings.capacity,
    )
    coins = SlotCoins([rng.bytes(16)])
    normals = coins.standard_normal((1, len(model["theta"])))[0].tolist() if model["draws"] else None
    slot = {"coins": coins.seeds[0], "normals": normals, "capacity": settings.capacity, "fill": settings.fill}
    decision = choose(model, catalogue, slot, wishes)
    shown: dict[str, Any] = {"visitor": wishes.features, "candidates": wishes.candidates, "exclude": wishes.exclude}
    shown |= {**slot, "capacity": wishes.capacity, "items": [ids[item] for item in decision.items.tolist()]}
    found["choices"].append({"model": place, "catalogue": place, **shown})
    if np.isfinite(decision.rows).all():
        chosen = int(rng.integers(-1, len(decision.items)))
        part = contribute(batch, decision.rows, chosen)
        found["contributions"].append({"batch": place, "shown": decision.rows.tolist(), "chosen": chosen, **part})


def _ticket(rng: np.random.Generator, person: str | None) -> dict[str, Any]:
    key, nonce = f"qs_{rng.bytes(6).hex()}_{rng.bytes(32).hex()}", rng.bytes(12).hex()
    made = ticket(key, shelf=SHELF, person=person, seconds=600, now=1_800_000_000.0, nonce=nonce)
    said = {"shelf": SHELF, "person": person, "expires": 1_800_000_600, "nonce": nonce}
    return {"key": key, **said, "ticket": made}


def _signature(rng: np.random.Generator, document: dict[str, Any]) -> dict[str, str]:
    seed = SimpleNamespace(signing_seed=rng.bytes(32))
    return {"key": signing.public_key(seed), **json.loads(signing.envelope(seed, document))}  # type: ignore[arg-type]


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.out.write_text(json.dumps(cases(given.cases, given.seed), allow_nan=False), encoding="utf-8")


if __name__ == "__main__":
    main()
