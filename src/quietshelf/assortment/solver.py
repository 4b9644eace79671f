"""The unchecked front of the method: batch axes in, `Assortment` out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quietshelf.assortment.newton import maximise
from quietshelf.assortment.rules import Rules, surplus_positions
from quietshelf.assortment.uniform import by_utility, by_weight, chance, common_revenue
from quietshelf.assortment.weights import from_utility, from_weight
from quietshelf.types import NOTHING, BoolArray, Context, FloatArray, IntArray, require


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


def items_for(context: Context, utility: FloatArray, revenue: FloatArray) -> IntArray:
    """The items of `solve` under the constraints of a context, for those who do not ask what they are worth."""
    constraints = (context.available, context.required, context.groups, context.limits)
    shape, rules = _prepared(utility, revenue, context.capacity, *constraints)
    if common_revenue(revenue, shape[:-1]) is None:
        return answer(utility, revenue, rules, shape, logarithmic=True).items
    return _items(*by_utility(rows(utility, shape), rules), shape, rules)


def _prepared(
    utility: FloatArray,
    revenue: FloatArray | float,
    capacity: int,
    available: BoolArray | None,
    required: BoolArray | None,
    groups: IntArray | None,
    limits: IntArray | None,
) -> tuple[tuple[int, ...], Rules]:
    """The shape that everything broadcasts to, and the constraints."""
    parts = [np.asarray(part) for part in (utility, revenue, available, required) if part is not None]
    shape = parts[0].shape
    if any(part.shape != shape for part in parts):
        shape = np.broadcast_shapes(*(part.shape for part in parts))
    return shape, make_rules(shape, capacity, available, required, False, groups, limits)


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
    given = rows(attraction, shape)
    common = common_revenue(revenue, shape[:-1])
    if common is None:
        weights = (from_utility if logarithmic else from_weight)(given)
        flat, kept, (value, _, _) = maximise(weights, rows(revenue, shape), rules)
    elif logarithmic:
        flat, kept = by_utility(given, rules)
        value = common * chance(given, flat, kept)
    else:
        flat, kept, share = by_weight(given, rules)
        value = common * share
    return Assortment(_items(flat, kept, shape, rules), value.reshape(shape[:-1])[()])


def _items(flat: IntArray, kept: BoolArray, shape: tuple[int, ...], rules: Rules) -> IntArray:
    """Item indices, ascending, -1 for empty places at the end, from flat places."""
    items = flat - np.arange(0, flat.shape[0] * shape[-1], shape[-1])[:, None]
    if not kept.all():
        items = np.sort(np.where(kept, items, shape[-1]), axis=-1)
        items[items == shape[-1]] = NOTHING
    return items.reshape(*shape[:-1], rules.capacity)
