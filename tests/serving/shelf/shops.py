"""Small shops for the tests of `Shelf`: injected noise and coins, so that runs can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from quietshelf import Shelf
from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import NoiseSource, Simulated
from quietshelf.serving.shelf.state import Slots
from quietshelf.serving.shelf.testing import copied, state_of

N, D, K = 8, 2, 3
CONVERSION = 0.24
"""Declared by these shops: their first batch then has 10 visitors."""


def shop(
    *, seed: int = 0, source: NoiseSource | None = None, real: bool = False, keyed: bool = False, **options: Any
) -> Shelf:
    """A shelf of 8 items, with injected noise and coins unless ``real``; ``keyed`` leaves it its own coins."""
    settings: dict[str, Any] = {"items": N, "dim": D, "capacity": K, "rho": 4.0, "conversion": CONVERSION} | options
    if "catalogue" in settings:
        settings.pop("items"), settings.pop("dim")
    shelf = Shelf(**settings)
    if real:
        return shelf
    noise = Simulated(np.random.default_rng(seed)) if source is None else source
    return copied(shelf, source=noise, coins=None if keyed else Coins(b"coins of shop %d" % seed))


def first_batch(shelf: Shelf, dim: int = D) -> int:
    """Visitors in the first batch."""
    return state_of(shelf).settings.learning().batch_size(dim, None)


def open_slots(shelf: Shelf) -> Slots:
    """The batch that takes slots, with what is raw in it."""
    slots = state_of(shelf).open
    assert slots is not None
    return slots


def rows_of(shelf: Shelf, offer: str) -> Any:
    """The features kept for an offer that is not released; None if there are none."""
    (found,) = [slots.kept[offer].rows for slots in state_of(shelf).slots if offer in slots.kept]
    return found


def visit(shelf: Shelf, rng: np.random.Generator, **options: Any) -> Any:
    """One visitor: an offer and, by chance, an answer."""
    offer = shelf.offer(rng.normal(size=(N, D)), **options)
    picked = int(rng.integers(-1, len(offer.items)))
    if rng.random() < 0.8:
        shelf.choose(offer.id, None if picked < 0 else offer.items[picked])
    return offer


def run(shelf: Shelf, visitors: int, seed: int = 5, **options: Any) -> list[Any]:
    """So many visitors."""
    rng = np.random.default_rng(seed)
    return [visit(shelf, rng, **options) for _ in range(visitors)]


def open_shop(path: Path, visitors: int = 5) -> Shelf:
    """A shelf that was saved with its first batch open."""
    shelf, rng = shop(real=True), np.random.default_rng(0)
    for _ in range(visitors):
        visit(shelf, rng)
    shelf.save(path)
    return shelf
