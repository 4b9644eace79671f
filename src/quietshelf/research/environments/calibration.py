"""The intercept at which a given share of visitors chooses something when offers are random."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.types import FloatArray, IntArray, Streams, child

if TYPE_CHECKING:
    from quietshelf.research.environments.shop import Shop

PUBLIC = SeedSequence(1701)
"""Of the sample that intercepts are solved on: the same for every shop and every replicate."""
VISITORS, ITEMS, OFFERS = range(3)
SAMPLE = 4096
"""Visitors of the sample, each with one random offer."""
WIDEST, HALVINGS = 40.0, 60
"""Intercepts are sought within plus or minus so much, to its 2^-HALVINGS."""


def calibrated(shop: Shop, tastes: FloatArray, catalogue: FloatArray | None) -> FloatArray:
    """The intercept of each replicate, (R,).

    The share is that of the public sample: full offers of K items, whatever the availability, as random ones are unless
    fewer than K items are available.

    Args:
        shop: What is public of the shop.
        tastes: Without intercept, (R, M, d): of M classes of visitors, who come in turns.
        catalogue: The items of each replicate, (R, width, N); None if they are drawn for each visitor.
    """
    utility = _utilities(shop, tastes, catalogue)
    total = np.exp(utility).sum(axis=-1)
    low, high = (np.full(len(total), side * WIDEST) for side in (-1.0, 1.0))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        weight = np.exp(middle)[:, None] * total
        over = (weight / (1.0 + weight)).mean(axis=-1) > shop.conversion_rate
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray((low + high) / 2)


def _utilities(shop: Shop, tastes: FloatArray, catalogue: FloatArray | None) -> FloatArray:
    """Utilities of the sample's offers, intercept 0, (R, SAMPLE, K)."""
    worlds, classes, _ = tastes.shape
    same = classes == 1 and not shop.visitor_dim
    theta = tastes if same else tastes[:, np.arange(SAMPLE) % classes]
    matrix = theta.reshape(worlds, -1, 1 + shop.visitor_dim, shop.law.width)
    slope = (_visitors(shop.visitor_dim)[:, None, :] @ matrix)[..., 0, :]
    if catalogue is None:
        drawn = shop.law.columns(_streams(ITEMS), SAMPLE * shop.capacity)
        items = np.moveaxis(drawn.reshape(-1, SAMPLE, shop.capacity), 1, 0)
        return np.asarray((slope[..., None, :] @ items)[..., 0, :])
    offers = _offers(shop.items, shop.capacity)
    utility = slope @ catalogue
    return utility[:, 0][:, offers] if same else np.take_along_axis(utility, offers[None], axis=-1)


def _visitors(dim: int) -> FloatArray:
    """(1, u) of the sample, (SAMPLE, 1 + dim); one row if there is no u."""
    if not dim:
        return np.ones((1, 1))
    return np.append(np.ones((SAMPLE, 1)), _streams(VISITORS).standard_normal((1, SAMPLE, dim))[0], axis=1)


@lru_cache(maxsize=8)
def _offers(items: int, capacity: int) -> IntArray:
    """Random sets of items, (SAMPLE, K)."""
    order = _streams(OFFERS).random((1, SAMPLE, items))[0]
    return np.argpartition(order, capacity - 1, axis=-1)[:, :capacity]


def _streams(role: int) -> Streams:
    return Streams([child(PUBLIC, role)])
