"""One round of multinomial logit visitors: what they pick, and what an offer loses against the best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quietshelf.assortment import expected_revenue, solve
from quietshelf.types import NOTHING, Context, FloatArray, IntArray, require


@dataclass(frozen=True, eq=False)
class LogitRound:
    """A visitor of each world, with true utilities and one uniform number that decides what is picked.

    The same number serves every contestant: equal sets of items give equal choices, in whatever order they are shown.

    Attributes:
        context: The visitors.
        utility: True utilities, (..., N).
        draw: Uniform on [0, 1), (...).
    """

    context: Context
    utility: FloatArray
    draw: FloatArray

    def choose(self, assortment: IntArray) -> IntArray:
        """The item picked, (...), or -1; refuses an assortment that the context does not allow."""
        items = np.sort(assortment, axis=-1)
        check_allowed(self.context, items)
        utility = np.where(items == NOTHING, -np.inf, np.take_along_axis(self.utility, items, axis=-1))
        largest = utility.max(axis=-1, keepdims=True, initial=0.0)
        reached = np.exp(utility - largest).cumsum(axis=-1)
        goal = self.draw[..., None] * (reached[..., -1:] + np.exp(-largest))
        place = (reached <= goal).sum(axis=-1, keepdims=True)
        last = items.shape[-1] - 1
        picked = np.take_along_axis(items, np.minimum(place, last), axis=-1)
        return np.where(place <= last, picked, NOTHING)[..., 0]

    def regret(self, assortment: IntArray) -> FloatArray:
        """Expected revenue lost against the best assortment, (...); exactly zero for the best one."""
        lost: FloatArray = self.best - self._value(np.sort(assortment, axis=-1))
        return np.maximum(lost, 0.0)  # another best set may sum to the same value but for rounding

    @cached_property
    def best(self) -> FloatArray:
        """The largest expected revenue that the context allows, (...); computed once for all contestants."""
        given = self.context
        shown = solve(
            self.utility,
            given.revenue,
            capacity=given.capacity,
            available=given.available,
            required=given.required,
            groups=given.groups,
            limits=given.limits,
        ).items
        return self._value(np.sort(shown, axis=-1))

    def _value(self, items: IntArray) -> FloatArray:
        return expected_revenue(self.utility, self.context.revenue, items)


def check_allowed(context: Context, items: IntArray) -> None:
    """Refuse items (..., K), sorted, that a policy had no right to show: regret against them would mean nothing."""
    count = context.revenue.shape[-1]
    require(items.shape[-1] <= context.capacity, "at most capacity items may be shown", shape=items.shape)
    require(items.min(initial=0) >= NOTHING and items.max(initial=0) < count, f"items must be from -1 to {count - 1}")
    twice = (items[..., 1:] == items[..., :-1]) & (items[..., 1:] != NOTHING)
    require(not twice.any(), "an item may be shown only once")
    if context.available is None and context.required is None and context.groups is None:
        return
    shown = np.zeros((*items.shape[:-1], count + 1), dtype=np.bool_)
    np.put_along_axis(shown, items, True, axis=-1)  # an empty place, -1, marks the column that is dropped next
    shown = shown[..., :-1]
    if context.available is not None:
        require(not (shown & ~context.available).any(), "only available items may be shown")
    if context.required is not None:
        require((shown | ~context.required).all(), "required items must be shown")
    if context.groups is not None and context.limits is not None:
        member = context.groups[:, None] == np.arange(context.limits.size)
        require((shown @ member.astype(np.int64) <= context.limits).all(), "groups must keep within their limits")
