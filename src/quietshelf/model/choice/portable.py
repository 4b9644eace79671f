"""Utilities with the same bits on every machine and in every language.

`Catalogued` leaves the order of summation to a library, and it varies between processors. Here every product and every
sum is rounded on its own, as IEEE 754 prescribes, in the order written: sums run from the first term to the last.
Infinities and NaN follow the same rules. A visitor's own device computes exactly this, operation by operation
(``clients/typescript/src/device/utilities.ts``), and so can anyone who checks what it shows.
"""

from __future__ import annotations

import numpy as np

from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import FloatArray


def utilities(features: Catalogued, theta: FloatArray, covariance: FloatArray, radius: float) -> FloatArray:
    """``x . theta + radius |x|`` of every item, (N,), in the norm of a covariance (d, d), for one visitor."""
    made, visitor = features.feature_map, features.visitor
    columns = list(np.ascontiguousarray(np.asarray(features.stored).T))
    slope = pull(made, visitor, theta[:, None], len(columns))[:, 0]
    utility = np.zeros(features.items)
    for taste, column in zip(slope[1:], columns, strict=True):
        utility += taste * column
    utility += slope[0]
    own = min(made.effects, features.items)
    utility[:own] += theta[theta.size - made.effects :][:own]
    if radius == 0:
        return utility
    square = _squares(made, visitor, columns, covariance, features.items)
    return np.asarray(np.sqrt(np.maximum(square, 0.0)) * radius + utility)


def pull(made: FeatureMap, visitor: FloatArray, columns: FloatArray, item_dim: int) -> FloatArray:
    """``A(u)' C``, (1 + d2, k), like `FeatureMap.pull`, for one visitor u (d1,) and C (d, k)."""
    out, row = np.zeros((1 + item_dim, columns.shape[1])), 0
    for block in made.blocks:
        target, width = (out[1:], item_dim) if block.item else (out[:1], 1)
        for factor in visitor if block.visitor else (1.0,):
            target += factor * columns[row : row + width]
            row += width
    return out


def _squares(
    made: FeatureMap, visitor: FloatArray, columns: list[FloatArray], metric: FloatArray, items: int
) -> FloatArray:
    """``x' metric x`` of every item, (N,)."""
    pulled = pull(made, visitor, metric, len(columns))
    form = pull(made, visitor, np.ascontiguousarray(pulled.T), len(columns))
    square = np.zeros(items)
    for a, column in enumerate(columns, start=1):
        image = np.zeros(items)
        for b, other in enumerate(columns, start=1):
            image += form[a, b] * other
        image += form[0, a] + form[a, 0]
        image *= column
        square += image
    square += form[0, 0]
    own = min(made.effects, items)
    places = len(metric) - made.effects + np.arange(own)
    both = pulled[0, places]
    for a, column in enumerate(columns, start=1):
        both = both + pulled[a, places] * column[:own]
    square[:own] += 2.0 * both + metric[places, places]
    return square
