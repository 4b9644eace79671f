"""Clean hotels and searches -> features: levels as drop-first dummies, then standardised.

As in the paper, features are standardised with the moments of these very searches and hotels: replacing one search
changes everybody's features, which no guarantee covers. `quietshelf.data.logs.expedia.public` uses constants instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.data.logs.expedia.cleaning import Clean
from quietshelf.data.logs.expedia.columns import HOTEL, PAPER, VISITOR, Feature
from quietshelf.data.logs.preparation import Preparation
from quietshelf.data.logs.searches import Searches
from quietshelf.model.types import BoolArray, FloatArray

SCALED = "features standardised by the moments of these very searches and hotels, as in the paper: not private"
LOOKED = (
    "features were standardised by the moments of these searches and hotels",
    "columns that are the same for everybody here were dropped",
)


class Columns(NamedTuple):
    """Encoded columns, their names, and the probability of a one if all levels are equally likely (NaN: a number)."""

    values: FloatArray
    names: tuple[str, ...]
    share: FloatArray


def encode(cleaned: Clean) -> Searches:
    """Encode the searches; drops columns that are the same for everybody."""
    visitor, item = dummies(VISITOR, cleaned.visitors), dummies(HOTEL, cleaned.hotels)
    kept_u, kept_v = _varies(visitor.values), _varies(item.values)
    notes = [*cleaned.notes, cuts(), SCALED, *_constant(visitor, kept_u), *_constant(item, kept_v)]
    return Searches(
        visitor=_by_moments(visitor.values)[:, kept_u],
        catalogue=_by_moments(item.values)[:, kept_v],
        shown=cleaned.shown,
        choice=cleaned.choice,
        visitor_names=_kept(visitor.names, kept_u),
        item_names=_kept(item.names, kept_v),
        ids=cleaned.ids,
        item_ids=cleaned.hotel_ids,
        notes=tuple(notes),
        preparation=Preparation(
            scaling="moments of the data",
            imputation="regression tree, median hotel",
            data_dependent=(*cleaned.data_dependent, *LOOKED),
        ),
    )


def beside_the_paper(searches: Searches) -> list[tuple[str, int, int]]:
    """The sizes found beside those in the paper: (what, found, paper)."""
    found = (len(searches), searches.items, len(searches.item_names), len(searches.visitor_names))
    return [(name, here, there) for (name, there), here in zip(PAPER.items(), found, strict=True)]


def dummies(features: tuple[Feature, ...], values: FloatArray) -> Columns:
    """Encode levels as 0/1 columns without the first; keep numbers as they are."""
    parts, names, share = [], [], []
    for place, feature in enumerate(features):
        column = values[:, place]
        if not feature.cuts:
            parts.append(column[:, None])
            names.append(feature.name)
            share.append(np.nan)
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


def _varies(values: FloatArray) -> BoolArray:
    return np.asarray(values.std(axis=0) > 0)


def _kept(names: tuple[str, ...], kept: BoolArray) -> tuple[str, ...]:
    return tuple(name for name, keep in zip(names, kept, strict=True) if keep)


def _constant(columns: Columns, kept: BoolArray) -> list[str]:
    gone = _kept(columns.names, ~kept)
    return [f"the same for everybody here, dropped: {', '.join(gone)}"] if gone else []


def cuts() -> str:
    """The cut points, in words."""
    found = "; ".join(f"{f.name} at {', '.join(f'{c:g}' for c in f.cuts)}" for f in (*HOTEL, *VISITOR) if f.cuts)
    return f"levels, fixed in advance (the paper gives their number only): {found}"
