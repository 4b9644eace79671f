"""Expedia files cleaned by others: one destination, hotel features averaged, all features standardised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.data.logs.files import pandas, reading
from quietshelf.data.logs.searches import Searches, is_saved, load
from quietshelf.model.types import NOTHING, require

HOTEL = (
    "prop_brand_bool",
    "prop_starrating",
    "prop_review_score",
    "prop_location_score1",
    "prop_log_historical_price",
    "price_usd",
)
VISITOR = (
    "srch_length_of_stay",
    "srch_booking_window",
    "srch_adults_count",
    "srch_children_count",
    "srch_room_count",
    "srch_saturday_night_bool",
)
ARRAYS = (
    "hotel_features",
    "user_features",
    "hotel_feature_names",
    "user_feature_names",
    "srch_id",
    "offered",
    "choice",
)


def read_searches(path: str | Path) -> Searches:
    """Read searches from our own ``.npz``, from others' arrays, or from a cleaned table."""
    where = Path(path)
    require(where.is_file(), "the file must exist", path=str(path))
    if where.suffix != ".npz":
        return read_transactions(where)
    return load(where) if is_saved(where) else read_arrays(where)


def read_arrays(path: str | Path) -> Searches:
    """Read the arrays of one destination: features of hotels and users, hotels offered, hotel chosen or -1."""
    with np.load(Path(path), allow_pickle=False) as stored:
        missing = [name for name in ARRAYS if name not in stored]
        require(not missing, f"{path} must hold the arrays {', '.join(ARRAYS)}", missing=missing)
        return Searches(
            visitor=stored["user_features"],
            catalogue=stored["hotel_features"],
            shown=stored["offered"],
            choice=stored["choice"],
            visitor_names=tuple(map(str, stored["user_feature_names"])),
            item_names=tuple(map(str, stored["hotel_feature_names"])),
            ids=stored["srch_id"],
            item_ids=np.arange(len(stored["hotel_features"])),
        )


def read_transactions(path: str | Path) -> Searches:
    """Read a cleaned table, one row per search and hotel, as CSV or as the only CSV of a zip."""
    columns = ["srch_id", "prop_id", "booking_bool", *HOTEL, *VISITOR]
    with reading(path) as source:
        header = source.handle.readline().decode("utf-8", errors="replace").strip().split(",")
        missing = [name for name in columns if name not in header]
        require(not missing, f"{path} must have the columns of a cleaned Expedia table", missing=missing)
        table = pandas().read_csv(source.handle, names=header, usecols=columns)
    empty = np.flatnonzero(table.isna().any(axis=1).to_numpy())
    if empty.size:
        raise ValueError(f"{path} must have a number in every column, got a gap in row {int(empty[0]) + 2}")
    return _gather(table)


def _gather(table: Any) -> Searches:
    ids, search = np.unique(table["srch_id"].to_numpy(), return_inverse=True)
    item_ids, item = np.unique(table["prop_id"].to_numpy(), return_inverse=True)
    shown = np.zeros((ids.size, item_ids.size), dtype=bool)
    shown[search, item] = True
    choice = np.full(ids.size, NOTHING)
    booked = table["booking_bool"].to_numpy() == 1
    choice[search[booked]] = item[booked]
    return Searches(
        visitor=table.groupby("srch_id")[list(VISITOR)].first().to_numpy(dtype=np.float64),
        catalogue=table.groupby("prop_id")[list(HOTEL)].mean().to_numpy(dtype=np.float64),
        shown=shown,
        choice=choice,
        visitor_names=VISITOR,
        item_names=HOTEL,
        ids=ids,
        item_ids=item_ids,
    )
