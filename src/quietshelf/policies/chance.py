"""Random assortments, and the one step in which every policy turns utilities into an assortment.

One uniform number per item breaks ties where the policy decides, and orders the items at random where the release asks
to explore. Nothing here looks across visitors: what a visitor is shown is a function of their own context, the release
and their own draws, to the last bit, however many visitors are decided together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quietshelf.model.assortment import equal_revenue, items_for, top_k
from quietshelf.model.types import BoolArray, Context, FloatArray, IntArray, Random, Release, anywhere, everywhere

LARGEST = 1e290
"""Larger utilities are clipped to this; such items are indistinguishable anyway."""
JITTER = 1e-12
"""Size of the random part of a utility, relative to the visitor's largest utility: it only breaks ties."""
DOUBT = 2 * JITTER
"""A relative lead that the random part cannot overturn: twice its size, so that rounding cannot either."""
FEW = 1000
"""Up to this many items, `top_k` looks at all of them; the solver narrows larger choices down first."""


@dataclass(frozen=True)
class Uniform:
    """Random assortments of as many items as allowed, whatever they are worth.

    Items are taken in random order, required ones first, and shown while capacity and limits allow. Without groups all
    allowed sets of that size are equally likely.
    """

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        order = rng.random((*batch_of(context, release), context.revenue.shape[-1]))
        return items_for(context, order, np.ones_like(order))


def batch_of(context: Context, release: Release) -> tuple[int, ...]:
    """The axes of visitors: those of the context's revenue and of the release."""
    own, visitors = release.explore.shape, context.revenue.shape[:-1]
    return np.broadcast_shapes(own, visitors) if own else visitors


def decide(
    context: Context, release: Release, utility: FloatArray, rng: Random, order: FloatArray | None = None
) -> IntArray:
    """The best assortment at utilities (..., N), ties broken at random; a random one where ``release.explore``.

    What a visitor is shown does not depend on the others: coins are drawn only where they may matter, and clear winners
    are those that `_by_chance` would find. ``order`` holds coins already drawn, (..., N).
    """
    if utility.shape != context.revenue.shape:
        utility = np.broadcast_to(utility, np.broadcast_shapes(utility.shape, context.revenue.shape))
    plain = equal_revenue(context.revenue) & ~release.explore
    constrained = context.required is not None or context.groups is not None
    if constrained or utility.shape[-1] > FEW or not anywhere(plain):
        return _by_chance(context, release, utility, rng.random(utility.shape) if order is None else order)
    items, clear = top_k(utility, context.capacity, available=context.available, largest=LARGEST, doubt=DOUBT)
    sure = clear & plain
    certain = everywhere(sure)
    if certain and hasattr(rng, "random_where"):
        return items
    order = _drawn(rng, ~sure, utility.shape) if order is None else order
    if certain:
        return items
    return np.where(sure[..., None], items, _by_chance(context, release, utility, order))


def _drawn(rng: Random, needed: BoolArray, size: tuple[int, ...]) -> FloatArray:
    """Uniform numbers, (..., N), at least for the visitors who need them, (...).

    A generator per visitor (``random_where``, such as slot coins) draws for no one else, and one visitor's draws leave
    the others' numbers alone. Any other generator always draws for everyone, so that `Streams` stay in step.
    """
    return rng.random_where(needed, size) if hasattr(rng, "random_where") else rng.random(size)


def _by_chance(context: Context, release: Release, utility: FloatArray, order: FloatArray) -> IntArray:
    """Decide any case; ``order``, uniform on [0, 1), breaks ties and orders exploration."""
    utility = without_ties(utility, order)
    revenue = context.revenue
    if release.explore.any():
        explore = release.explore[..., None]
        utility, revenue = np.where(explore, order, utility), np.where(explore, 1.0, revenue)
    return items_for(context, utility, revenue)


def without_ties(utility: FloatArray, order: FloatArray) -> FloatArray:
    """Make utilities (..., N) finite and break their ties by coins on [0, 1)."""
    size = np.maximum(np.abs(utility).max(axis=-1, keepdims=True), 1.0)
    wild = ~(size <= LARGEST)
    if wild.any():  # features so large that utilities overflow still get an offer
        utility = np.nan_to_num(utility, nan=-LARGEST, posinf=LARGEST, neginf=-LARGEST).clip(-LARGEST, LARGEST)
        size = np.where(wild, 1.0, size)
    return np.asarray(utility + (JITTER * size) * order)
