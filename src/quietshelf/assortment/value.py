"""What a given assortment is expected to earn."""

from __future__ import annotations

import numpy as np

from quietshelf.types import NOTHING, FloatArray, IntArray


def expected_revenue(utility: FloatArray, revenue: FloatArray | float, items: IntArray) -> FloatArray:
    """``sum r w / (1 + sum w)`` over the items shown, ``w = exp(utility)``; unchecked, and without overflow.

    Args:
        utility: Within ±1e300, (..., N).
        revenue: Broadcast against ``utility``.
        items: Item indices, (..., K), each at most once; -1 for empty places.

    Returns:
        One value a problem, (...).

    >>> float(expected_revenue(np.zeros(3), np.array([1.0, 2.0, 4.0]), np.array([1, 2, -1])))
    2.0
    """
    batch = np.broadcast_shapes(np.shape(utility)[:-1], np.shape(revenue)[:-1], items.shape[:-1])
    places = np.broadcast_to(items, (*batch, items.shape[-1]))
    full = (*batch, np.shape(utility)[-1])
    own = np.where(places == NOTHING, -np.inf, _gather(utility, places, full))
    largest = own.max(axis=-1, initial=0.0)
    weight = np.exp(own - largest[..., None])
    total = np.exp(-largest) + weight.sum(axis=-1)
    value: FloatArray = (weight * _gather(revenue, places, full)).sum(axis=-1) / total
    return value


def _gather(array: FloatArray | float, places: IntArray, shape: tuple[int, ...]) -> FloatArray:
    return np.take_along_axis(np.broadcast_to(array, shape), places, axis=-1)
