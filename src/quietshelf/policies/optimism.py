"""Optimism: the assortment that would be best if every item were as good as the release leaves possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quietshelf.policies.chance import decide
from quietshelf.types import Context, IntArray, Random, Release


@dataclass(frozen=True)
class Optimistic:
    """The exact best assortment at utilities ``x . theta + radius |x|``, in the norm of the release's covariance."""

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        radius = release.radius[..., None]
        with np.errstate(over="ignore", invalid="ignore"):
            utility = context.features.utility(release.theta)
            if radius.any():
                width = radius * context.features.norm(release.covariance)
                width += utility
                utility = width if radius.all() else np.where(radius == 0, utility, width)
        return decide(context, release, utility, rng)


@dataclass(frozen=True)
class Greedy:
    """The exact best assortment at the utilities ``x . theta``: no optimism, whatever the radius."""

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        with np.errstate(over="ignore", invalid="ignore"):
            utility = context.features.utility(release.theta)
        return decide(context, release, utility, rng)
