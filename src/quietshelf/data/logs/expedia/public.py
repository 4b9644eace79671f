"""The rows of a destination -> searches that a private fit may use: each from its own rows and constants alone.

Replacing one search changes no other: hotels are described as that search showed them (price, promotion), gaps are
filled with constants, levels and scales are fixed in advance, and no hotel or column is dropped. This assumes that the
destination is declared and that the number of its readable searches is public.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.expedia.cleaning import CONSTANTS, PRICES, OutcomeKind, gather
from quietshelf.data.logs.expedia.columns import HOTEL, VISITOR, Feature
from quietshelf.data.logs.expedia.encoding import cuts, dummies
from quietshelf.data.logs.expedia.reading import Raw
from quietshelf.data.logs.preparation import PUBLIC, Preparation
from quietshelf.data.logs.searches import Searches
from quietshelf.model.types import FloatArray

MAIN_SITE = 5
"""Table 1 has one feature for all sites: this one, Expedia's largest, against the others."""
MISSING = {**CONSTANTS, "prop_starrating": 3.0, "prop_review_score": 4.0, "prop_log_historical_price": 5.0}
"""Replacements for missing values."""
ZERO_IS_MISSING = ("prop_starrating", "prop_review_score", "prop_log_historical_price")


class Declared(NamedTuple):
    """For a feature used as a number: the range it is clipped to, and its centre and spread."""

    low: float
    high: float
    centre: float
    spread: float


YES_OR_NO = Declared(0.0, 1.0, 0.5, 0.5)
NUMBERS = {
    "brand": YES_OR_NO,
    "location": Declared(0.0, 7.0, 3.5, 1.5),
    "log_historical_price": Declared(2.0, 8.0, 5.0, 0.5),
    "price": Declared(*PRICES, 150.0, 100.0),
    "promotion": YES_OR_NO,
    "saturday": YES_OR_NO,
    "site": YES_OR_NO,
}
"""Round numbers for hotels in general, not measured on a file."""


def encode_publicly(raw: Raw, *, outcome: OutcomeKind = "booking") -> Searches:
    """Encode the searches.

    Args:
        raw: The rows of one destination, declared rather than chosen by the data.
        outcome: What counts as choosing a hotel: the ``booking``, or a ``click``.
    """
    found = gather(raw.rows, outcome)
    pairs = np.unique(found.search * found.hotel_ids.size + found.hotel, return_index=True)[1]
    visitor, visitor_names = _scaled(VISITOR, raw.rows.groupby("srch_id").first())
    item, item_names = _scaled(HOTEL, raw.rows.iloc[pairs])
    return Searches(
        visitor=visitor,
        catalogue=None,
        shown_features=item,
        shown=found.shown,
        choice=found.choice,
        visitor_names=visitor_names,
        item_names=item_names,
        ids=found.ids,
        item_ids=found.hotel_ids,
        notes=(*raw.notes, found.note, *_notes()),
        preparation=Preparation(scaling=PUBLIC, imputation=PUBLIC, data_dependent=raw.data_dependent),
    )


def _scaled(features: tuple[Feature, ...], rows: Any) -> tuple[FloatArray, tuple[str, ...]]:
    """Every column in public units, row by row, and the names of the result."""
    columns = dummies(features, np.column_stack([_filled(feature, rows) for feature in features]))
    centre, spread = columns.share.copy(), np.sqrt(columns.share * (1 - columns.share))
    for place, name in enumerate(columns.names):
        if name in NUMBERS:
            centre[place], spread[place] = NUMBERS[name].centre, NUMBERS[name].spread
    return np.asarray((columns.values - centre) / spread), columns.names


def _filled(feature: Feature, rows: Any) -> FloatArray:
    """A column with gaps filled and numbers clipped to their declared range."""
    values = rows[feature.column].to_numpy(dtype=np.float64)
    if feature.column == "site_id":
        return np.asarray(values == MAIN_SITE, dtype=np.float64)
    if feature.column in MISSING:
        gap = np.isnan(values) | ((values == 0) & (feature.column in ZERO_IS_MISSING))
        values = np.where(gap, MISSING[feature.column], values)
    declared = NUMBERS.get(feature.name)
    return np.asarray(values if declared is None else np.clip(values, declared.low, declared.high))


def _notes() -> tuple[str, ...]:
    scales = "; ".join(f"{name} {d.centre:g}:{d.spread:g} in [{d.low:g}, {d.high:g}]" for name, d in NUMBERS.items())
    gaps = ", ".join(f"{name} {value:g}" for name, value in MISSING.items())
    return (
        "each search from its own rows and public constants: a private fit may use this file",
        "hotel features: what the search itself was shown",
        f"site: {MAIN_SITE} against all others",
        f"missing values, set to constants: {gaps}",
        cuts(),
        f"levels standardised as if each were equally likely, numbers as declared (centre:spread): {scales}",
    )
