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
from quietshelf.choice.catalogue import Single
from quietshelf.choice.features import Catalogued
from quietshelf.choice.screening import LARGEST_REACH, Bounds, Common, Scores
from quietshelf.policies.chance import DOUBT, JITTER, LARGEST, batch_of
from quietshelf.types import NOTHING, BoolArray, Context, FloatArray, IntArray, Random, Release

MANY = 20_000
"""Items above which offers are made from a shortlist."""
PROBES = 8
"""Items scored first, per place of an assortment: they say how good an item must be."""
GROUP = 32
"""Visitors whose bounds are computed in one product; bounds take 4 bytes per visitor and item."""
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
    for start in range(0, wanted.size, GROUP):
        some = wanted[start : start + GROUP]
        part, common = scores.only(some), _common(features, release)
        bounds = part.coarse(common)
        for place, upper in enumerate(bounds.everywhere(part.catalogue, common)):
            who = int(some[place])
            own = None if coins is None else coins.reshape(-1, features.items)[who]
            found[who] = _Visitor(part, bounds, place, _Coins(rng, who, own)).best(upper, *_rules(context, batch, who))
    return found.reshape(*batch, context.capacity), sound.reshape(batch), coins


@dataclass(frozen=True)
class _Coins:
    """One visitor's coins, drawn already or to be drawn item by item."""

    rng: Any
    visitor: int
    drawn: FloatArray | None

    def of(self, items: IntArray, count: int) -> FloatArray:
        """Uniform on [0, 1), (n,)."""
        found = self.rng.random_at(self.visitor, items, count) if self.drawn is None else self.drawn[items]
        return np.asarray(found)


@dataclass(frozen=True)
class _Visitor:
    """One of the visitors of `Scores` and of their coarse bounds, by their place."""

    scores: Scores
    bounds: Bounds
    place: int
    coins: _Coins

    @property
    def size(self) -> float:
        """max(S, 1)."""
        return max(float(self.scores.size[self.place]), 1.0)

    def best(self, upper: Single, capacity: int, available: BoolArray | None, required: BoolArray | None) -> IntArray:
        """The items to show, (K,), ascending, -1 for empty places; ``upper`` is used up."""
        needed = np.empty(0, dtype=np.int64) if required is None else np.flatnonzero(required)
        room = capacity - needed.size
        if available is not None:
            upper[~available] = -np.inf
        upper[needed] = -np.inf
        free = upper.size - needed.size if available is None else np.count_nonzero(upper > -np.inf)
        if free <= room:
            added = np.flatnonzero(upper > -np.inf)
        else:
            added = self._largest(self._left(upper, room), room) if room else needed[:0]
        shown = np.sort(np.concatenate([needed, added]))
        return np.concatenate([shown, np.full(capacity - shown.size, NOTHING)])

    def _left(self, upper: Single, room: int) -> IntArray:
        """Items that hold all those which may be shown (1 and 2 above), ascending."""
        first = _top(upper, PROBES * room)
        least = self._least(first, room)
        left = np.flatnonzero(upper >= self.bounds.floor(self.place, least))
        if left.size <= FINE:
            return left
        own = self.scores.only(slice(self.place, self.place + 1)).fine()
        tight = own.of(0, self.scores.catalogue.columns(left, single=True))
        least = max(least, self._least(left[_top(tight, PROBES * room)], room))
        return left[tight >= own.floor(0, least)]

    def _least(self, items: IntArray, room: int) -> float:
        """T - D from some items."""
        score = self.scores.exact(self.place, items)
        return float(np.partition(score, score.size - room)[score.size - room]) - DOUBT * self.size

    def _largest(self, items: IntArray, room: int) -> IntArray:
        """Those to be shown of the items left (3 above)."""
        score, doubt = self.scores.exact(self.place, items), DOUBT * self.size
        order = np.argsort(-score, kind="stable")
        if items.size == room or score[order[room - 1]] - score[order[room]] > doubt:
            return items[order[:room]]
        tied = np.abs(score - score[order[room - 1]]) <= doubt
        score[tied] += (JITTER * self.size) * self.coins.of(items[tied], len(self.scores.catalogue))
        return items[np.argsort(-score, kind="stable")[:room]]


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


def _rules(context: Context, batch: tuple[int, ...], who: int) -> tuple[int, BoolArray | None, BoolArray | None]:
    """Capacity, available and required items of one visitor."""

    def own(mask: BoolArray | None) -> BoolArray | None:
        index = np.unravel_index(who, batch) if batch else ()
        return None if mask is None else np.broadcast_to(mask, (*batch, mask.shape[-1]))[index]

    return context.capacity, own(context.available), own(context.required)


def _top(upper: Single, count: int) -> IntArray:
    """Some of the largest, at least ``count`` where so many are finite: all above the count-th of maxima of strides."""
    strides = 8 * count
    if upper.size < 8 * strides:
        found = np.flatnonzero(upper > -np.inf)
    else:
        most = upper[: upper.size - upper.size % strides].reshape(-1, strides).max(axis=0)
        bound = np.partition(most, strides - count)[strides - count]
        found = np.flatnonzero(upper >= bound if bound > -np.inf else upper > bound)
    if found.size <= 4 * count:
        return found
    return found[np.argpartition(upper[found], found.size - count)[found.size - count :]]
