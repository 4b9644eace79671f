"""`Shelf` itself, with its discrete Gaussian from the operating system: what visitors and estimates show."""

from __future__ import annotations

from functools import partial

import numpy as np

from quietshelf.auditing.auditable import Auditable, Claim
from quietshelf.auditing.neighbours import axis
from quietshelf.curation.coins import Coins
from quietshelf.release.noise import NoiseSource
from quietshelf.shelf import Shelf
from quietshelf.shelf.testing import copied
from quietshelf.statistics import svec
from quietshelf.types import FloatArray

ITEMS, DIM = 2, 2
PROBES = 2
"""Visitors after the release whose screens the attacker holds."""


def shelf_subject(rho: float) -> Auditable:
    """A shelf through its first release: the target bought the item or nothing."""
    return Auditable(
        name="Shelf, discrete Gaussian",
        pair="same visitor, bought the item or nothing",
        claim=Claim(rho=rho, gaussian=True),
        run=partial(shelf_run, rho),
        slow=8,
    )


def shelf_run(rho: float, secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
    """Runs of a shelf that served its first batch; the release comes with the next arrival, anew in each run."""
    shelf = full_shelf(rho, secret)
    return np.stack([after_release(copy_of(shelf, rng)) for _ in range(runs)])


def full_shelf(rho: float, secret: bool, source: NoiseSource | None = None) -> Shelf:
    """A shelf whose first batch is full: the target came first, all others saw nothing of interest."""
    shelf = copied(Shelf(items=ITEMS, dim=DIM, capacity=1, rho=rho), source=source)
    features = np.tile(2.0 * axis(0, DIM), (ITEMS, 1))
    offer = shelf.offer(features)
    shelf.choose(offer.id, offer.items[0] if secret else None)
    while not shelf.batches[0].full:
        shelf.choose(shelf.offer(np.zeros((ITEMS, DIM))).id, None)
    return shelf


def copy_of(shelf: Shelf, rng: np.random.Generator, source: NoiseSource | None = None) -> Shelf:
    """The same shelf in a world of its own, with coins of its own."""
    return copied(shelf, source=source, coins=Coins(rng.bytes(32)))


def after_release(shelf: Shelf) -> FloatArray:
    """What leaves: the record, the estimate, and the next screens."""
    ways = np.stack([axis(0, DIM), -axis(0, DIM)])
    screens = [float(shelf.offer(ways).items[0]) for _ in range(PROBES)]
    tastes, learner = shelf.estimate(), shelf.learner
    assert learner is not None  # noqa: S101 - it has just released
    return np.concatenate([learner.records[0].score, tastes.theta, svec(tastes.precision), screens])
