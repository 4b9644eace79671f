"""The solver without argument checks: batch axes in, `Assortment` out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.assortment.newton import maximise
from quietshelf.model.assortment.rules import Rules, surplus_positions
from quietshelf.model.assortment.uniform import by_utility, by_weight, chance, equal_revenue
from quietshelf.model.assortment.weights import (
    Exponential,
    Weights,
    from_utility,
    from_weight,
    ordinary_utility,
    ordinary_weight,
)
from quietshelf.model.types import NOTHING, BoolArray, Context, FloatArray, IntArray, require

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Assortment:
    """The best assortment.

    Attributes:
        items: Item indices, (..., K), ascending, with -1 in empty places at the end.
        expected_revenue: Expected revenue from one visitor, (...).
    """

    items: IntArray
    expected_revenue: FloatArray

    @property
    def chosen(self) -> tuple[int, ...]:
        """The items as a tuple without empty places, for a single problem."""
        require(self.items.ndim == 1, "chosen needs a single problem", shape=self.items.shape)
        return tuple(self.items[self.items != NOTHING].tolist())


def items_for(context: Context, utility: FloatArray, revenue: FloatArray, exp: Exponential = np.exp) -> IntArray:
    """The items of `best` under the constraints of a context, without its checks: for hot loops, on valid arrays.

    The result is meaningless unless utilities lie within ±1e300, revenues within ±1e150, and some assortment meets the
    constraints. With `exponential.exp` the items are the same on every machine; the default is faster.
    """
    parts = [np.asarray(part) for part in (utility, revenue, context.available, context.required) if part is not None]
    shape = parts[0].shape
    if any(part.shape != shape for part in parts):
        shape = np.broadcast_shapes(*(part.shape for part in parts))
    constraints = (context.available, context.required, context.fill, context.groups, context.limits)
    rules = make_rules(shape, context.capacity, *constraints)
    columns, kept, _ = _chosen(utility, revenue, rules, shape, logarithmic=True, valued=False, exp=exp)
    return _items(columns, kept, shape)


def rows(array: FloatArray | float, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast to ``shape`` and flatten the batch axes into one."""
    full = np.asarray(array, dtype=np.float64)
    return (full if full.shape == shape else np.broadcast_to(full, shape)).reshape(-1, shape[-1])


def make_rules(
    shape: tuple[int, ...],
    capacity: int,
    available: BoolArray | None,
    required: BoolArray | None,
    exactly: bool,
    groups: IntArray | None,
    limits: IntArray | None,
) -> Rules:
    """Flatten the batch axes of the constraints; drop groups if no limit can bind."""
    flat = (-1, shape[-1])
    barred = None if available is None else np.broadcast_to(~available, shape).reshape(flat)
    needed = None if required is None else np.broadcast_to(required, shape).reshape(flat)
    if groups is None or limits is None:
        return Rules(capacity, exactly, barred, needed)
    surplus = surplus_positions(groups, limits)
    return Rules(capacity, exactly, barred, needed, groups if surplus.size else None, surplus)


def answer(
    attraction: FloatArray, revenue: FloatArray, rules: Rules, shape: tuple[int, ...], *, logarithmic: bool
) -> Assortment:
    """Solve every problem of the batch, given weights or (``logarithmic``) utilities."""
    columns, kept, value = _chosen(attraction, revenue, rules, shape, logarithmic=logarithmic)
    return Assortment(_items(columns, kept, shape), value.reshape(shape[:-1])[()])


class _Chosen(NamedTuple):
    """One set per problem: item indices (B, K), which of them are shown, and its expected revenue, (B,)."""

    columns: IntArray
    kept: BoolArray
    value: FloatArray


def _chosen(
    attraction: FloatArray,
    revenue: FloatArray,
    rules: Rules,
    shape: tuple[int, ...],
    *,
    logarithmic: bool,
    valued: bool = True,
    exp: Exponential = np.exp,
) -> _Chosen:
    """Solve each problem by the method that suits it, regardless of the others; those of one kind go together."""
    given, earned = rows(attraction, shape), revenue if revenue.ndim else revenue[None]
    equal = _flat(equal_revenue(earned), shape[:-1])
    if equal.all():
        return _equal(given, _flat(earned[..., 0], shape[:-1]), rules, logarithmic=logarithmic, valued=valued)
    earned = rows(earned, shape)
    weigh, is_ordinary = (
        (partial(from_utility, exp=exp), ordinary_utility) if logarithmic else (from_weight, ordinary_weight)
    )
    weights = weigh(given)
    ordinary = np.ones_like(equal) if weights.exponent is None else is_ordinary(given)
    if not equal.any() and (weights.exponent is None or not ordinary.any()):
        return _unequal(weights, earned, rules)
    room = (len(given), rules.capacity)
    found = _Chosen(np.empty(room, np.int64), np.empty(room, np.bool_), np.empty(len(given)))
    for kind in filter(np.any, (equal, ordinary & ~equal, ~ordinary & ~equal)):
        some = kind.nonzero()[0]
        part = rules.rows(some)
        if equal[some[0]]:
            solved = _equal(given[some], earned[some, 0], part, logarithmic=logarithmic, valued=valued)
        else:
            solved = _unequal(weigh(given[some]), earned[some], part)
        for values, own in zip(found, solved, strict=True):
            values[some] = own
    return found


def _flat(values: NDArray[T], batch: tuple[int, ...]) -> NDArray[T]:
    """Broadcast over the batch axes and flatten them into one."""
    return (values if values.shape == batch else np.broadcast_to(values, batch)).reshape(-1)


def _equal(given: FloatArray, common: FloatArray, rules: Rules, *, logarithmic: bool, valued: bool) -> _Chosen:
    """Solve problems whose items all earn the same, ``common`` (B,)."""
    if not logarithmic:
        flat, kept, share = by_weight(given, rules)
    else:
        flat, kept = by_utility(given, rules)
        share = chance(given, flat, kept) if valued else np.zeros(len(given))
    return _Chosen(_columns(flat, given.shape[-1]), kept, common * share)


def _unequal(weights: Weights, revenue: FloatArray, rules: Rules) -> _Chosen:
    """Solve problems whose weights are all ordinary, or all not."""
    flat, kept, (value, _, _) = maximise(weights, revenue, rules)
    return _Chosen(_columns(flat, revenue.shape[-1]), kept, value)


def _columns(flat: IntArray, items: int) -> IntArray:
    """Convert flat places to item indices."""
    return np.asarray(flat - np.arange(0, len(flat) * items, items)[:, None])


def _items(columns: IntArray, kept: BoolArray, shape: tuple[int, ...]) -> IntArray:
    """Sort the item indices, with -1 in empty places at the end."""
    if not kept.all():
        columns = np.sort(np.where(kept, columns, shape[-1]), axis=-1)
        columns[columns == shape[-1]] = NOTHING
    return columns.reshape(*shape[:-1], columns.shape[-1])
