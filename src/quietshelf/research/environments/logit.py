"""One round of multinomial logit visitors: what they pick, and what an offer loses against the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from quietshelf.model.assortment import items_for
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, Context, FloatArray, IntArray, Streams, child, require

Number = TypeVar("Number", bound=np.generic)
TOGETHER = 512
"""Visitors who are drawn, and whose best assortments are solved, in one call: all replicates of some rounds."""


class Weighed(NamedTuple):
    """An assortment: items in ascending order (..., K), their weights, and the sum of all weights, none's included."""

    items: IntArray
    weight: FloatArray
    total: FloatArray


@dataclass(frozen=True, eq=False)
class LogitRound:
    """A visitor of each world, with true utilities and one uniform number that decides what is picked.

    The same number serves every contestant: equal sets of items give equal choices, in whatever order they are shown.
    Assortments may have further axes, such as one of contestants, before those of the worlds.

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
        items, weight, total = self._weighed(assortment)
        place = np.count_nonzero(weight.cumsum(axis=-1) <= (self.draw * total)[..., None], axis=-1)
        last = items.shape[-1] - 1
        picked = taken(items, np.minimum(place, last)[..., None])[..., 0]
        return np.where(place <= last, picked, NOTHING)

    def regret(self, assortment: IntArray) -> FloatArray:
        """Expected revenue lost against the best assortment, (...); exactly zero for the best one."""
        value = self._value(assortment)
        return np.maximum(self.best - value, 0.0)  # another best set may sum to the same value but for rounding

    @cached_property
    def best(self) -> FloatArray:
        """The largest expected revenue that the context allows, (...); computed once for all contestants."""
        return self._value(items_for(self.context, self.utility, self.context.revenue))

    def _value(self, assortment: IntArray) -> FloatArray:
        items, weight, total = self._weighed(assortment)
        value: FloatArray = (weight * taken(self.context.revenue, items)).sum(axis=-1) / total
        return value

    def _weighed(self, assortment: IntArray) -> Weighed:
        """The items in order, what each weighs against the others, and what all of them and none weigh together."""
        if self._last and self._last[0][0] is assortment:
            return self._last[0][1]
        items = np.sort(assortment, axis=-1)
        check_allowed(self.context, items)
        utility = taken(self.utility, items)
        if (items[..., :1] == NOTHING).any():
            utility = np.where(items == NOTHING, -np.inf, utility)
        largest = utility.max(axis=-1, keepdims=True, initial=0.0)
        weight = np.exp(utility - largest)
        found = Weighed(items, weight, weight.sum(axis=-1) + np.exp(-largest[..., 0]))
        self._last[:] = [(assortment, found)]
        return found

    @cached_property
    def _last(self) -> list[tuple[IntArray, Weighed]]:
        """What was asked about last, for choice and regret ask about the same."""
        return []


@dataclass(frozen=True, eq=False)
class KnownRound(LogitRound):
    """A round whose best assortment was solved before; or many rounds, along the first axis of everything.

    Indices and slices cut rounds out, as of an array: for visitors with dense features and no constraints but
    availability.

    Attributes:
        known: Expected revenue of the best assortment, (...).
    """

    known: FloatArray

    @cached_property
    def best(self) -> FloatArray:
        """The largest expected revenue that the context allows, (...)."""
        return self.known

    def __len__(self) -> int:
        return len(self.draw)

    def __getitem__(self, index: Any) -> Self:
        context, features = self.context, self.context.features
        if not isinstance(features, Dense):
            raise TypeError(f"only rounds with dense features can be cut, got {type(features).__name__}")
        available = None if context.available is None else context.available[index]
        part = Context(Dense(features.x[index]), context.revenue[index], context.capacity, available)
        return self._cut(part, index)

    def _cut(self, context: Context, index: Any) -> Self:
        return type(self)(context, self.utility[index], self.draw[index], self.known[index])


class OpenRound:
    """The half of an environment that speaks of the round that is open; ``context`` of the other half opens it.

    Args:
        seeds: One per replicate.
        roles: How many random streams each replicate has.
    """

    def __init__(self, seeds: Sequence[SeedSequence], roles: int) -> None:
        require(len(seeds) >= 1, "a world needs one seed per replicate", seeds=len(seeds))
        self._count, self._next = len(seeds), 0
        self._streams = [Streams([child(seed, role) for seed in seeds]) for role in range(roles)]
        self._round: LogitRound | None = None

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        """The item that the visitor of the open round picks, (R,), or -1."""
        return self._open(context).choose(assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        """Expected revenue lost in the open round against the best assortment, (R,)."""
        return self._open(context).regret(assortment)

    def _expect(self, t: int) -> None:
        require(t == self._next, f"rounds must come one after the other: {self._next} is next", t=t)

    def _begin(self, opened: LogitRound) -> Context:
        self._round, self._next = opened, self._next + 1
        return opened.context

    def _open(self, context: Context) -> LogitRound:
        if self._round is None or context is not self._round.context:
            raise ValueError("context must be that of the open round")
        return self._round


class PreparedRounds(OpenRound):
    """An environment that draws its visitors many rounds at a time, and hands them out one by one or together."""

    def __init__(self, seeds: Sequence[SeedSequence], roles: int) -> None:
        super().__init__(seeds, roles)
        self._ready: KnownRound | None = None
        self._used = 0

    def context(self, t: int) -> Context:
        """The visitor of round t in every world; rounds come one after the other, from 0."""
        self._round = self.visits(t, 1)[0]
        return self._round.context

    def visits(self, t: int, most: int) -> KnownRound:
        """The visitors of round t and the next ones, ``most`` of them at most, along the first axis."""
        self._expect(t)
        ready, self._round = self._prepare(), None
        part = ready[self._used : self._used + (most if self.ahead else 1)]
        self._used, self._next = self._used + len(part), self._next + len(part)
        return part

    @property
    def ahead(self) -> bool:
        """Whether rounds may be drawn before their turn: not where somebody may ask for the tastes of each."""
        return True

    def _prepare(self) -> KnownRound:
        """The rounds at hand, of which at least one was not handed out."""
        if self._ready is None or self._used >= len(self._ready):
            self._ready, self._used = self._prepared(max(1, TOGETHER // self._count)), 0
        return self._ready

    def _prepared(self, many: int) -> KnownRound:
        """The next rounds, ``many`` at most."""
        raise NotImplementedError


def taken(values: NDArray[Number], items: IntArray) -> NDArray[Number]:
    """``values`` (..., N) of the items (..., K), leading axes broadcast; whatever stands there for empty places.

    >>> taken(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]))
    array([[2.],
           [4.]])
    """
    if values.ndim < 2:
        return values.take(items)
    first = np.arange(0, values.size, values.shape[-1]).reshape(*values.shape[:-1], 1)
    return values.reshape(-1).take(first + items)


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
