"""Clean hotels and searches -> features: levels as drop-first dummies, then mean zero and variance one.

``scaling="data"`` standardises visitor features with the moments of these very searches, as the paper does: replacing
one search moves everybody's features, which no guarantee covers. ``"public"`` uses the moments that the levels would
have if each were equally likely: constants. Hotel features are a catalogue's, public either way.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from quietshelf.logs.expedia.cleaning import Clean
from quietshelf.logs.expedia.columns import HOTEL, PAPER, VISITOR, Feature
from quietshelf.logs.searches import Searches
from quietshelf.types import BoolArray, FloatArray, one_of

Scaling = Literal["data", "public"]


class Columns(NamedTuple):
    """Encoded columns, their names, and how likely a one is in each if all levels are equally likely (NaN: number)."""

    values: FloatArray
    names: tuple[str, ...]
    share: FloatArray


def encode(cleaned: Clean, *, scaling: Scaling = "data") -> Searches:
    """The searches as features; columns that are the same for everybody are dropped."""
    one_of("scaling", scaling, get_args(Scaling))
    visitor, item = _dummies(VISITOR, cleaned.visitors), _dummies(HOTEL, cleaned.hotels)
    u = _by_constants(visitor) if scaling == "public" else _by_moments(visitor.values)
    v = _by_moments(item.values)
    # with public constants a column stays even if this destination never varies it: dropping it would be data-driven
    kept_u = np.ones(u.shape[1], dtype=bool) if scaling == "public" else _varies(visitor.values)
    kept_v = _varies(item.values)
    notes = [*cleaned.notes, _cuts(), _scaled(scaling), *_constant(visitor, kept_u), *_constant(item, kept_v)]
    return Searches(
        visitor=u[:, kept_u],
        catalogue=v[:, kept_v],
        shown=cleaned.shown,
        choice=cleaned.choice,
        visitor_names=_kept(visitor.names, kept_u),
        item_names=_kept(item.names, kept_v),
        ids=cleaned.ids,
        item_ids=cleaned.hotel_ids,
        notes=tuple(notes),
    )


def beside_the_paper(searches: Searches) -> list[tuple[str, int, int]]:
    """What was found, next to what the paper reports: (what, found, paper)."""
    found = (len(searches), searches.items, len(searches.item_names), len(searches.visitor_names))
    return [(name, here, there) for (name, there), here in zip(PAPER.items(), found, strict=True)]


def _dummies(features: tuple[Feature, ...], values: FloatArray) -> Columns:
    parts, names, share = [], [], []
    for place, feature in enumerate(features):
        column = values[:, place]
        if not feature.cuts:
            parts.append(column[:, None])
            names.append(feature.name)
            share.append(np.nan if feature in HOTEL else 0.5)
            continue
        level = np.searchsorted(feature.cuts, column, side="right")
        for number in range(1, len(feature.cuts) + 1):
            parts.append((level == number).astype(np.float64)[:, None])
            names.append(f"{feature.name}_{number}")
            share.append(1.0 / (len(feature.cuts) + 1))
    return Columns(np.concatenate(parts, axis=1), tuple(names), np.array(share))


def _by_moments(values: FloatArray) -> FloatArray:
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _by_constants(columns: Columns) -> FloatArray:
    """Every visitor feature is 0 or 1: centre and scale it as if each level were equally likely."""
    return np.asarray((columns.values - columns.share) / np.sqrt(columns.share * (1 - columns.share)))


def _varies(values: FloatArray) -> BoolArray:
    return np.asarray(values.std(axis=0) > 0)


def _kept(names: tuple[str, ...], kept: BoolArray) -> tuple[str, ...]:
    return tuple(name for name, keep in zip(names, kept, strict=True) if keep)


def _constant(columns: Columns, kept: BoolArray) -> list[str]:
    gone = _kept(columns.names, ~kept)
    return [f"the same for everybody here, dropped: {', '.join(gone)}"] if gone else []


def _cuts() -> str:
    cuts = "; ".join(f"{f.name} at {', '.join(f'{c:g}' for c in f.cuts)}" for f in (*HOTEL, *VISITOR) if f.cuts)
    return f"levels, fixed in advance (the paper gives their number only): {cuts}"


def _scaled(scaling: Scaling) -> str:
    if scaling == "public":
        return "visitor features standardised by public constants; hotel features by the catalogue's own moments"
    return "features standardised by the moments of these very searches and hotels, as in the paper: not private"
