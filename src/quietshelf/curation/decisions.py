"""R3: what a visitor is shown is a function of that visitor, of public state and of that slot's own coins.

Visitors who ask for nothing special are decided in one step, each to the last bit as if alone: who else is in the same
transaction changes nothing (docs/proofs.md, section 6).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from quietshelf.choice.features import Catalogued, Dense
from quietshelf.curation.coins import SlotCoins
from quietshelf.policies import POLICIES
from quietshelf.types import NOTHING, BoolArray, Context, Features, FloatArray, IntArray, Release


class Decision(NamedTuple):
    """What to show: items (k,), and their features as this visitor sees them, (k, d)."""

    items: IntArray
    rows: FloatArray


@np.errstate(all="ignore")  # numbers that overflow are served all the same, and nobody is told of them
def decide(policy: str, contexts: Sequence[Context], release: Release, coins: SlotCoins) -> list[Decision]:
    """R3: what to show each visitor; ``coins`` holds those of their slots, in the same order."""
    alike: dict[Hashable, list[int]] = {}
    for place, context in enumerate(contexts):
        rules = (context.revenue, context.available, context.required)  # shared by those who ask for nothing special
        alike.setdefault((context.capacity, *map(id, rules)), []).append(place)
    found: list[Decision] = [Decision(np.empty(0, np.int64), np.empty(0))] * len(contexts)
    for places in alike.values():
        context = _together([contexts[place] for place in places])
        shown = POLICIES[policy].offer(context, release, coins.only(places))
        for place, items, rows in zip(places, shown, context.features.rows(shown), strict=True):
            held = items != NOTHING
            found[place] = Decision(items[held], rows[held])
    return found


def _together(contexts: Sequence[Context]) -> Context:
    """Visitors under the same rules as one context, along a new first axis."""
    first, many = contexts[0], len(contexts)
    return replace(
        first,
        features=_stacked([context.features for context in contexts]),
        revenue=np.broadcast_to(first.revenue, (many, *first.revenue.shape)),
        available=_for_all(first.available, many),
        required=_for_all(first.required, many),
    )


def _for_all(mask: BoolArray | None, many: int) -> BoolArray | None:
    return None if mask is None else np.broadcast_to(mask, (many, *mask.shape))


def _stacked(features: Sequence[Features]) -> Features:
    first = features[0]
    if isinstance(first, Catalogued):
        return replace(first, visitor=np.stack([each.visitor for each in features if isinstance(each, Catalogued)]))
    return Dense(np.stack([each.x for each in features if isinstance(each, Dense)]))
