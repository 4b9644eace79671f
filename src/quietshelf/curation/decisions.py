"""R3: what a visitor is shown is a function of that visitor, of public state and of the slot's own coins.

Visitors without special requests are decided in one step, each to the last bit as if alone: other visitors in the same
transaction change nothing (docs/proofs.md, section 6). `Shelf` and the service decide here; a simulation asks its
policies directly.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quietshelf.curation.coins import SlotCoins
from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.types import NOTHING, Context, Features, FloatArray, IntArray, Release
from quietshelf.policies import POLICIES, PRESENT

SERVING = {**POLICIES, **PRESENT}


class Decision(NamedTuple):
    """What to show: items (k,), and their features as this visitor sees them, (k, d)."""

    items: IntArray
    rows: FloatArray


@np.errstate(all="ignore")  # numbers that overflow still get an offer, and no warning may show them
def decide(policies: Sequence[str], contexts: Sequence[Context], release: Release, coins: SlotCoins) -> list[Decision]:
    """R3: decide what to show each visitor, by the given policies; ``coins`` are those of their slots, in order."""
    if len(contexts) == 1:
        return [_alone(policies[0], contexts[0], release, coins)]
    alike: dict[Hashable, list[int]] = {}
    for place, context in enumerate(contexts):
        # the same objects for all visitors without special requests
        rules = (context.revenue, context.available, context.required, context.ranks)
        alike.setdefault((policies[place], context.capacity, *map(id, rules)), []).append(place)
    found: list[Decision] = [Decision(np.empty(0, np.int64), np.empty(0))] * len(contexts)
    for places in alike.values():
        if len(places) == 1:
            (only,) = places
            found[only] = _alone(policies[only], contexts[only], release, coins.only(places))
            continue
        context = _together([contexts[place] for place in places])
        shown = SERVING[policies[places[0]]].offer(context, release, coins.only(places))
        for place, items, rows in zip(places, shown, context.features.rows(shown), strict=True):
            found[place] = _made(items, rows, contexts[place].ranks)
    return found


def _alone(policy: str, context: Context, release: Release, coins: SlotCoins) -> Decision:
    """Decide one visitor, the common case, without adding a visitor axis."""
    items = SERVING[policy].offer(context, release, coins.alone)
    return _made(items, context.features.rows(items), context.ranks)


def _made(items: IntArray, rows: FloatArray, ranks: FloatArray | None) -> Decision:
    """Drop empty places, and sort by the shop's present ranking if there is one.

    The arms then differ only in which items they show.
    """
    if NOTHING in items.tolist():
        items, rows = items[items != NOTHING], rows[items != NOTHING]
    if ranks is None:
        return Decision(items, rows)
    order = np.argsort(ranks[items], kind="stable")
    return Decision(items[order], rows[order])


def _together(contexts: Sequence[Context]) -> Context:
    """Stack visitors under the same rules into one context, along a new first axis."""
    first, many = contexts[0], len(contexts)
    return Context(
        features=_stacked([context.features for context in contexts]),
        revenue=_for_all(first.revenue, many),
        capacity=first.capacity,
        available=None if first.available is None else _for_all(first.available, many),
        required=None if first.required is None else _for_all(first.required, many),
        groups=first.groups,
        limits=first.limits,
        ranks=None if first.ranks is None else _for_all(first.ranks, many),
        fill=first.fill,
    )


def _for_all(values: NDArray[Any], many: int) -> NDArray[Any]:
    return np.broadcast_to(values, (many, *values.shape))


def _stacked(features: Sequence[Features]) -> Features:
    first = features[0]
    if isinstance(first, Catalogued):
        return replace(first, visitor=np.stack([each.visitor for each in features if isinstance(each, Catalogued)]))
    dense = [each.x for each in features if isinstance(each, Dense)]
    return Dense(np.stack(dense))
