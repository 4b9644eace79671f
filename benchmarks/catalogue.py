"""Offers from 10^6 items, single and in groups, measured in passes over the features; changes of one item; memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from unittest import mock

import numpy as np

from benchmarks import duration, table
from quietshelf.curation.coins import Coins
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import FeatureMap, feature_map
from quietshelf.model.types import Context, FloatArray, IntArray, Release
from quietshelf.policies import POLICIES, shortlist

ITEMS, ITEM_DIM, VISITOR_DIM, CAPACITY = 10**6, 32, 8, 10
GROUPS = (1, 8, 64)


def main() -> None:
    """Print offers, then changes, then memory."""
    features, rng = some_features(ITEMS), np.random.default_rng(1)
    weights, catalogue, rows = rng.normal(size=ITEM_DIM), Catalogue.of(features), []
    for which in ("item", "full"):
        named = feature_map(which)
        release = some_release(features, named, rng)
        for group in GROUPS:
            offer = offering(catalogue, named, rng.normal(size=(group, VISITOR_DIM)), release)
            one_pass, ours = alternately(partial(np.matmul, weights, features.T), offer)
            cells = [duration(ours / group), f"{ours / group / one_pass:.2f}", f"{group / ours:.0f}"]
            rows.append([f"{which}, {group}", *cells, every_item(offer, ours) if group == 1 else ""])
        rows.append([f"{which}, 1, first of a release", *first_offer(features, named, release, rng, one_pass), "", ""])
    head = ("map, visitors at once", "per offer", "passes", "offers/s", "scoring every item, times as long")
    table(f"one offer of quiet: N={ITEMS}, d2={ITEM_DIM}; a pass is one product in float64", head, rows)
    changes(features)
    single = 4 * ITEMS * (ITEM_DIM + 1)
    print(f"memory: {features.nbytes >> 20} MiB of features, {single >> 20} MiB to screen them")


def some_features(items: int) -> FloatArray:
    """Item features (N, d2) of different spreads."""
    rng = np.random.default_rng(0)
    return np.asfortranarray(rng.normal(size=(items, ITEM_DIM)) * np.exp(0.5 * rng.normal(size=ITEM_DIM)) / 3.0)


def some_release(features: FloatArray, named: FeatureMap, rng: np.random.Generator) -> Release:
    """A release as learned from a few thousand visitors who saw random items."""
    picks = rng.integers(0, len(features), size=(4000, 5))
    rows = np.concatenate([named.dense(rng.normal(size=VISITOR_DIM), features[each]) for each in picks])
    one, dim = np.asarray(1.0), rows.shape[1]
    theta, precision = np.asarray(0.3 * rng.normal(size=dim)), 0.1 * rows.T @ rows + np.eye(dim)
    return Release(theta, precision, one, np.asarray(False), np.asarray(0), one)


def offering(catalogue: Catalogue, named: FeatureMap, visitors: FloatArray, release: Release) -> Callable[[], IntArray]:
    """One offer of `quiet` to each visitor of a group."""
    coins = Coins(b"benchmark").of([(0, place) for place in range(len(visitors))])
    revenue = np.broadcast_to(1.0, (len(visitors), len(catalogue)))
    context = Context(Catalogued(visitors, catalogue, named), revenue, CAPACITY)
    return partial(POLICIES["quiet"].offer, context, release, coins)


def alternately(*calls: Callable[[], object], runs: int = 5) -> list[float]:
    """The best time of each call, called in turns, after a warm-up."""
    took: list[list[float]] = [[] for _ in calls]
    for _ in range(runs + 1):
        for call, times in zip(calls, took, strict=True):
            start = process_time()
            call()
            times.append(process_time() - start)
    return [min(times[1:]) for times in took]


def every_item(offer: Callable[[], IntArray], ours: float) -> str:
    """The ratio of times without and with a shortlist."""
    with mock.patch.object(shortlist, "MANY", ITEMS):
        (slow,) = alternately(offer, runs=2)
    return f"{slow / ours:.1f}"


def first_offer(
    features: FloatArray, named: FeatureMap, release: Release, rng: np.random.Generator, one_pass: float
) -> tuple[str, str]:
    """The first offer of a release, which computes what the later ones share."""
    catalogue = Catalogue.of(features)
    offer = offering(catalogue, named, rng.normal(size=(1, VISITOR_DIM)), release)
    offer()
    catalogue.shared.clear()
    start = process_time()
    offer()
    took = process_time() - start
    return duration(took), f"{took / one_pass:.1f}"


def changes(features: FloatArray) -> None:
    """The cost of changing or adding one item."""
    stock, row = Stock.of(ITEMS, features, None, None), np.ones(ITEM_DIM)
    alter, add, whole = alternately(
        lambda: stock.changed(5, features=row, revenue=None, available=None),
        lambda: stock.with_more(row, 1.0, None),
        lambda: features.copy(order="F"),
    )
    rows = [[name, duration(took), f"{whole / took:.0f}"] for name, took in (("change", alter), ("add", add))]
    table("one item", ("", "takes", "a copy of all features, times as long"), rows)


if __name__ == "__main__":
    main()
