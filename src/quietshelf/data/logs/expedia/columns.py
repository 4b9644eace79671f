"""The columns of the raw file, and the levels of the features in the paper's Table 1.

The paper gives the number of levels but no cut points. Those here are round numbers fixed in advance, not quantiles of
the data, so that replacing one search never changes another's level.
"""

from __future__ import annotations

from typing import NamedTuple

COMPETITORS = tuple(f"comp{k}_{what}" for k in range(1, 9) for what in ("rate", "inv", "rate_percent_diff"))
COLUMNS = (
    "srch_id",
    "date_time",
    "site_id",
    "visitor_location_country_id",
    "visitor_hist_starrating",
    "visitor_hist_adr_usd",
    "prop_country_id",
    "prop_id",
    "prop_starrating",
    "prop_review_score",
    "prop_brand_bool",
    "prop_location_score1",
    "prop_location_score2",
    "prop_log_historical_price",
    "position",
    "price_usd",
    "promotion_flag",
    "srch_destination_id",
    "srch_length_of_stay",
    "srch_booking_window",
    "srch_adults_count",
    "srch_children_count",
    "srch_room_count",
    "srch_saturday_night_bool",
    "srch_query_affinity_score",
    "orig_destination_distance",
    "random_bool",
    *COMPETITORS,
    "click_bool",
    "gross_bookings_usd",
    "booking_bool",
)
"""All 54, in the order of the file."""
OPTIONAL = (
    "visitor_hist_starrating",
    "visitor_hist_adr_usd",
    "prop_review_score",
    "prop_location_score2",
    "srch_query_affinity_score",
    "orig_destination_distance",
    "gross_bookings_usd",
    *COMPETITORS,
)
"""Columns that may be NULL; a row that lacks any other column is bad."""
NUMERIC = tuple(name for name in COLUMNS if name != "date_time")


class Feature(NamedTuple):
    """A feature of Table 1.

    Attributes:
        column: Its column in the raw file.
        name: Its name in the result.
        cuts: Cut points between levels, ``level = number of cuts at or below the value``; none for features used as
            numbers.
    """

    column: str
    name: str
    cuts: tuple[float, ...] = ()


HOTEL = (
    Feature("prop_starrating", "stars", (2.5, 3.5, 4.5)),
    Feature("prop_review_score", "review", (3.75, 4.25)),
    Feature("prop_brand_bool", "brand"),
    Feature("prop_location_score1", "location"),
    Feature("prop_log_historical_price", "log_historical_price"),
    Feature("price_usd", "price"),
    Feature("promotion_flag", "promotion"),
)
"""10 columns."""
VISITOR = (
    Feature("srch_length_of_stay", "nights", (2, 3, 5)),
    Feature("srch_booking_window", "days_ahead", (7, 21, 60)),
    Feature("srch_adults_count", "adults", (2, 3)),
    Feature("srch_children_count", "children", (1, 2)),
    Feature("srch_room_count", "rooms", (2,)),
    Feature("srch_saturday_night_bool", "saturday"),
    Feature("site_id", "site"),
    Feature("visitor_hist_starrating", "past_stars", (3.0, 4.0)),
    Feature("visitor_hist_adr_usd", "past_price", (100.0, 150.0, 220.0)),
)
"""18 columns."""
HISTORY = ("visitor_hist_starrating", "visitor_hist_adr_usd")
"""Columns that are missing for most searches and are imputed."""

PAPER = {"searches": 4465, "hotels": 124, "hotel features": 10, "visitor features": 18}
"""Sizes that the paper reports after its own cleaning."""
