"""Offers from large catalogues: exact scores decide, computed only for items that may be among the best.

What is shown is defined without any screening: the K items with the largest ``s + JITTER max(S, 1) coin``, ties going
to the first, subject to limits on groups, where s is `Scores.exact`, S is `Scores.size`, and every item has its own
coin. This depends on the visitor, the release, the items and the visitor's own coins (R3). Screening finds these items:

1. T, the K-th largest exact score among some items, is at most the K-th largest of all. A coin adds less than
   ``D = DOUBT max(S, 1)``, so no item with a score below T - D is shown. With limits, T is the smallest score in some
   allowed set of as many items as can be shown: the set shown, a greedy choice from a matroid, has no smaller score.
2. An item whose bound is below the floor of T - D has such a score (`choice.screening`) and is dropped unscored.
3. The others are scored exactly. If the K-th of them leads by more than D, coins cannot matter and none are drawn;
   otherwise the items within D of it draw theirs. With limits all remaining items draw.

The last bits of a bound may depend on the other visitors screened with it: bounds decide which items are scored, not
which are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quietshelf.model.assortment import equal_revenue
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.screen import Screen
from quietshelf.model.choice.screening import LARGEST_REACH, Common, Scores
from quietshelf.model.types import NOTHING, BoolArray, Context, FloatArray, IntArray, Random, Release
from quietshelf.policies.chance import DOUBT, JITTER, LARGEST, batch_of

MANY = 20_000
"""Items above which offers are made from a shortlist."""
PROBES = 4
"""Items scored first, per place of an assortment, to find T."""
GROUP = 32
"""Visitors whose bounds are computed in one product; bounds take 4 bytes per visitor and item."""
GROUP_ON_DEVICE = 256
MORE = 16
"""Factor by which more items are scored first if limits on groups leave too few."""
FINE = 512
"""Least number of remaining items at which the fine bound pays."""


def suits(context: Context) -> bool:
    """Whether offers are made from a shortlist; depends on the items and on public rules only."""
    features = context.features
    if context.revenue.shape[-1] <= MANY or not isinstance(features, Catalogued):
        return False
    return not features.feature_map.effects and features.stored.reach <= LARGEST_REACH


def shortlisted(
    context: Context, release: Release, theta: FloatArray, radius: FloatArray, rng: Random
) -> tuple[IntArray, BoolArray, FloatArray | None]:
    """Return assortments (..., K), whether each is decided, (...), and all coins if they had to be drawn.

    Visitors are undecided if they explore, if their items differ in revenue, or if their scores may overflow. That does
    not depend on the other visitors.
    """
    features, batch = context.features, batch_of(context, release)
    assert isinstance(features, Catalogued)  # noqa: S101 - `suits` says so
    scores = _scores(features, release, theta, radius, batch)
    plain = equal_revenue(context.revenue) & ~release.explore & (radius >= 0)
    sound = np.broadcast_to(plain, batch).reshape(-1) & (scores.size <= LARGEST)
    coins = None if hasattr(rng, "random_at") else rng.random((*batch, features.items))
    found = np.full((sound.size, context.capacity), NOTHING)
    wanted = np.flatnonzero(sound)
    many = GROUP if features.stored.device is None else GROUP_ON_DEVICE
    for start in range(0, wanted.size, many):
        some = wanted[start : start + many]
        group = [_Visitor(scores, int(who), _Coins(rng, int(who), coins), *_rules(context, batch, who)) for who in some]
        found[some] = _shown(group, scores.only(some), _common(features, release))
    return found.reshape(*batch, context.capacity), sound.reshape(batch), coins


def _shown(group: list[_Visitor], scores: Scores, common: Common) -> list[IntArray]:
    """Decide what to show each visitor of a group, (K,)."""
    bounds = scores.coarse(common)
    screen = bounds.everywhere(scores.catalogue, common)
    screen.bar({place: visitor.barred for place, visitor in enumerate(group) if visitor.barred is not None})
    wanted = PROBES * max(1, *(visitor.places for visitor in group))
    least = _least(group, scores, screen, wanted)
    while group[0].quota is not None and np.isneginf(least).any() and wanted * MORE < len(scores.catalogue):
        wanted *= MORE  # these all belong to the same few groups
        least = _least(group, scores, screen, wanted)
    coarse = zip(group, screen.above(bounds.floors(least)), least.tolist(), strict=True)
    left = [one.finer(items, good) for one, items, good in coarse]
    return [one.best(items, score) for one, items, score in zip(group, left, _exact(scores, left), strict=True)]


def _least(group: list[_Visitor], scores: Scores, screen: Screen, wanted: int) -> FloatArray:
    """T - D of each visitor, (B,), from that many items with large bounds."""
    first = [_fewer(items, 2 * wanted) for items in screen.best(wanted)]
    known = zip(group, first, _exact(scores, first), strict=True)
    return np.array([one.least(items, score) for one, items, score in known])


def _exact(scores: Scores, items: list[IntArray]) -> list[FloatArray]:
    """The exact scores of each visitor's items: short lists in one step, padded with the first item."""
    long = max(map(len, items))
    everybody = np.arange(len(items))
    if long > FINE:
        return [scores.exact(everybody[[who]], one[None])[0] for who, one in enumerate(items)]
    full = np.zeros((len(items), long), dtype=np.int64)
    for row, one in zip(full, items, strict=True):
        row[: one.size] = one
    return [row[: one.size] for row, one in zip(scores.exact(everybody, full), items, strict=True)]


