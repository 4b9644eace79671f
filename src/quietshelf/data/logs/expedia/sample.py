"""Simulated searches in the format of the raw file, for tests and for trying the commands without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from quietshelf.data.logs.expedia.columns import COLUMNS
from quietshelf.data.logs.files import replacing
from quietshelf.model.types import FloatArray, IntArray, integer

TOP = 8192
"""The destination of most simulated searches."""


def write_sample(path: str | Path, *, searches: int = 300, hotels: int = 40, seed: int = 0) -> Path:
    """Write a sample file: nine tenths of the searches for one destination, gaps, clicks, at most one booking each.

    Args:
        path: The file to write.
        searches: Number of searches.
        hotels: Hotels of the top destination.
        seed: Equal seeds write equal files.
    """
    rng = np.random.default_rng(seed)
    integer("searches", searches)
    integer("hotels", hotels, low=10)
    catalogue = _catalogue(hotels, rng)
    with replacing(path) as handle:
        handle.write((",".join(COLUMNS) + "\n").encode())
        for number in range(1, searches + 1):
            top = number % 10 != 0
            lines = _search(number, TOP if top else 7000 + number % 7, catalogue, rng)
            handle.write(("\n".join(lines) + "\n").encode())
    return Path(path)


def _catalogue(hotels: int, rng: np.random.Generator) -> dict[str, FloatArray]:
    stars = rng.integers(0, 6, hotels).astype(float)
    return {
        "prop_starrating": stars,
        "prop_review_score": np.where(rng.random(hotels) < 0.1, 0.0, rng.integers(4, 11, hotels) / 2),
        "prop_brand_bool": (rng.random(hotels) < 0.6).astype(float),
        "prop_location_score1": rng.uniform(0, 7, hotels).round(2),
        "prop_log_historical_price": np.where(
            rng.random(hotels) < 0.1, 0.0, rng.normal(4.5 + 0.1 * stars, 0.3).round(2)
        ),
        "base": 60 + 35 * stars + rng.uniform(0, 40, hotels),
    }


def _search(number: int, destination: int, hotels: dict[str, FloatArray], rng: np.random.Generator) -> list[str]:
    count = len(hotels["base"])
    shown = rng.choice(count, size=int(rng.integers(5, min(count, 30) + 1)), replace=False)
    price = (hotels["base"][shown] * rng.lognormal(0, 0.2, shown.size)).round(2)
    visitor = _visitor(number, destination, rng)
    utility = 0.4 * hotels["prop_starrating"][shown] - 0.008 * price - 1.5
    clicked, booked = _outcome(utility, rng)
    rows = []
    for place, (item, dollars) in enumerate(zip(shown.tolist(), price.tolist(), strict=True)):
        cells = dict(visitor) | {name: f"{hotels[name][item]:g}" for name in hotels if name != "base"}
        cells |= {
            "prop_id": str(1000 + item),
            "prop_country_id": "219",
            "price_usd": str(dollars),
            "promotion_flag": str(int(rng.random() < 0.2)),
            "position": str(place + 1),
            "click_bool": str(int(place in clicked)),
            "booking_bool": str(int(place == booked)),
        }
        if place == booked:
            cells["gross_bookings_usd"] = str(dollars)
        rows.append(",".join(cells.get(name, "NULL") for name in COLUMNS))
    return rows


def _visitor(number: int, destination: int, rng: np.random.Generator) -> dict[str, str]:
    cells = {
        "srch_id": str(number),
        "date_time": "2013-01-01 00:00:00",
        "site_id": str(rng.choice([5, 5, 5, 14, 32])),
        "visitor_location_country_id": "219",
        "srch_destination_id": str(destination),
        "srch_length_of_stay": str(1 + int(rng.geometric(0.5) - 1) % 9),
        "srch_booking_window": str(int(rng.exponential(30))),
        "srch_adults_count": str(rng.integers(1, 5)),
        "srch_children_count": str(rng.choice([0, 0, 1, 2, 3])),
        "srch_room_count": str(rng.choice([1, 1, 1, 2])),
        "srch_saturday_night_bool": str(rng.integers(0, 2)),
        "random_bool": "0",
    }
    if rng.random() < 0.3:
        cells["visitor_hist_starrating"] = f"{rng.uniform(2, 5):.2f}"
        cells["visitor_hist_adr_usd"] = f"{rng.uniform(60, 300):.2f}"
    return cells


def _outcome(utility: FloatArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """Clicked places and the booked one, -1 for none; a booked place is also clicked."""
    noisy = np.append(utility, 0.0) + rng.gumbel(size=utility.size + 1)
    best = int(noisy.argmax())
    if best == utility.size:
        return np.array([int(utility.argmax())]), -1
    other = rng.choice(utility.size, size=int(rng.integers(0, 2)), replace=False)
    return np.unique(np.append(other, best)), best
