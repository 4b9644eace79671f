"""The rows of a destination -> one row per hotel and one per search, without gaps, as in the paper.

Hotel features are averaged over searches. Visitors' past ratings and prices are missing for most searches, and imputed
by a regression tree on the other searches. Both steps look at other people's searches, so no privacy guarantee covers
the result. `quietshelf.data.logs.expedia.public` has a preparation that a guarantee covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from quietshelf.data.logs.expedia.columns import HISTORY, HOTEL, VISITOR
from quietshelf.data.logs.expedia.reading import Raw
from quietshelf.data.logs.files import EXTRA
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray, integer, one_of, require

OutcomeKind = Literal["booking", "click"]
MOST_MISSING = 0.9
"""A column missing in a larger share of searches is dropped, unless Table 1 lists it."""
CONSTANTS = {"visitor_hist_starrating": 3.5, "visitor_hist_adr_usd": 150.0}
"""Public guesses for an unknown visitor history."""
PRICES = (10.0, 1000.0)
"""Dollars per night; prices beyond, of whole stays or by mistake, would dominate an average."""
TREE = {"max_depth": 4, "min_samples_leaf": 10, "random_state": 0}
FEWEST = 50
"""Searches with a known history that a tree needs; with fewer, the constant is used."""
LOOKED = (
    "hotel features were averaged over searches, and gaps filled with the median hotel's",
    "the site of most searches became a feature",
    "visitors' past ratings and prices were imputed from other searches",
)


@dataclass(frozen=True, eq=False)
class Clean:
    """Hotels and searches without gaps, in the units of the raw file.

    Attributes:
        hotels: The columns of ``HOTEL``, (N, 7).
        visitors: The columns of ``VISITOR``, (n, 9).
        shown: Which hotels each search showed, (n, N).
        choice: The hotel chosen, (n,), or -1.
        ids: ``srch_id``, (n,).
        hotel_ids: ``prop_id``, (N,).
        notes: Findings and decisions.
        data_dependent: The steps so far in which one search can change others.
    """

    hotels: FloatArray
    visitors: FloatArray
    shown: BoolArray
    choice: IntArray
    ids: IntArray
    hotel_ids: IntArray
    notes: tuple[str, ...]
    data_dependent: tuple[str, ...]


class Gathered(NamedTuple):
    """Rows by search and hotel.

    Attributes:
        ids: ``srch_id`` of the searches, ascending, (n,).
        hotel_ids: ``prop_id`` of the hotels, ascending, (N,).
        search: The search of each row, an index into ``ids``, (rows,).
        hotel: The hotel of each row, an index into ``hotel_ids``, (rows,).
        shown: Which hotels each search showed, (n, N).
        choice: The hotel chosen, (n,), or -1.
        note: What counts as chosen.
    """

    ids: IntArray
    hotel_ids: IntArray
    search: IntArray
    hotel: IntArray
    shown: BoolArray
    choice: IntArray
    note: str


def gather(rows: Any, outcome: OutcomeKind) -> Gathered:
    """What each search showed and chose, from its own rows alone."""
    one_of("outcome", outcome, get_args(OutcomeKind))
    ids, search = np.unique(rows["srch_id"].to_numpy(dtype=np.int64), return_inverse=True)
    hotel_ids, hotel = np.unique(rows["prop_id"].to_numpy(dtype=np.int64), return_inverse=True)
    shown = np.zeros((ids.size, hotel_ids.size), dtype=bool)
    shown[search, hotel] = True
    choice, taken = np.full(ids.size, NOTHING), _taken(rows, outcome)
    choice[search[taken]] = hotel[taken]
    taken_by = "the booking" if outcome == "booking" else "the booking, or else the best-placed click"
    return Gathered(ids, hotel_ids, search, hotel, shown, choice, f"outcome: {taken_by} of each search")


def clean(raw: Raw, *, outcome: OutcomeKind = "booking", impressions: int = 1) -> Clean:
    """Average, impute, and drop hotels that are too rare.

    Args:
        raw: The rows of one destination.
        outcome: What counts as choosing a hotel: the ``booking``, or a ``click``.
        impressions: Drop hotels shown less often, and searches that showed no other.
    """
    rows, dropped = _frequent(raw.rows, integer("impressions", impressions))
    found = gather(rows, outcome)
    hotels, of_hotels = _hotels(rows)
    visitors, of_visitors = _visitors(rows)
    notes = [*raw.notes, *dropped, *_dropped(rows), found.note, *of_hotels, *of_visitors]
    rare = (f"hotels shown fewer than {impressions} times were dropped",) if impressions > 1 else ()
    looked = (*raw.data_dependent, *rare, *LOOKED)
    return Clean(hotels, visitors, found.shown, found.choice, found.ids, found.hotel_ids, tuple(notes), looked)


def _taken(rows: Any, outcome: OutcomeKind) -> IntArray:
    """The chosen row of each search that has one, (m,): the booking, or for clicks else the best-placed click."""
    taken = rows["booking_bool"] == 1
    if outcome == "click":
        taken |= rows["click_bool"] == 1
    ranked = rows[taken].sort_values(["srch_id", "booking_bool", "position"], ascending=[True, False, True])
    return np.asarray(ranked.drop_duplicates("srch_id").index, dtype=np.int64)


def _frequent(rows: Any, impressions: int) -> tuple[Any, list[str]]:
    counts = rows.groupby("prop_id")["prop_id"].transform("size")
    kept = rows[counts >= impressions].reset_index(drop=True)
    require(len(kept) > 0, "some hotel must have been shown that often", impressions=impressions)
    if len(kept) == len(rows):
        return kept, []
    lost = rows["prop_id"].nunique() - kept["prop_id"].nunique()
    return kept, [f"{lost} hotels shown fewer than {impressions} times: dropped, their bookings counting as none"]


def _dropped(rows: Any) -> list[str]:
    """Which columns the paper's rule drops, and which it would drop although Table 1 lists them."""
    empty = rows.drop(columns="srch_id").isna().groupby(rows["srch_id"]).all().mean()
    wanted = {feature.column for feature in (*HOTEL, *VISITOR)}
    gone = [name for name, share in empty.items() if share > MOST_MISSING and name not in wanted]
    kept = [f"{name} ({share:.1%})" for name, share in empty.items() if share > MOST_MISSING and name in wanted]
    notes = [f"missing in more than {MOST_MISSING:.0%} of searches: {', '.join(gone) or 'no column'}: dropped"]
    if kept:
        notes.append(
            f"missing in more than {MOST_MISSING:.0%} of searches but listed in Table 1: {', '.join(kept)}: kept"
        )
    return notes


