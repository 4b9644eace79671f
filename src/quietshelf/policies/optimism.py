"""Optimism: the assortment that would be best if every item were as good as the release leaves possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quietshelf.policies.chance import decide
from quietshelf.policies.shortlist import shortlisted, suits
from quietshelf.types import Context, FloatArray, IntArray, Random, Release


@dataclass(frozen=True)
class Optimistic:
    """The exact best assortment at utilities ``x . theta + radius |x|``, in the norm of the release's covariance."""

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        return best_for(context, release, release.theta, release.radius, rng)


@dataclass(frozen=True)
class Greedy:
    """The exact best assortment at the utilities ``x . theta``: no optimism, whatever the radius."""

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        return best_for(context, release, release.theta, np.zeros_like(release.radius), rng)


def best_for(context: Context, release: Release, theta: FloatArray, radius: FloatArray, rng: Random) -> IntArray:
    """The exact best assortment at utilities ``x . theta + radius |x|``, ties broken at random, (..., K)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not suits(context):
            return decide(context, release, _utility(context, release, theta, radius), rng)
        items, decided, coins = shortlisted(context, release, theta, radius, rng)
        if decided.all():
            return items
        others = decide(context, release, _utility(context, release, theta, radius), rng, coins)
        return np.where(decided[..., None], items, others)


def _utility(context: Context, release: Release, theta: FloatArray, radius: FloatArray) -> FloatArray:
    """``x . theta + radius |x|`` of every item, (..., N); |x| is not asked for where nobody needs it."""
    utility = context.features.utility(theta)
    each = radius[..., None]
    if not each.any():
        return utility
    width = each * context.features.norm(release.covariance)
    width += utility
    return width if each.all() else np.where(each == 0, utility, width)
