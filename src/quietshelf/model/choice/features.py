"""Features as a dense array, or as a visitor and a catalogue whose feature vectors are never formed.

Both implement the protocol ``types.Features``: ``utility``, ``norm`` and ``rows``. To stay fast inside a loop they do
not check their numbers: callers validate outside input with ``types.finite``. Visitor axes are never merged into matrix
axes: the products of a visitor have the same shapes alone and in a group, hence the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import BoolArray, FloatArray, IntArray, as_float, check_shape, require

LONG = 16
"""Vectors at least this long are summed as fast along themselves as across vectors."""
_CHUNK = 4096  # items per step of a structured norm, so that its scratch memory is small and stays in the cache


@dataclass(frozen=True, eq=False)
class Dense:
    """Features as one array; do not change it afterwards.

    Attributes:
        x: The vectors, (..., N, d). Used in place if laid out in memory as (..., d, N), or if the vectors are long;
            otherwise copied once.

    >>> Dense(np.array([[1.0, 2.0], [3.0, 4.0]])).utility(np.array([1.0, 10.0]))
    array([21., 43.])
    """

    x: FloatArray

    def __post_init__(self) -> None:
        x = as_float("features", self.x)
        require(x.ndim >= 2, "features must have shape (..., N, d)", shape=x.shape)
        object.__setattr__(self, "x", x)

    @property
    def items(self) -> int:
        """N, the number of items."""
        return int(self.x.shape[-2])

    @property
    def dim(self) -> int:
        """d, the length of x."""
        return int(self.x.shape[-1])

    def utility(self, theta: FloatArray) -> FloatArray:
        """``x . theta`` of every item, (..., N), for theta (..., d)."""
        _fits("theta", theta, (self.dim,))
        utility: FloatArray
        if self.by_rows:
            utility = (self.x @ theta[..., None])[..., 0]
        else:
            utility = (theta[..., None, :] @ self._columns)[..., 0, :]
        return utility

    def norm(self, metric: FloatArray) -> FloatArray:
        """``sqrt(x' metric x)`` of every item, (..., N), for a positive semidefinite metric (..., d, d)."""
        _fits("metric", metric, (self.dim, self.dim))
        if self.by_rows:
            image = self.x @ metric
            image *= self.x
            return _root((image @ np.ones((self.dim, 1)))[..., 0])  # takes a third as long as one product per vector
        return _root(np.einsum("...dn,...dn->...n", metric @ self._columns, self._columns))

    def rows(self, items: IntArray) -> FloatArray:
        """The vectors x of the given items (..., K) as (..., K, d); zero where the place is empty."""
        batch = self.x.shape[:-2]
        if not batch:
            return _emptied(self.x.take(items, axis=0), items)
        if all(n == 1 for n in batch):
            return _emptied(self.x.reshape(self.items, self.dim).take(items, axis=0), items)
        worlds = (np.arange(n).reshape(n, *(1,) * (len(batch) - axis)) for axis, n in enumerate(batch))
        return _emptied(self.x[(*worlds, items)], items)

    @property
    def by_rows(self) -> bool:
        """Whether the vectors are long and contiguous: transposing them would take longer than it saves."""
        return self.dim >= LONG and self.x.strides[-1] == self.x.itemsize

    @cached_property
    def _columns(self) -> FloatArray:
        """The vectors as (..., d, N): sums over d then run along contiguous items, about twice as fast for small d."""
        columns = self.x.mT
        if columns.strides[-2:] == (columns.itemsize * columns.shape[-1], columns.itemsize):
            return columns
        return np.ascontiguousarray(columns)


@dataclass(frozen=True, eq=False)
class Catalogued:
    """A visitor who sees a catalogue through a feature map: x is formed only for the rows asked for.

    With d1 visitor and d2 item features, after pulling theta or the metric back to (1, v) by ``FeatureMap.pull``,
    a utility costs O(d + N d2) and a norm O(d² + N d2²); forming x would cost O(N d) and using it O(N d²). Item effects
    are looked up: they add O(N) to the utility and O(N d2) to the norm.

    Attributes:
        visitor: u, (..., d1).
        catalogue: v, (N, d2), the same for all visitors; fastest as a `Catalogue`, or in column order.
        feature_map: Makes x from the two.
        numbers: Number of each item, (N,), which selects its effect; None for 0 to N - 1.
    """

    visitor: FloatArray
    catalogue: Catalogue | FloatArray
    feature_map: FeatureMap
    numbers: IntArray | None = None

    def __post_init__(self) -> None:
        visitor = as_float("visitor", self.visitor)
        require(visitor.ndim >= 1, "visitor must have shape (..., visitor features)", shape=visitor.shape)
        object.__setattr__(self, "visitor", np.ascontiguousarray(visitor))
        object.__setattr__(self, "catalogue", Catalogue.of(self.catalogue))

    @property
    def stored(self) -> Catalogue:
        """The catalogue in blocks."""
        assert isinstance(self.catalogue, Catalogue)  # noqa: S101 - for the type checker: converted above
        return self.catalogue

    @property
    def items(self) -> int:
        """N, the number of items."""
        return int(self.catalogue.shape[0])

    @property
    def dim(self) -> int:
        """d, the length of x."""
        return self.feature_map.dim(self.visitor.shape[-1], self.catalogue.shape[1])

    def utility(self, theta: FloatArray) -> FloatArray:
        """``x . theta`` of every item, (..., N), for theta (..., d)."""
        _fits("theta", theta, (self.dim,))
        slope = self.slope(theta)
        utility = np.empty((*slope.shape[:-1], self.items))
        for start, block in self.stored.starts():
            part = utility[..., None, start : start + block.columns.shape[1]]
            np.matmul(slope[..., None, 1:], block.columns, out=part)  # one product per visitor
        utility += slope[..., :1]
        if self.feature_map.effects:
            utility += np.where(self._has_effect, theta[..., self._effect], 0.0)
        return utility

    def norm(self, metric: FloatArray) -> FloatArray:
        """``sqrt(x' metric x)`` of every item, (..., N), for a positive semidefinite metric (..., d, d)."""
        _fits("metric", metric, (self.dim, self.dim))
        W = self.form(metric)
        cross = (W[..., 0, 1:] + W[..., 1:, 0])[..., None]
        square = np.empty((*W.shape[:-2], self.items))
        for first, block in self.stored.starts():
            for start in range(0, block.columns.shape[1], _CHUNK):
                v = block.columns[:, start : start + _CHUNK]
                image = W[..., 1:, 1:] @ v
                image += cross
                np.einsum("...dn,...dn->...n", image, v, out=square[..., first + start :][..., : v.shape[1]])
        square += W[..., :1, 0]
        if self.feature_map.effects:
            square += np.where(self._has_effect, self._with_effects(metric), 0.0)
        return _root(square)

    def slope(self, theta: FloatArray) -> FloatArray:
        """Tastes theta (..., d) in the coordinates of (1, v), (..., 1 + d2), without effects."""
        return self._pull(theta[..., None])[..., 0]

    def form(self, metric: FloatArray) -> FloatArray:
        """A metric (..., d, d) in the coordinates of (1, v), (..., 1 + d2, 1 + d2), without effects."""
        own = self.feature_map.effects
        plain = metric[..., :-own, :-own] if own else metric
        return self._pull(self._pull(plain).mT)

    def rows(self, items: IntArray) -> FloatArray:
        """The vectors x of the given items (..., K) as (..., K, d); zero where the place is empty."""
        return _emptied(self.feature_map.dense(self.visitor, self.catalogue[items], self._numbers[items]), items)

    def _with_effects(self, metric: FloatArray) -> FloatArray:
        """What effects add to the squared norms, (..., N): ``2 x' metric e + e' metric e``."""
        cross = self._pull(metric[..., : -self.feature_map.effects, :][..., self._effect])
        both = cross[..., 0, :] + np.einsum("...dn,dn->...n", cross[..., 1:, :], np.asarray(self.catalogue).T)
        return np.asarray(2.0 * both + metric[..., self._effect, self._effect])

    @cached_property
    def _numbers(self) -> IntArray:
        return np.arange(self.items) if self.numbers is None else self.numbers

    @cached_property
    def _has_effect(self) -> BoolArray:
        return np.asarray(self._numbers < self.feature_map.effects)

    @cached_property
    def _effect(self) -> IntArray:
        """Index in x of each item's effect, (N,); the last place for items without an effect."""
        own = self.feature_map.effects
        return np.asarray(self.dim - own + np.minimum(self._numbers, own - 1))

    def _pull(self, columns: FloatArray) -> FloatArray:
        """From the coordinates of x to those of (1, v): (..., d, k) to (..., 1 + d2, k)."""
        return self.feature_map.pull(self.visitor, columns, self.catalogue.shape[1])


def _fits(name: str, array: FloatArray, shape: tuple[int, ...]) -> None:
    """``check_shape``, at almost no cost if the shape is right."""
    if array.shape[-len(shape) :] != shape:
        check_shape(name, array, shape)


def _root(square: FloatArray) -> FloatArray:
    """Take the square root in place; rounding may leave the square of a tiny norm below zero."""
    np.maximum(square, 0.0, out=square)
    return np.sqrt(square, out=square)


def _emptied(rows: FloatArray, items: IntArray) -> FloatArray:
    """Set the rows of empty places to zero, in place."""
    if items.size and items.min() < 0:
        rows[np.broadcast_to(items < 0, rows.shape[:-1])] = 0.0
    return rows
