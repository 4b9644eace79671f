"""What a given assortment is expected to earn."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from quietshelf.types import NOTHING, FloatArray, IntArray

Number = TypeVar("Number", bound=np.generic)


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
    own = np.where(items == NOTHING, -np.inf, taken(utility, items))
    largest = own.max(axis=-1, initial=0.0)
    weight = np.exp(own - largest[..., None])
    total = np.exp(-largest) + weight.sum(axis=-1)
    value: FloatArray = (weight * taken(np.asarray(revenue), items)).sum(axis=-1) / total
    return value


def taken(values: NDArray[Number], items: IntArray) -> NDArray[Number]:
    """``values`` (..., N) of the items (..., K), leading axes broadcast; whatever stands there for empty places.

    >>> taken(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]))
    array([[2.],
           [4.]])
    """
    if values.ndim < 2:
        return values.take(items) if values.ndim else values
    first = np.arange(0, values.size, values.shape[-1]).reshape(*values.shape[:-1], 1)
    return values.reshape(-1).take(first + items)
