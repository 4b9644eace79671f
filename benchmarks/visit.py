"""The cost of one visit to a `Shelf`, offer and answer: alone, with its share of releases, against NumPy; memory.

``python -m benchmarks.visit 50000`` runs 50,000 visits per shelf; the default is 10,000.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks import duration, table
from quietshelf import Shelf
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.shelf.testing import state_of

K = 10
ROUNDS, EACH = 6, 128
"""Take the best of this many rounds of this many visits, ours and the bare arithmetic in turn."""
MARKS = (1_000, 10_000, 50_000)
"""Visits over which the cost of releases is spread."""
HEAD = ("", "a visit", "bare arithmetic", "visit / bare", "memory of an open visit")


class Shop(NamedTuple):
    """A shelf, the features given with an offer, and the features of its items as one array."""

    name: str
    shelf: Shelf
    given: FloatArray | None
    rows: FloatArray

    @property
    def learner(self) -> Learner:
        """The shelf's learner."""
        learner = self.shelf.learner
        assert learner is not None, "a shelf that was visited has a learner"
        return learner


def main(visits: int = 10_000) -> None:
    """Print two tables, with and without releases, of shops with few to five hundred features."""
    rng = np.random.default_rng(0)
    shops = (dense(rng, 100, 5), dense(rng, 1000, 20), dense(rng, 300, 200), popular(200), popular(500))
    marks = [mark for mark in MARKS if mark <= visits] or [visits]
    lives = [_lifetime(shop, marks) for shop in shops]
    head = ("", *(f"first {mark:,} visits" for mark in marks), "releases", "the last release", "memory of a shelf")
    table(f"a visit with its share of releases, K={K}, one core (process time)", head, lives)
    table(f"a visit that releases nothing, K={K}, one core (process time)", HEAD, [_row(shop) for shop in shops])


def dense(rng: np.random.Generator, items: int, dim: int) -> Shop:
    """A shop where every offer comes with the features of all items."""
    rows = rng.standard_normal((items, dim)) / np.sqrt(dim)
    return Shop(f"N={items:,}, d={dim}, features given", Shelf(items=items, dim=dim, capacity=K, rho=1.0), rows, rows)


def popular(items: int) -> Shop:
    """A shop whose items have ids but no features."""
    shelf = Shelf(items=[f"item {place}" for place in range(items)], capacity=K, rho=1.0)
    return Shop(f"N={items} ids, d={items}", shelf, None, np.eye(items))


def _lifetime(shop: Shop, marks: list[int]) -> tuple[str, ...]:
    """The mean cost per visit, releases included, from the first visit on."""
    spent, visits, shares, last = 0.0, 0, list[str](), 0.0
    for mark in marks:
        while visits < mark:
            before = 0 if shop.shelf.learner is None else len(shop.learner.records)
            took = _timed(lambda: _visits(shop, 1))
            spent, visits = spent + took, visits + 1
            last = took if len(shop.learner.records) > before else last
        shares.append(duration(spent / visits))
    return shop.name, *shares, f"{len(shop.learner.records)}", duration(last), f"{_kept(shop) / 2**20:.3g} MB"


def _row(shop: Shop) -> tuple[str, ...]:
    ours, bare = list[float](), list[float]()
    theta, root = np.full(shop.rows.shape[1], 0.1), np.eye(shop.rows.shape[1])
    while len(ours) < ROUNDS:
        before = len(shop.learner.records)
        took = _timed(lambda: _visits(shop, EACH)) / EACH
        bare.append(_timed(lambda: arithmetic(shop.rows, theta, root, EACH, given=shop.given is not None)) / EACH)
        if len(shop.learner.records) == before:
            ours.append(took)
    visit, least = min(ours), min(bare)
    return shop.name, duration(visit), duration(least), f"{visit / least:.3g}", f"{_memory(shop) / 1024:.3g} kB"


def _visits(shop: Shop, count: int) -> None:
    for place in range(count):
        offer = shop.shelf.offer(shop.given)
        shop.shelf.choose(offer.id, offer.items[place % len(offer.items)])


def arithmetic(x: FloatArray, theta: FloatArray, root: FloatArray, count: int, *, given: bool) -> FloatArray:
    """What every implementation must compute: utilities, norms, the K best, and the sum of information matrices."""
    shown = np.empty((count, K, x.shape[1]))
    for place in range(count):
        if given:
            image = x @ root
            utility = x @ theta + np.sqrt(np.einsum("nd,nd->n", image, image))
        else:  # x has a single one in each row
            utility = theta + np.sqrt(np.diagonal(root))
        shown[place] = x[np.argpartition(utility, -K)[-K:]]
    z = shown @ root
    weight = np.exp(z @ theta)
    chance = weight / (1.0 + weight.sum(axis=1, keepdims=True))
    away = z - (chance[:, None] @ z)
    rows = (np.sqrt(chance)[..., None] * away).reshape(-1, x.shape[1])
    return np.asarray(rows.T @ rows)


def _memory(shop: Shop) -> float:
    """Bytes of features kept for a visitor who has not answered yet."""
    offer = shop.shelf.offer(shop.given)
    (rows,) = [slots.kept[offer.id].rows for slots in state_of(shop.shelf).slots if offer.id in slots.kept]
    return 0.0 if rows is None else float(rows.nbytes)


def _kept(shop: Shop) -> float:
    """Bytes of the arrays in the learner and in open batches, without visitors' features."""
    learner = shop.learner
    parts = [learner.moments, learner.estimate, learner.release.__dict__.values()]
    parts += [part for record in learner.records for part in (record, record.__dict__.values())]
    parts += [part for slots in state_of(shop.shelf).slots for part in (slots.batch.frozen, [slots.sum])]
    return float(sum(each.nbytes for part in parts for each in part if isinstance(each, np.ndarray)))


def _timed(call: Callable[[], object]) -> float:
    begin = process_time()
    call()
    return process_time() - begin


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
