"""One visit of a `Shelf`, offer and answer, against the bare arithmetic of it in NumPy; a release; memory."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks import duration, table
from quietshelf import Shelf
from quietshelf.shelf.testing import state_of
from quietshelf.types import FloatArray

K = 10
ROUNDS, EACH = 6, 128
"""The shortest of so many rounds of so many visits, ours and the bare arithmetic in turn."""
HEAD = ("", "a visit", "bare arithmetic", "visit / bare", "a release", "of visitors", "memory of an open visit")


class Shop(NamedTuple):
    """A shelf, what an offer brings, and the features of its items as one array."""

    name: str
    shelf: Shelf
    given: FloatArray | None
    rows: FloatArray


def main() -> None:
    """Print a row for each shop, from few features to five hundred."""
    rng = np.random.default_rng(0)
    shops = (dense(rng, 100, 5), dense(rng, 1000, 20), dense(rng, 300, 200), popular(200), popular(500))
    table(f"one visit of a Shelf, K={K}, one core (process time)", HEAD, [_row(shop) for shop in shops])


def dense(rng: np.random.Generator, items: int, dim: int) -> Shop:
    """Every offer brings the features of all items."""
    rows = rng.standard_normal((items, dim)) / np.sqrt(dim)
    return Shop(f"N={items:,}, d={dim}, features given", Shelf(items=items, dim=dim, capacity=K, rho=1.0), rows, rows)


def popular(items: int) -> Shop:
    """Items of which nothing is known but which they are."""
    shelf = Shelf(items=[f"item {place}" for place in range(items)], capacity=K, rho=1.0)
    return Shop(f"N={items} ids, d={items}", shelf, None, np.eye(items))


def _row(shop: Shop) -> tuple[str, ...]:
    _visits(shop, 1)
    size, released = shop.shelf.batches[0].frozen.size, len(shop.shelf.learner.records)  # type: ignore[union-attr]
    _visits(shop, size - 1)
    release = _timed(lambda: _visits(shop, 1))
    assert len(shop.shelf.learner.records) == released + 1  # type: ignore[union-attr]
    ours, bare = list[float](), list[float]()
    theta, root = np.full(shop.rows.shape[1], 0.1), np.eye(shop.rows.shape[1])
    while len(ours) < ROUNDS:
        before = len(shop.shelf.learner.records)  # type: ignore[union-attr]
        took = _timed(lambda: _visits(shop, EACH)) / EACH
        bare.append(_timed(lambda: arithmetic(shop.rows, theta, root, EACH, given=shop.given is not None)) / EACH)
        if len(shop.shelf.learner.records) == before or size < EACH:  # type: ignore[union-attr]
            ours.append(took)
    visit, least = min(ours), min(bare)
    return (
        shop.name,
        duration(visit),
        duration(least),
        f"{visit / least:.3g}",
        duration(release - visit),
        f"{size}",
        f"{_memory(shop) / 1024:.3g} kB",
    )


def _visits(shop: Shop, count: int) -> None:
    for place in range(count):
        offer = shop.shelf.offer(shop.given)
        shop.shelf.choose(offer.id, offer.items[place % len(offer.items)])


def arithmetic(x: FloatArray, theta: FloatArray, root: FloatArray, count: int, *, given: bool) -> FloatArray:
    """What no implementation can leave out: utilities, norms, the K best; and the sum of plain informations."""
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
    """Bytes of features kept of a visitor who has not answered yet."""
    offer = shop.shelf.offer(shop.given)
    (rows,) = [slots.kept[offer.id].rows for slots in state_of(shop.shelf).slots if offer.id in slots.kept]
    return 0.0 if rows is None else float(rows.nbytes)


def _timed(call: Callable[[], object]) -> float:
    begin = process_time()
    call()
    return process_time() - begin


if __name__ == "__main__":
    main()
