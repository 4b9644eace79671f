"""Offers from long feature vectors: bound every norm, so that only a few have to be computed.

The norm ``|x|_S`` in the release's covariance S is at most ``sqrt(v) |x|``, with v the largest eigenvalue of S. Score a
few items exactly: if their K-th best leads the bounds of all others, these K are the best of all.

1. A score is ``x . theta + c sqrt(x' S x)``. Rounding adds at most ``2 (d + 1) 2^-53 |S|_F |x|²`` under the root, and
   ``|S|_F <= sqrt(d) v``: less than 1e-9 v |x|² for d up to 10,000. `ROOM` raises v by that much, which also covers the
   rounding of v and of the bound itself.
2. A lead counts if it exceeds ``DOUBT max(b, 1)``, b the largest absolute bound or utility: no coin of `chance.decide`
   can overturn it, nor can the rounding of a sum, nor underflow.

All other visitors are decided as if there were no bounds. Every product involves one visitor's own numbers only, in a
shape fixed by public numbers: who is decided here, and how, has the same bits alone and in a group.
"""

from __future__ import annotations

import numpy as np

from quietshelf.model.assortment import equal_revenue
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, BoolArray, Context, FloatArray, IntArray, Random, Release
from quietshelf.policies.chance import DOUBT, LARGEST, batch_of

WORTH_BOUNDING = 2**20
"""Least N d² at which bounds cost a small part of the norms they save."""
PROBES = 2
"""Items scored exactly, per place of an assortment."""
ROOM = 1.0 + 1e-9


def suits_bounds(context: Context, release: Release) -> bool:
    """Whether offers are made by bounds; depends on the size of the features and on public rules only."""
    features = context.features
    if not isinstance(features, Dense) or features.items * features.dim**2 < WORTH_BOUNDING:
        return False
    few = 2 * PROBES * context.capacity < features.items
    return few and context.groups is None and features.by_rows and release.theta.ndim == 1


def bounded(
    context: Context, release: Release, theta: FloatArray, radius: FloatArray, rng: Random
) -> tuple[IntArray, BoolArray, FloatArray | None]:
    """Return assortments (..., K), whether each is decided, (...), and all coins if they had to be drawn."""
    features, batch = context.features, batch_of(context, release)
    assert isinstance(features, Dense)  # noqa: S101 - `suits_bounds` says so
    shape = (*batch, features.items)
    coins = None if hasattr(rng, "random_where") else rng.random(shape)
    utility = features.utility(theta)
    wanted = equal_revenue(context.revenue) & ~release.explore & (radius > 0)
    wanted = wanted if context.required is None else wanted & ~context.required.any(axis=-1)
    found, decided = np.full((*batch, context.capacity), NOTHING), np.zeros(batch, dtype=bool)
    x, free = features.x, context.available
    if batch:
        wanted, utility = np.broadcast_to(wanted, batch), np.broadcast_to(utility, shape)
        x, free = np.broadcast_to(x, (*shape, features.dim)), None if free is None else np.broadcast_to(free, shape)
    for place in np.ndindex(batch) if batch else [()]:
        if wanted[place]:
            allowed = None if free is None else free[place]
            best = _best(x[place], utility[place], float(radius), release, context.capacity, allowed)
            if best is not None:
                found[place], decided[place] = best, True
    return found, decided, coins


def _best(
    x: FloatArray, utility: FloatArray, radius: float, release: Release, capacity: int, allowed: BoolArray | None
) -> IntArray | None:
    """The best items of one visitor, ascending; None if that is not certain."""
    bound = utility + (radius * np.sqrt(ROOM * release.largest_variance)) * np.sqrt(np.vecdot(x, x))
    size = max(float(bound.max()), -float(utility.min()), 1.0)
    if not size <= LARGEST:
        return None
    if allowed is not None:
        bound[~allowed] = -np.inf
    others = len(bound) - PROBES * capacity
    order = bound.argpartition(others)
    probes = np.sort(order[others:])
    score = utility[probes] + radius * Dense(x[probes]).norm(release.covariance)
    if allowed is not None:
        score[~allowed[probes]] = -np.inf
    ranked = score.argsort()
    last, following = float(score[ranked[-capacity]]), float(score[ranked[-capacity - 1]])
    lead = last - max(following, float(bound[order[:others]].max()))
    return np.sort(probes[ranked[-capacity:]]) if lead > DOUBT * size and last > -np.inf else None
