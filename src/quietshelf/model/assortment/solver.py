"""The unchecked front of the method: batch axes in, `Assortment` out."""

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
    """What to show.

    Attributes:
        items: Item indices, (..., K), ascending, -1 for empty places at the end.
        expected_revenue: What a visitor is expected to spend, (...).
    """

    items: IntArray
    expected_revenue: FloatArray

    @property
    def chosen(self) -> tuple[int, ...]:
        """The items of a single problem, without empty places."""
        require(self.items.ndim == 1, "chosen needs a single problem", shape=self.items.shape)
        return tuple(self.items[self.items != NOTHING].tolist())


def solve(
    utility: FloatArray,
    revenue: FloatArray | float,
    *,
    capacity: int,
    available: BoolArray | None = None,
    required: BoolArray | None = None,
    groups: IntArray | None = None,
    limits: IntArray | None = None,
) -> Assortment:
    """`best` without its checks, for hot loops: arrays must be valid, or the answer means nothing.

    Args:
        utility: Within ±1e300, (..., N).
        revenue: Within ±1e150, broadcast against ``utility``.
        capacity: K, from 1 to N.
        available: Mask, broadcast against ``utility``.
        required: Mask, broadcast against ``utility``; feasible.
        groups: Group of each item, (N,), -1 for none.
        limits: The most items shown of each group, (G,).
    """
    shape, rules = _prepared(utility, revenue, capacity, available, required, groups, limits)
    return answer(utility, np.asarray(revenue, dtype=np.float64), rules, shape, logarithmic=True)


def items_for(context: Context, utility: FloatArray, revenue: FloatArray, exp: Exponential = np.exp) -> IntArray:
    """The items of `solve` under the constraints of a context, for those who do not ask what they are worth.

    With `exponential.exp` they are the same on every machine; the default is faster.
    """
    constraints = (context.available, context.required, context.groups, context.limits)
    shape, rules = _prepared(utility, revenue, context.capacity, *constraints, exactly=context.fill)
    columns, kept, _ = _chosen(utility, revenue, rules, shape, logarithmic=True, valued=False, exp=exp)
    return _items(columns, kept, shape)


def _prepared(
    utility: FloatArray,
    revenue: FloatArray | float,
    capacity: int,
    available: BoolArray | None,
    required: BoolArray | None,
    groups: IntArray | None,
    limits: IntArray | None,
    *,
    exactly: bool = False,
) -> tuple[tuple[int, ...], Rules]:
    """The shape that everything broadcasts to, and the constraints."""
    parts = [np.asarray(part) for part in (utility, revenue, available, required) if part is not None]
    shape = parts[0].shape
    if any(part.shape != shape for part in parts):
        shape = np.broadcast_shapes(*(part.shape for part in parts))
    return shape, make_rules(shape, capacity, available, required, exactly, groups, limits)


def rows(array: FloatArray | float, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast to ``shape``, batch axes flattened into one."""
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
    """The constraints with batch axes flattened; groups whose limits cannot bind are forgotten."""
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
    """A set in each problem: item indices (B, K), which of them are shown, and what it earns, (B,)."""

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
    """Each problem by the method that suits it, whatever stands beside it: those of one kind are solved together."""
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
    """Broadcast over the batch axes, flattened into one."""
    return (values if values.shape == batch else np.broadcast_to(values, batch)).reshape(-1)


def _equal(given: FloatArray, common: FloatArray, rules: Rules, *, logarithmic: bool, valued: bool) -> _Chosen:
    """Problems whose items all earn the same, ``common`` (B,)."""
    if not logarithmic:
        flat, kept, share = by_weight(given, rules)
    else:
        flat, kept = by_utility(given, rules)
        share = chance(given, flat, kept) if valued else np.zeros(len(given))
    return _Chosen(_columns(flat, given.shape[-1]), kept, common * share)


def _unequal(weights: Weights, revenue: FloatArray, rules: Rules) -> _Chosen:
    """Problems whose weights are all ordinary or all not."""
    flat, kept, (value, _, _) = maximise(weights, revenue, rules)
    return _Chosen(_columns(flat, revenue.shape[-1]), kept, value)


def _columns(flat: IntArray, items: int) -> IntArray:
    """Item indices from flat places."""
    return np.asarray(flat - np.arange(0, len(flat) * items, items)[:, None])


def _items(columns: IntArray, kept: BoolArray, shape: tuple[int, ...]) -> IntArray:
    """Item indices, ascending, -1 for empty places at the end."""
    if not kept.all():
        columns = np.sort(np.where(kept, columns, shape[-1]), axis=-1)
        columns[columns == shape[-1]] = NOTHING
    return columns.reshape(*shape[:-1], columns.shape[-1])