@dataclass(frozen=True)
class _Coins:
    """One visitor's coins: already drawn, (..., N), or drawn item by item."""

    rng: Any
    visitor: int
    drawn: FloatArray | None

    def of(self, items: IntArray, count: int) -> FloatArray:
        """Uniform on [0, 1), (n,)."""
        if self.drawn is not None:
            return np.asarray(self.drawn.reshape(-1, count)[self.visitor, items])
        return np.asarray(self.rng.random_at(self.visitor, items, count))


@dataclass(frozen=True)
class _Visitor:
    """One visitor.

    Attributes:
        scores: The scores of all visitors.
        place: Index of this visitor among them.
        coins: Coins of this visitor.
        capacity: K.
        needed: Items that must be shown.
        barred: Items excluded from the search, (N,), because they must not or must be shown; None for none.
        quota: What limits on groups leave after the items that must be shown; None without limits.
    """

    scores: Scores
    place: int
    coins: _Coins
    capacity: int
    needed: IntArray
    barred: BoolArray | None
    quota: _Quota | None

    @cached_property
    def places(self) -> int:
        """How many items can be shown besides those that must be, within the quota."""
        room = self.capacity - self.needed.size
        return room if self.quota is None else min(room, self.quota.most(self.barred))

    @property
    def size(self) -> float:
        """max(S, 1)."""
        return max(float(self.scores.size[self.place]), 1.0)

    def least(self, items: IntArray, score: FloatArray) -> float:
        """T - D from the scores of some items, ascending; minus infinity if they are too few."""
        if not self.places:
            return np.inf
        first = self._first(items, score)
        return -np.inf if first.size < self.places else float(score[first[-1]]) - DOUBT * self.size

    def finer(self, left: IntArray, least: float) -> IntArray:
        """Narrow the items down by the fine bound, if there are many."""
        if left.size <= max(FINE, self.places):
            return left
        own = self.scores.only(np.array([self.place]))
        bounds = own.fine()
        upper = bounds.of(0, own.catalogue.columns(left, single=True))
        some = min(PROBES * self.places, left.size)
        first = left[np.sort(np.argpartition(upper, left.size - some)[left.size - some :])]
        least = max(least, self.least(first, own.exact(np.zeros(1, dtype=np.int64), first[None])[0]))
        return np.asarray(left[upper >= bounds.floors(np.array([least]))[0]])

    def best(self, left: IntArray, score: FloatArray) -> IntArray:
        """The items to show, (K,), ascending, -1 for empty places; ``left`` holds all candidates."""
        order, doubt = self._first(left, score), DOUBT * self.size
        if self.quota is not None:
            tied = np.ones(left.size, dtype=bool)
        elif 0 < self.places < left.size:
            last = score[order[-1]]
            tied = np.abs(score - last) <= doubt
            tied &= np.count_nonzero(score >= last - doubt) > self.places
        else:
            tied = np.zeros(left.size, dtype=bool)
        if tied.any():
            coins = self.coins.of(left[tied], len(self.scores.catalogue))
            score[tied] += (JITTER * self.size) * coins
            order = self._first(left, score)
        shown = np.sort(np.concatenate([self.needed, left[order]]))
        return np.concatenate([shown, np.full(self.capacity - shown.size, NOTHING)])

    def _first(self, items: IntArray, score: FloatArray) -> IntArray:
        """Positions of the best allowed items, best first; ties go to the first."""
        order = np.argsort(-score, kind="stable")
        if self.quota is not None:
            order = order[self.quota.within(items[order])]
        return order[: self.places]


