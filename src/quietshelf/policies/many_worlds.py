"""Visitors of thousands of worlds, with few items each: a device finds those whose best items are beyond doubt.

The device computes scores ``x . theta + c |R x|`` in single precision, with R'R the covariance up to n. Each is within
E of the utility that NumPy computes: the proof of `choice.screening`, with z = x, applies in both directions. If the
K-th largest leads the next by more than ``2 E + D``, with D as large as any doubt of `chance.decide`, NumPy would find
the same K items without a tie. NumPy decides all other visitors. Numbers that overflow have no lead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quietshelf.model.assortment import equal_revenue
from quietshelf.model.choice.catalogue import kept
from quietshelf.model.choice.device import Device, device_of_worlds
from quietshelf.model.choice.features import Dense
from quietshelf.model.choice.screening import PRECISE, UNIT
from quietshelf.model.types import BoolArray, Context, FloatArray, IntArray, Release
from quietshelf.policies.chance import DOUBT, FEW, batch_of

WORTH_SENDING = 100_000
"""Least number of items over all worlds at which a device is faster."""


def suits_device(context: Context, release: Release) -> bool:
    """Whether a device is in use and suits these visitors."""
    if device_of_worlds() is None or not isinstance(context.features, Dense):
        return False
    items = context.revenue.shape[-1]
    free = context.available is None and context.required is None and context.groups is None
    return free and context.capacity < items <= FEW and items * math.prod(batch_of(context, release)) >= WORTH_SENDING


def beyond_doubt(
    context: Context, release: Release, theta: FloatArray, radius: FloatArray
) -> tuple[IntArray, BoolArray]:
    """Find the best items (..., K), ascending, and whether they are beyond doubt, (...); if not, ignore them."""
    device, features = device_of_worlds(), context.features
    assert device is not None and isinstance(features, Dense)  # noqa: S101, PT018 - `suits_device` says so
    batch, items, capacity = batch_of(context, release), features.items, context.capacity
    device.check()
    x = kept(features, device, lambda: device.put(features.x.astype(np.float32)))
    score, reach = _scores(device, x, theta, radius, release)
    ordered = device.sort(score)
    last, following = ordered[..., items - capacity], ordered[..., items - capacity - 1]
    lead, chosen = device.get(last - following), device.get(score >= last[..., None])
    plain = equal_revenue(context.revenue) & ~release.explore & (radius >= 0)
    sure = np.broadcast_to(plain & (lead > _margin(theta, radius, release, device.get(reach))), batch)
    mask = np.broadcast_to(chosen, (*batch, items)).copy()
    mask[~sure] = np.arange(items) < capacity
    return np.nonzero(mask)[-1].reshape(*batch, capacity), sure


def _scores(device: Device, x: Any, theta: FloatArray, radius: FloatArray, release: Release) -> tuple[Any, Any]:
    """Scores (..., N) and the largest |x|, (...), on the device."""
    xp, put = device.namespace, device.put
    score = xp.matmul(x, put(theta.astype(np.float32)[..., None]))[..., 0]
    if radius.any():
        image = xp.matmul(x, put((radius[..., None, None] * release.root).astype(np.float32)))
        score = score + xp.sqrt((image * image).sum(-1))
    return score, xp.sqrt(xp.amax((x * x).sum(-1), -1))


def _margin(theta: FloatArray, radius: FloatArray, release: Release, reach: FloatArray) -> FloatArray:
    """``2 E + D``, (...), plus one percent for the rounding of ``reach`` and of the lead itself."""
    length, terms = np.sqrt((theta**2).sum(-1)), 4.0 * (theta.shape[-1] + 16)
    size = np.sqrt((release.root**2).sum((-2, -1)))
    covered = release.root @ release.root.mT
    lacking = np.sqrt(((covered - release.covariance) ** 2).sum((-2, -1))) + PRECISE * terms * size**2
    scale = (length + radius * size) * reach
    error = terms * UNIT * scale + 2.0 * np.sqrt(terms * PRECISE) * scale + radius * np.sqrt(lacking) * reach
    return np.asarray(1.01 * (2.0 * error + DOUBT * np.maximum(scale, 1.0)) + 8 * UNIT * scale)
