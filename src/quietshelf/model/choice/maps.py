"""Feature maps: visitor features u and item features v -> the vector x, in which utilities are linear.

    item    (1, v)                 concat  (1, u, v)
    outer   (u ⊗ v)                full    (1, v, u, u ⊗ v)

Every block of x is ``left ⊗ right``, where left is 1 or u and right is 1 or v. For a given visitor x is thus affine
in the item, ``x = A(u) (1, v)``, with one nonzero in each row of A(u); ``pull`` multiplies by A(u)' without forming it.

A map may end with *item effects*: one place for each of the first items, 1 for that item and 0 for all others,
regardless of the visitor. They capture what no feature says about an item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, IntArray, one_of


class Block(NamedTuple):
    """``left ⊗ right``: whether each side is a feature vector or the number 1."""

    visitor: bool
    item: bool


_ONE, _ITEM, _VISITOR, _PRODUCT = Block(False, False), Block(False, True), Block(True, False), Block(True, True)

MAPS: dict[str, tuple[Block, ...]] = {
    "item": (_ONE, _ITEM),
    "concat": (_ONE, _VISITOR, _ITEM),
    "outer": (_PRODUCT,),
    "full": (_ONE, _ITEM, _VISITOR, _PRODUCT),
}
"""The known maps and their blocks, in the order of x."""


def feature_map(name: str, *, intercept: bool = True, effects: int = 0) -> FeatureMap:
    """Look up a map by name, with a number of item effects; ``intercept=False`` drops the 1 (``outer`` has none).

    >>> feature_map("full").names(["age"], ["price", "stars"])
    ['intercept', 'price', 'stars', 'age', 'age:price', 'age:stars']
    >>> feature_map("item", effects=2).names([], ["price"])
    ['intercept', 'price', 'effect 0', 'effect 1']
    >>> feature_map("cross")
    Traceback (most recent call last):
    ...
    ValueError: feature_map must be one of item, concat, outer, full, got feature_map='cross'
    """
    one_of("feature_map", name, MAPS)
    return FeatureMap(name, tuple(block for block in MAPS[name] if intercept or block != _ONE), effects)


@dataclass(frozen=True)
class FeatureMap:
    """A feature map, made by ``feature_map``.

    Attributes:
        name: One of `MAPS`.
        blocks: The blocks that x concatenates. In ``u ⊗ v``, place ``a * len(v) + b`` holds ``u[a] v[b]``.
        effects: Number of item effects at the end; item i has the i-th, and none if i is at least this number.
    """

    name: str
    blocks: tuple[Block, ...]
    effects: int = 0

    @property
    def intercept(self) -> bool:
        """Whether x holds a 1."""
        return _ONE in self.blocks

    def dim(self, visitor_dim: int, item_dim: int) -> int:
        """d, the length of x.

        >>> feature_map("full", intercept=False).dim(6, 6)
        48
        """
        return _layout(self.blocks, visitor_dim, item_dim)[1] + self.effects

    def names(self, visitor_names: Sequence[str], item_names: Sequence[str]) -> list[str]:
        """A name for each place of x: ``visitor:item`` for products, ``effect i`` for the effect of item i."""
        made = [
            ":".join(filter(None, (left, right))) or "intercept"
            for block in self.blocks
            for left in (visitor_names if block.visitor else [""])
            for right in (item_names if block.item else [""])
        ]
        return made + [f"effect {number}" for number in range(self.effects)]

    def in_product(self, visitor_dim: int, item_dim: int) -> IntArray:
        """The index of each place of x, effects excepted, in (1, u) ⊗ (1, v): every map is a selection from it.

        >>> feature_map("concat").in_product(1, 2)  # (1, u, v) in (1, v1, v2, u, u v1, u v2)
        array([0, 3, 1, 2])
        """
        left = [np.arange(1, 1 + visitor_dim) if block.visitor else np.zeros(1, np.int64) for block in self.blocks]
        right = [np.arange(1, 1 + item_dim) if block.item else np.zeros(1, np.int64) for block in self.blocks]
        return np.concatenate([((1 + item_dim) * a[:, None] + b).ravel() for a, b in zip(left, right, strict=True)])

    def dense(self, visitor: FloatArray, items: FloatArray, numbers: IntArray | None = None) -> FloatArray:
        """The vectors x of all items, (..., N, d), for u (..., d1) and v (N, d2) or (..., N, d2).

        ``numbers`` gives the number of each item, (N,) or (..., N); None for 0 to N - 1. Only effects depend on it.

        >>> feature_map("outer").dense(np.array([1.0, 10.0]), np.array([[2.0, 3.0]]))
        array([[ 2.,  3., 20., 30.]])
        >>> feature_map("outer", effects=3).dense(np.array([10.0]), np.array([[2.0]]), np.array([1]))
        array([[20.,  0.,  1.,  0.]])
        """
        layout, width = _layout(self.blocks, visitor.shape[-1], items.shape[-1])
        x = np.empty((*_batch(visitor.shape[:-1], items.shape[:-2]), items.shape[-2], width + self.effects))
        for block, left, right, place in layout:
            part = x[..., place]
            if not block.visitor:
                part[...] = items if block.item else 1.0
            elif not block.item:
                part[...] = visitor[..., None, :]
            else:
                with np.errstate(over="ignore", invalid="ignore"):  # huge features must not show in a log
                    product: FloatArray = visitor[..., None, :, None] * items[..., :, None, :]
                part[...] = product.reshape(*product.shape[:-2], left * right)
        if self.effects:
            who = np.arange(items.shape[-2]) if numbers is None else numbers
            x[..., -self.effects :] = who[..., None] == np.arange(self.effects)
        return x

    def pull(self, visitor: FloatArray, columns: FloatArray, item_dim: int) -> FloatArray:
        """``A(u)' C``, (..., 1 + d2, k), for u (..., d1) and C (..., d, k): each entry of C is read once.

        Places of effects, if C has any, are ignored.
        """
        layout, _ = _layout(self.blocks, visitor.shape[-1], item_dim)
        k = columns.shape[-1]
        out = np.zeros((*_batch(visitor.shape[:-1], columns.shape[:-2]), 1 + item_dim, k))
        for block, left, right, place in layout:
            part = columns[..., place, :]
            if block.visitor:
                summed = visitor[..., None, :] @ part.reshape(*part.shape[:-2], left, right * k)
                part = summed.reshape(*summed.shape[:-2], right, k)
            target = out[..., 1:, :] if block.item else out[..., :1, :]
            target += part
        return out


class _Part(NamedTuple):
    """A block, the lengths of its left and right side, and its place in x."""

    block: Block
    left: int
    right: int
    place: slice


@lru_cache(maxsize=256)
def _layout(blocks: tuple[Block, ...], visitor_dim: int, item_dim: int) -> tuple[tuple[_Part, ...], int]:
    """The parts of x and its length without effects; cached, since every visitor asks several times."""
    parts, stop = [], 0
    for block in blocks:
        left, right = visitor_dim if block.visitor else 1, item_dim if block.item else 1
        start, stop = stop, stop + left * right
        parts.append(_Part(block, left, right, slice(start, stop)))
    return tuple(parts), stop


def _batch(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(one, other) if one and other else one or other