@dataclass(frozen=True)
class _Quota:
    """Limits on groups.

    Attributes:
        groups: Group of each item, (N,), -1 for none.
        left: How many more items of each group, and of no group, may be shown, (G + 1,).
    """

    groups: IntArray
    left: IntArray

    def most(self, barred: BoolArray | None) -> int:
        """How many of the items that are not barred can be shown together."""
        free = self.groups if barred is None else self.groups[~barred]
        return int(np.minimum(np.bincount(free % self.left.size, minlength=self.left.size), self.left).sum())

    def within(self, items: IntArray) -> BoolArray:
        """Which of these items, best first, fit the limit of their group."""
        group = self.groups[items] % self.left.size
        order = np.argsort(group, kind="stable")
        sorted_group = group[order]
        place = np.empty(items.size, dtype=np.int64)
        place[order] = np.arange(items.size) - np.searchsorted(sorted_group, sorted_group)
        return np.asarray(place < self.left[group])


def _fewer(items: IntArray, count: int) -> IntArray:
    """Thin out more than ``count`` items evenly, so that many ties are not scored twice."""
    return items if items.size <= count else items[:: items.size // count]


def _scores(
    features: Catalogued, release: Release, theta: FloatArray, radius: FloatArray, batch: tuple[int, ...]
) -> Scores:
    """Prepare the scores of all visitors, flattened into one axis."""
    wide = bool((radius > 0).any())
    slope, form = features.slope(theta), features.form(release.covariance) if wide else None
    width = slope.shape[-1]
    return Scores(
        features.stored,
        np.broadcast_to(slope, (*batch, width)).reshape(-1, width),
        None if form is None else np.broadcast_to(form, (*batch, width, width)).reshape(-1, width, width),
        np.broadcast_to(radius, batch).reshape(-1),
    )


def _common(features: Catalogued, release: Release) -> Common:
    """The metric that all visitors of a release share, computed once per release."""
    shared, covariance = features.stored.shared, release.covariance
    held = shared.get("common")
    key = (features.feature_map, features.visitor.shape[-1])
    if held is None or held[0] != key or not (held[1] is covariance or np.array_equal(held[1], covariance)):
        held = shared["common"] = (key, covariance, Common.of(features, covariance))
    found: Common = held[2]
    return found


def _rules(context: Context, batch: tuple[int, ...], who: int) -> tuple[int, IntArray, BoolArray | None, _Quota | None]:
    """One visitor's capacity, required items, mask of excluded items, and limits."""
    place = np.unravel_index(who, batch) if batch else ()

    def own(mask: BoolArray) -> BoolArray:
        return np.asarray(np.broadcast_to(mask, (*batch, mask.shape[-1]))[place])

    needed = np.empty(0, dtype=np.int64) if context.required is None else np.flatnonzero(own(context.required))
    barred = None if context.available is None else ~own(context.available)
    if needed.size:
        barred = np.zeros(context.revenue.shape[-1], dtype=bool) if barred is None else barred
        barred[needed] = True
    if context.groups is None or context.limits is None:
        return context.capacity, needed, barred, None
    limits = np.append(context.limits, context.groups.size)  # -1, no group, counts as the last
    taken = np.bincount(context.groups[needed] % limits.size, minlength=limits.size)
    return context.capacity, needed, barred, _Quota(context.groups, limits - taken)
