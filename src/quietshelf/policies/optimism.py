"""Optimism: the assortment that would be best if every item were as good as it may plausibly be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray, IntArray, Random, Release, anywhere, everywhere
from quietshelf.policies.bounded import bounded, suits_bounds
from quietshelf.policies.chance import decide
from quietshelf.policies.many_worlds import beyond_doubt, suits_device
from quietshelf.policies.shortlist import shortlisted, suits


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


@np.errstate(over="ignore", invalid="ignore")
def best_for(context: Context, release: Release, theta: FloatArray, radius: FloatArray, rng: Random) -> IntArray:
    """The exact best assortment at utilities ``x . theta + radius |x|``, ties broken at random, (..., K)."""
    if suits_device(context, release):
        return _guessed(context, release, theta, radius, rng)
    if not suits(context) and not suits_bounds(context, release):
        return decide(context, release, _utility(context, release, theta, radius), rng)
    fewer = shortlisted if suits(context) else bounded
    items, decided, coins = fewer(context, release, theta, radius, rng)
    if everywhere(decided):
        return items
    others = decide(context, release, _utility(context, release, theta, radius), rng, coins)
    return np.where(decided[..., None], items, others)


def _guessed(context: Context, release: Release, theta: FloatArray, radius: FloatArray, rng: Random) -> IntArray:
    """`best_for` with a device: it settles visitors beyond doubt; NumPy decides the others as usual."""
    items, sure = beyond_doubt(context, release, theta, radius)
    batch = sure.shape
    order = rng.random((*batch, context.revenue.shape[-1]))  # always drawn, so that streams stay in step
    if sure.all():
        return items
    some = ~sure
    features = context.features
    assert isinstance(features, Dense)  # noqa: S101 - `suits_device` says so

    def rows(array: FloatArray, axes: int) -> Any:
        return np.broadcast_to(array, (*batch, *array.shape[array.ndim - axes :]))[some]

    own = Release(
        **{
            name: rows(getattr(release, name), axes)
            for name, axes in zip(Release.arrays, (1, 2, 0, 0, 0, 0), strict=True)
        }
    )
    own.__dict__["covariance"] = rows(release.covariance, 2)
    part = replace(context, features=Dense(rows(features.x, 2)), revenue=rows(context.revenue, 1))
    utility = _utility(part, own, rows(theta, 1), rows(radius, 0))
    items[some] = decide(part, own, utility, rng, order[some])
    return items


def _utility(context: Context, release: Release, theta: FloatArray, radius: FloatArray) -> FloatArray:
    """``x . theta + radius |x|`` of every item, (..., N); |x| is computed only if a visitor needs it."""
    utility = context.features.utility(theta)
    each = radius[..., None]
    if not anywhere(each):
        return utility
    width = context.features.norm(release.covariance)
    width = np.multiply(width, each, out=width) if each.ndim <= width.ndim else each * width
    width += utility
    return width if everywhere(each) else np.where(each == 0, utility, width)