def _hotels(rows: Any) -> tuple[FloatArray, list[str]]:
    columns = [feature.column for feature in HOTEL]
    values = rows[["prop_id", *columns]].copy()
    values["price_usd"] = values["price_usd"].clip(*PRICES)
    # the file has 0 for unknown values
    for name in ("prop_starrating", "prop_review_score", "prop_log_historical_price"):
        values[name] = values[name].where(values[name] > 0)
    means = values.groupby("prop_id")[columns].mean()
    gaps = [f"{count} in {name}" for name, count in means.isna().sum().items() if count]
    notes = [
        f"hotel features: means over searches, prices held between {PRICES[0]:g} and {PRICES[1]:g} dollars; a zero of "
        "stars, review or historical price counts as missing"
    ]
    if gaps:
        notes.append(f"hotels without any value take the median hotel's: {', '.join(gaps)}")
    filled = means.fillna(means.median()).fillna(0.0)
    return filled.to_numpy(dtype=np.float64), notes


def _visitors(rows: Any) -> tuple[FloatArray, list[str]]:
    columns = [feature.column for feature in VISITOR]
    first = rows.groupby("srch_id")[columns].first()
    values = {name: first[name].to_numpy(dtype=np.float64) for name in columns}
    main = int(np.bincount(values["site_id"].astype(np.int64)).argmax())
    values["site_id"] = (values["site_id"] == main).astype(np.float64)
    notes = [f"site: {main}, the most frequent, against all others"]
    known = np.column_stack([values[name] for name in columns if name not in HISTORY])
    for name in HISTORY:
        values[name], note = _imputed(name, values[name], known)
        notes.append(note)
    return np.column_stack([values[name] for name in columns]), notes


def _imputed(name: str, values: FloatArray, known: FloatArray) -> tuple[FloatArray, str]:
    missing = np.isnan(values)
    there = int((~missing).sum())
    what = f"{name}: missing in {missing.mean():.1%} of searches"
    if there < FEWEST:
        why = f" (a tree needs {FEWEST} searches that have it, got {there})"
        return np.where(missing, CONSTANTS[name], values), f"{what}, set to the constant {CONSTANTS[name]:g}{why}"
    filled = values.copy()
    if missing.any():
        filled[missing] = _tree().fit(known[~missing], values[~missing]).predict(known[missing])
    return filled, f"{what}, imputed by a regression tree on the other visitor features ({_words(TREE)})"


def _tree() -> Any:
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"the regression tree needs scikit-learn: {EXTRA}") from None
    return DecisionTreeRegressor(**TREE)


def _words(options: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items() if name != "random_state")
