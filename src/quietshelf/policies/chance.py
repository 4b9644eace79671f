"""Chance: random assortments, and the one step in which every policy turns utilities into an assortment.

An offer always draws one uniform number for each item of each world: it breaks ties where the policy decides, and is
the random order of the items where the release asks to explore. So what a world draws does not depend on other worlds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quietshelf.assortment import items_for, leaders
from quietshelf.types import Context, FloatArray, IntArray, Random, Release

LARGEST = 1e290
"""Utilities beyond are taken for this; nobody can tell such items apart anyway."""
JITTER = 1e-12
"""Size of the random part of a utility, relative to the largest of the visitor: it decides ties and nothing else."""
FEW = 1000
"""Items of which the best are found by a look at all; the solver narrows larger choices down first."""


@dataclass(frozen=True)
class Uniform:
    """Random assortments of as many items as may be shown, whatever they are worth.

    The items are taken in random order, required ones first, and each is shown if capacity and limits still allow.
    Without groups all allowed sets of that size are equally likely.
    """

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        batch = np.broadcast_shapes(release.explore.shape, context.revenue.shape[:-1])
        order = rng.random((*batch, context.revenue.shape[-1]))
        return items_for(context, order, np.ones_like(order))


def decide(context: Context, release: Release, utility: FloatArray, rng: Random) -> IntArray:
    """The best assortment at utilities (..., N), ties broken at random; a random one where ``release.explore``."""
    order = rng.random(utility.shape)
    if not _plain(context) or release.explore.any():
        return _by_chance(context, release, utility, order)
    items, clear = leaders(utility, context.capacity, largest=LARGEST, doubt=JITTER)
    if clear.all():
        return items
    return np.where(clear[..., None], items, _by_chance(context, release, utility, order))


def _plain(context: Context) -> bool:
    """Whether the best assortment is surely that of the largest utilities: one revenue, broadcast, and nothing else."""
    unconstrained = context.available is None and context.required is None and context.groups is None
    revenue = context.revenue
    small = revenue.shape[-1] <= FEW and revenue.strides[-1] == 0
    return unconstrained and small and bool((revenue[..., 0] > 0).all())


def _by_chance(context: Context, release: Release, utility: FloatArray, order: FloatArray) -> IntArray:
    """The same in every case, with ``order``, uniform on [0, 1), for ties and for exploration."""
    size = np.maximum(np.abs(utility).max(axis=-1, keepdims=True), 1.0)
    if not (size <= LARGEST).all():  # features so large that utilities overflow: they are served all the same
        utility = np.nan_to_num(utility, nan=-LARGEST, posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)
        size = np.ones_like(size)
    utility = utility + (JITTER * size) * order
    revenue = context.revenue
    if release.explore.any():
        explore = release.explore[..., None]
        utility, revenue = np.where(explore, order, utility), np.where(explore, 1.0, revenue)
    return items_for(context, utility, revenue)
