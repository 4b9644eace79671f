"""Offers from large catalogues: the best items by exact scores, which are computed only of those that may be best.

What is shown is defined without any screening: the K items of largest ``s + JITTER max(S, 1) coin``, of equal ones the
first, where s is `Scores.exact`, S is `Scores.size`, and every item has a coin of its own. All of it depends on the
visitor, the release, the items and the visitor's own coins (R3). Screening finds the same items:

1. T, the K-th largest exact score of some items, is at most the K-th largest of all. A coin adds less than
   ``D = DOUBT max(S, 1)``, so no item whose score is below T - D is shown.
2. An item whose bound is below the floor of T - D has such a score (`choice.screening`), and is left out unseen.
3. The others are scored exactly. Where the K-th of them leads by more than D, coins cannot matter, and none are drawn;
   else those within D of it draw theirs.

Bounds may differ in their last bits with the visitors screened beside: they decide who is looked at, not who is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.assortment import equal_revenue
from quietshelf.choice.features import Catalogued
from quietshelf.choice.screening import LARGEST_REACH, Common, Scores
from quietshelf.policies.chance import DOUBT, JITTER, LARGEST, batch_of
from quietshelf.types import NOTHING, BoolArray, Context, FloatArray, IntArray, Random, Release

MANY = 20_000
"""Items above which offers are made from a shortlist."""
PROBES = 4
"""Items scored first, per place of an assortment: they say how good an item must be."""
GROUP = 32
"""Visitors whose bounds are computed in one product; bounds take 4 bytes per visitor and item."""
GROUP_ON_DEVICE = 256
FINE = 512
"""Items left from which on the fine bound pays."""


def suits(context: Context) -> bool:
    """Whether offers are made from a shortlist; it depends on the items and on public rules alone."""
    features = context.features
    if context.revenue.shape[-1] <= MANY or context.groups is not None or not isinstance(features, Catalogued):
        return False
    return not features.feature_map.effects and features.stored.reach <= LARGEST_REACH


def shortlisted(
    context: Context, release: Release, theta: FloatArray, radius: FloatArray, rng: Random
) -> tuple[IntArray, BoolArray, FloatArray | None]:
    """The assortments (..., K), where they are decided, (...), and everybody's coins if all had to be drawn.

    Undecided are visitors who explore, whose items earn different amounts, or whose scores may overflow: each is so
    alone and in any group.
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
    """What to show to each visitor of a group, (K,)."""
    bounds = scores.coarse(common)
    screen = bounds.everywhere(scores.catalogue, common)
    screen.bar({place: visitor.barred for place, visitor in enumerate(group) if visitor.barred is not None})
    wanted = PROBES * max(1, *(visitor.room for visitor in group))
    first = [_fewer(items, 2 * wanted) for items in screen.best(wanted)]
    least = np.array([one.least(known) for one, known in zip(group, _exact(scores, first), strict=True)])
    coarse = zip(group, screen.above(bounds.floors(least)), least.tolist(), strict=True)
    left = [one.finer(items, good) for one, items, good in coarse]
    return [one.best(items, score) for one, items, score in zip(group, left, _exact(scores, left), strict=True)]


def _exact(scores: Scores, items: list[IntArray]) -> list[FloatArray]:
    """The exact scores of each visitor's items: short lists in one step, filled up with the first item."""
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
    """One visitor's coins, drawn already, (..., N), or to be drawn item by item."""

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
        scores: Everybody's.
        place: Where this visitor is among them.
        coins: This visitor's.
        capacity: K.
        needed: Items that must be shown.
        barred: Items that are not to be looked for, (N,): those that must not or must be shown; None for none.
    """

    scores: Scores
    place: int
    coins: _Coins
    capacity: int
    needed: IntArray
    barred: BoolArray | None

    @property
    def room(self) -> int:
        """Places that are left beside the items that must be shown."""
        return self.capacity - self.needed.size

    @property
    def size(self) -> float:
        """max(S, 1)."""
        return max(float(self.scores.size[self.place]), 1.0)

    def least(self, score: FloatArray) -> float:
        """T - D from the scores of some items; minus infinity where they are too few to say."""
        if not 0 < self.room <= score.size:
            return -np.inf
        return float(np.partition(score, score.size - self.room)[score.size - self.room]) - DOUBT * self.size

    def finer(self, left: IntArray, least: float) -> IntArray:
        """Those that the fine bound leaves, where they are many."""
        if left.size <= max(FINE, self.room) or not self.room:
            return left
        own = self.scores.only(np.array([self.place]))
        bounds = own.fine()
        upper = bounds.of(0, own.catalogue.columns(left, single=True))
        some = min(PROBES * self.room, left.size)
        first = left[np.sort(np.argpartition(upper, left.size - some)[left.size - some :])]
        least = max(least, self.least(own.exact(np.zeros(1, dtype=np.int64), first[None])[0]))
        return np.asarray(left[upper >= bounds.floors(np.array([least]))[0]])

    def best(self, left: IntArray, score: FloatArray) -> IntArray:
        """The items to show, (K,), ascending, -1 for empty places; ``left`` holds all those that may be."""
        added = left if left.size <= self.room else left[self._largest(left, score)]
        shown = np.sort(np.concatenate([self.needed, added]))
        return np.concatenate([shown, np.full(self.capacity - shown.size, NOTHING)])

    def _largest(self, items: IntArray, score: FloatArray) -> IntArray:
        """Places of as many as there is room for."""
        room, doubt = self.room, DOUBT * self.size
        if not room:
            return items[:0]
        order = np.argsort(-score, kind="stable")
        last = score[order[room - 1]]
        if last - score[order[room]] <= doubt:
            tied = np.abs(score - last) <= doubt
            coins = self.coins.of(items[tied], len(self.scores.catalogue))
            order = np.argsort(-(score + _placed(tied, (JITTER * self.size) * coins)), kind="stable")
        return order[:room]


def _placed(where: BoolArray, values: FloatArray) -> FloatArray:
    """The values where they belong, zero elsewhere."""
    full = np.zeros(where.shape)
    full[where] = values
    return full


def _fewer(items: IntArray, count: int) -> IntArray:
    """Some of them, spread evenly, where they are more than ``count``: a multitude of ties need not be scored twice."""
    return items if items.size <= count else items[:: items.size // count]


def _scores(
    features: Catalogued, release: Release, theta: FloatArray, radius: FloatArray, batch: tuple[int, ...]
) -> Scores:
    """The scores of every visitor, flattened into one axis."""
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
    """What all visitors of the release share, computed once per release."""
    shared, covariance = features.stored.shared, release.covariance
    held = shared.get("common")
    key = (features.feature_map, features.visitor.shape[-1])
    if held is None or held[0] != key or not (held[1] is covariance or np.array_equal(held[1], covariance)):
        held = shared["common"] = (key, covariance, Common.of(features, covariance))
    found: Common = held[2]
    return found


def _rules(context: Context, batch: tuple[int, ...], who: int) -> tuple[int, IntArray, BoolArray | None]:
    """Capacity, required items, and a mask of those not to be looked for, of one visitor."""

    def own(mask: BoolArray) -> BoolArray:
        return np.asarray(np.broadcast_to(mask, (*batch, mask.shape[-1]))[place])

    place = np.unravel_index(who, batch) if batch else ()
    needed = np.empty(0, dtype=np.int64) if context.required is None else np.flatnonzero(own(context.required))
    barred = None if context.available is None else ~own(context.available)
    if needed.size:
        barred = np.zeros(context.revenue.shape[-1], dtype=bool) if barred is None else barred
        barred[needed] = True
    return context.capacity, needed, barred
