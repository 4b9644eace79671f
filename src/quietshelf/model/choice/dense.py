"""Rounds as dense features: validated, then summed in chunks, so that a million rounds need little extra memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.choice import likelihood
from quietshelf.model.choice.sums import Sums
from quietshelf.model.types import BoolArray, FloatArray, IntArray, as_array, check_shape, finite, require

CHUNK = 1 << 21
"""Numbers per feature chunk: 16 MB, of which a pass holds a few copies."""
NEAR = 1 << 16
"""Numbers processed together, in several passes: 512 kB."""
_ROOM, _NONE = threading.local(), np.empty(0)
Columns = tuple[FloatArray, BoolArray | None]
"""Features (..., d, J, m) of some rounds, contiguous along the rounds, and which places hold an item."""


@dataclass(frozen=True, eq=False)
class Data:
    """Validated rounds: features (..., n, J, d), choice (..., n), available (..., n, J) or None."""

    features: FloatArray
    choice: IntArray
    available: BoolArray | None
    outside: bool

    @property
    def rounds(self) -> int:
        """Rounds per problem."""
        return int(self.features.shape[-3])

    @cached_property
    def largest(self) -> float:
        """The largest absolute entry of x."""
        return max(abs(float(self.features.max(initial=0.0))), abs(float(self.features.min(initial=0.0))))

    def sums(self, theta: FloatArray) -> Sums:
        """The sums over all rounds at theta, (..., d)."""
        log_lik = (self._chosen * theta).sum(-1)
        slope = self._chosen.copy()
        information = np.zeros((*theta.shape, theta.shape[-1]))
        for x, offered in self._kept if self._kept is not None else self._columns():
            utility = (theta[..., None, :] @ _flat(x))[..., 0, :].reshape(*x.shape[:-3], *x.shape[-2:])
            share = likelihood.shares(utility, offered, outside=self.outside, axis=-2)
            log_lik -= share.log_partition.sum(-1)
            mean = np.einsum("...jm,...djm->...dm", share.items, x)
            slope -= mean.sum(-1)
            spread, weighted = _work(x.shape)
            np.subtract(x, mean[..., None, :], out=spread)  # centred before it is squared: nothing cancels
            np.multiply(spread, share.items[..., None, :, :], out=weighted)
            information += _flat(weighted) @ _flat(spread).mT
            information += (mean * share.none[..., None, :]) @ mean.mT
        information = 0.5 * (information + information.mT)
        return Sums(log_lik, slope, information)

    @cached_property
    def _chosen(self) -> FloatArray:
        """The sum of the chosen features, (..., d)."""
        total: FloatArray = likelihood.chosen_features(self.features, self.choice).sum(-2)
        return total

    @cached_property
    def _kept(self) -> list[Columns] | None:
        """All columns, or None if there are so many that every pass had better make them again."""
        return list(self._columns()) if self.features.size <= CHUNK else None

    def _columns(self) -> Iterator[Columns]:
        """Yield a few rounds at a time, so that they stay in the cache; how many does not depend on other problems."""
        width = max(1, NEAR // max(1, self.features.shape[-2] * self.features.shape[-1]))
        for begin in range(0, self.rounds, width):
            part = slice(begin, begin + width)
            x = np.ascontiguousarray(np.moveaxis(self.features[..., part, :, :], -3, -1).swapaxes(-3, -2))
            offered = None if self.available is None else self.available[..., part, :].mT
            yield x, offered


def _work(shape: tuple[int, ...]) -> FloatArray:
    """Scratch memory for two arrays of this shape, reused by every pass and fit: fresh memory is slow at first."""
    size = 2 * math.prod(shape)
    if getattr(_ROOM, "numbers", _NONE).size < size:
        _ROOM.numbers = np.empty(size)
    room: FloatArray = _ROOM.numbers[:size].reshape(2, *shape)
    return room


def _flat(x: FloatArray) -> FloatArray:
    """Reshape (..., d, J, m) to (..., d, J m)."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def checked(features: ArrayLike, choice: ArrayLike, available: ArrayLike | None, outside: bool) -> Data:
    """Validate rounds as `quietshelf.choice.fit` takes them; errors name the argument and the place."""
    x = finite("features", features, shape=(None, None, None))
    lead, places = x.shape[:-2], x.shape[-2]
    raw = as_array("choice", choice)
    require(raw.shape == lead, f"choice must have shape {lead}, one for each round", shape=raw.shape)
    number = np.issubdtype(raw.dtype, np.number)
    whole_numbers = np.issubdtype(raw.dtype, np.integer) or (number and bool(np.all(np.mod(raw, 1) == 0)))
    require(whole_numbers, "choice must be whole numbers", choice=raw.dtype)
    picked = raw.astype(np.int64)
    low = -1 if outside else 0
    bad = (picked < low) | (picked >= places)
    rule = f"choice must be a position from {low} to {places - 1}" + (" (-1: none)" if outside else "")
    _refuse_first(bad, rule, picked)
    if available is None:
        return Data(x, picked, None, outside)
    offered = as_array("available", available)
    require(offered.dtype == np.bool_, "available must be boolean", dtype=offered.dtype)
    check_shape("available", offered, x.shape[:-1])
    chosen_offered = np.take_along_axis(offered, np.maximum(picked, 0)[..., None], axis=-1)[..., 0]
    _refuse_first((picked >= 0) & ~chosen_offered, "choice must be an available place", picked)
    return Data(x, picked, offered, outside)


def _refuse_first(bad: BoolArray, rule: str, values: IntArray) -> None:
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{rule}, got choice[{', '.join(map(str, where))}]={values[where]}")
