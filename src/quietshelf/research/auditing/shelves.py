"""`Shelf` itself, with discrete Gaussian noise from the operating system: its estimates and later screens."""

from __future__ import annotations

from functools import partial

import numpy as np

from quietshelf.curation.coins import Coins
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.statistics import svec
from quietshelf.research.auditing.auditable import Auditable, Claim
from quietshelf.research.auditing.neighbours import axis
from quietshelf.serving.shelf import Shelf
from quietshelf.serving.shelf.testing import copied

ITEMS, SHOWN, DIM = 5, 4, 2
PROBES = 2
"""Visitors after the release whose screens the attacker sees."""


def shelf_subject(rho: float) -> Auditable:
    """A shelf through its first release: the target saw items on one side or opposite ones, and bought nothing."""
    return Auditable(
        name="Shelf, discrete Gaussian",
        pair="visitors with opposite items, nothing bought",
        claim=Claim(rho=rho, gaussian=True),
        run=partial(shelf_run, rho),
        slow=8,
    )


def shelf_run(rho: float, secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
    """Runs of a shelf with a full first batch; its release comes with the next arrival, drawn again in each run."""
    shelf = full_shelf(rho, secret)
    return np.stack([after_release(copy_of(shelf, rng)) for _ in range(runs)])


def full_shelf(rho: float, secret: bool, source: NoiseSource | None = None) -> Shelf:
    """A shelf whose first batch is full: the target came first, the others saw items without features."""
    shelf = copied(Shelf(items=ITEMS, dim=DIM, capacity=SHOWN, rho=rho), source=source)
    features = np.tile(
        (1 + 1 / SHOWN) * axis(0, DIM), (ITEMS, 1)
    )  # at theta = 0 none is then the farthest, just C away
    shelf.choose(shelf.offer(features if secret else -features).id, None)
    while not shelf.batches[0].full:
        shelf.choose(shelf.offer(np.zeros((ITEMS, DIM))).id, None)
    return shelf


def copy_of(shelf: Shelf, rng: np.random.Generator, source: NoiseSource | None = None) -> Shelf:
    """A copy of the shelf with coins of its own."""
    return copied(shelf, source=source, coins=Coins(rng.bytes(32)))


def after_release(shelf: Shelf) -> FloatArray:
    """What is released: the record, the estimate, and the next screens."""
    ways = np.linspace(-1.0, 1.0, ITEMS)[:, None] * axis(0, DIM)
    screens = [float(shelf.offer(ways).items[0]) for _ in range(PROBES)]
    tastes, learner = shelf.estimate(), shelf.learner
    assert learner is not None  # noqa: S101 - it has just released
    return np.concatenate([learner.records[0].score, tastes.theta, svec(tastes.precision), screens])
