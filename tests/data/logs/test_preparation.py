"""What one search can change of others, in either preparation, and what the file says about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.logs.hotels import ARRAYS, RAW, TABLES, needs_data
from tests.data.logs.made_up import made_up

from quietshelf.data.logs.cleaned import read_searches
from quietshelf.data.logs.expedia import clean, encode, encode_publicly, read, write_sample
from quietshelf.data.logs.expedia.columns import COLUMNS
from quietshelf.data.logs.preparation import PUBLIC, UNKNOWN, Preparation
from quietshelf.data.logs.searches import Searches, load
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.private_newton import BOUND, _total
from quietshelf.privacy.statistics import SENSITIVITY, Grids, ObservedChoice, svec_weights

TOP, VICTIM = 8192, "123"
Row = dict[str, str]


def extreme(rows: list[Row]) -> list[Row]:
    """Every figure as large as a file can hold; another hotel is taken."""
    figures = ("price_usd", "prop_starrating", "prop_review_score", "prop_location_score1", "prop_log_historical_price")
    own = ("srch_length_of_stay", "srch_adults_count", "visitor_hist_adr_usd", "visitor_hist_starrating")
    taken = {"click_bool": "1", "booking_bool": "1"}
    huge = dict.fromkeys((*figures, *own, "promotion_flag", "prop_brand_bool", "srch_saturday_night_bool"), "1e30")
    return [row | huge | ({} if place else taken) for place, row in enumerate(rows)]


def tiny(rows: list[Row]) -> list[Row]:
    """Every value hugely negative or missing, from a site that no other search has."""
    low = dict.fromkeys(("price_usd", "srch_length_of_stay", "srch_booking_window", "prop_location_score1"), "-1e30")
    gone = dict.fromkeys(("visitor_hist_adr_usd", "visitor_hist_starrating", "prop_review_score"), "NULL")
    return [row | low | gone | {"site_id": "77", "prop_starrating": "0", "booking_bool": "0"} for row in rows]


def elsewhere(rows: list[Row]) -> list[Row]:
    """A hundred hotels shown in no other search."""
    return [rows[0] | {"prop_id": str(5000 + k), "position": str(k + 1)} for k in range(100)]


def twice(rows: list[Row]) -> list[Row]:
    """Every hotel again, at other prices."""
    return [*rows, *(row | {"price_usd": "999"} for row in rows)]


def unreadable(rows: list[Row]) -> list[Row]:
    """Lines at which a parser would read on into the next search, or split one line in two."""
    return [row | {"site_id": cell} for row, cell in zip(rows, ('"', "5\r5", "text", "5", '"5'), strict=False)]


REPLACED = [extreme, tiny, elsewhere, twice, unreadable]


def with_other(sample: Path, folder: Path, change: Callable[[list[Row]], list[Row]]) -> Path:
    """The file with one search replaced, in its place."""
    lines = sample.read_bytes().decode().split("\n")
    place = [k for k, line in enumerate(lines) if line.startswith(f"{VICTIM},")]
    rows = [dict(zip(COLUMNS, lines[k].split(","), strict=True)) for k in place]
    new = [",".join(row[name] for name in COLUMNS) for row in change(rows)]
    (folder / "other.csv").write_bytes("\n".join([*lines[: place[0]], *new, *lines[place[-1] + 1 :]]).encode())
    return folder / "other.csv"


def public(path: Path) -> Searches:
    return encode_publicly(read(path, destination=TOP))


def of_the_paper(path: Path) -> Searches:
    return encode(clean(read(path)))


def everybody_else(searches: Searches) -> dict[int, list[Any]]:
    """What became of each search but the one replaced: features, hotels shown, hotel taken."""
    features, choice, available = searches.rounds(feature_map("full"))
    hotels = [searches.item_ids[shown].tolist() for shown in searches.shown]
    return {
        number: [features[k][available[k]].tobytes(), hotels[k], int(choice[k])]
        for k, number in enumerate(searches.ids.tolist())
        if str(number) != VICTIM
    }


@pytest.mark.parametrize("change", REPLACED)
def test_one_search_changes_no_other_in_the_public_preparation(
    sample: Path, tmp_path: Path, change: Callable[[list[Row]], list[Row]]
) -> None:
    """Whatever it holds: columns, hotels, features and choices of all others are the same to the last bit."""
    before, after = public(sample), public(with_other(sample, tmp_path, change))
    assert everybody_else(before) == everybody_else(after)
    assert (before.item_names, before.visitor_names) == (after.item_names, after.visitor_names)
    assert before.preparation == after.preparation
    if change is not unreadable:
        np.testing.assert_array_equal(before.ids, after.ids)
    if change in (extreme, tiny):
        assert before.rounds(feature_map("full")).features.sum() != after.rounds(feature_map("full")).features.sum()
    if change is not elsewhere:
        np.testing.assert_array_equal(before.item_ids, after.item_ids)


def test_no_cell_of_one_search_changes_another_however_it_is_spoilt(tmp_path: Path) -> None:
    """Cells that parsers trip over: each as a hotel's number, and 80 draws in any column but the search's number."""
    sample, rng = write_sample(tmp_path / "train.csv", searches=160, seed=5), np.random.default_rng(8)
    cells = ["", "NULL", "nan", "inf", "-inf", "1e400", "-0", "1e-320", "9" * 30, "0x10", "5.", " 5", "True", "\u0665"]
    cells += ['"', '"5"', "'", "#", "\r", "\0", "\\", ";", "1e5", "0.1"]
    spoilt = [{"prop_id": cell} for cell in cells]
    for _ in range(80):
        chosen = rng.choice(COLUMNS[1:], size=int(rng.integers(1, 4)), replace=False)
        spoilt.append(dict(zip(chosen.tolist(), rng.choice(cells, size=chosen.size).tolist(), strict=True)))
    before = everybody_else(public(sample))
    for new in spoilt:
        other = with_other(sample, tmp_path, lambda rows, new=new: [*rows[:-1], rows[-1] | new])  # type: ignore[misc]
        assert everybody_else(public(other)) == before, new


@pytest.mark.parametrize("change", REPLACED)
def test_one_search_changes_all_others_in_the_papers_preparation(
    sample: Path, tmp_path: Path, change: Callable[[list[Row]], list[Row]]
) -> None:
    """The same comparison sees averages and moments move: it would have noticed."""
    before, after = (
        everybody_else(of_the_paper(sample)),
        everybody_else(of_the_paper(with_other(sample, tmp_path, change))),
    )
    moved = sum(before[number][0] != after[number][0] for number in before)
    assert moved == len(before)


def moved(before: Searches, after: Searches) -> float:
    """By how much the sums that a private fit releases differ, in units of the pair."""
    sums = []
    for searches in (before, after):
        rounds = searches.rounds(feature_map("concat"))
        dim = rounds.features.shape[-1]
        theta: FloatArray = np.linspace(-0.3, 0.3, dim)
        shown = ObservedChoice(rounds.features, rounds.available, rounds.choice)
        sums.append(_total(shown, theta, np.eye(dim) / np.sqrt(dim), Grids(2.0**-40, 2.0**-20))[0])
    one, other = sums
    score = np.linalg.norm(one.score - other.score)
    information = np.linalg.norm(svec_weights(one.score.size) * (one.information - other.information))
    return float(np.hypot(score / 2**0.5, information / BOUND))


@pytest.mark.parametrize("change", [extreme, tiny, elsewhere])
def test_sums_of_a_private_fit_move_within_their_bound_only_if_prepared_publicly(
    sample: Path, tmp_path: Path, change: Callable[[list[Row]], list[Row]]
) -> None:
    """One search moves the pair by sqrt 2 units at most; as the paper prepares it, by far more."""
    other = with_other(sample, tmp_path, change)
    assert moved(public(sample), public(other)) <= SENSITIVITY
    assert moved(of_the_paper(sample), of_the_paper(other)) > 3 * SENSITIVITY


def test_records_list_every_step_that_looked_at_the_data(sample: Path) -> None:
    """Public: none, unless the destination was counted; as in the paper: all, with the options that were used."""
    record = public(sample).preparation
    assert record == Preparation(scaling=PUBLIC, imputation=PUBLIC, data_dependent=())
    assert ["destination" in step for step in encode_publicly(read(sample)).preparation.data_dependent] == [True]
    for raw, impressions, steps in ((read(sample), 160, 7), (read(sample, destination=TOP), 1, 5)):
        found = encode(clean(raw, impressions=impressions)).preparation
        assert len(found.data_dependent) == steps
        assert PUBLIC not in (found.scaling, found.imputation)
    assert public(sample).frequent(10).preparation.data_dependent == ("items shown fewer than 10 times dropped",)


def test_files_keep_the_record_and_what_each_search_was_shown(sample: Path, tmp_path: Path) -> None:
    """A round trip through the file, for either preparation."""
    for searches in (public(sample), of_the_paper(sample)):
        back = load(searches.save(tmp_path / "hotels.npz"))
        assert back.preparation == searches.preparation
        assert everybody_else(back) == everybody_else(searches)


@pytest.mark.parametrize("record", [None, "", "[]", "{}", '{"scaling": 1}', PUBLIC])
def test_files_without_a_record_that_can_be_read_are_unknown(tmp_path: Path, record: str | None) -> None:
    """Files of the first format, of others, or with a spoilt record count as data-dependent."""
    with np.load(made_up(20).save(tmp_path / "made.npz")) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored if name != "preparation"}
    arrays |= {"format": np.array("quietshelf searches 1")} if record is None else {"preparation": np.array(record)}
    np.savez(tmp_path / "old.npz", **arrays)
    assert load(tmp_path / "old.npz").preparation == UNKNOWN
    assert UNKNOWN.data_dependent != ()
    with pytest.raises(ValueError, match="must be listed as data-dependent"):
        Preparation(scaling=PUBLIC, imputation="medians", data_dependent=())


def test_averages_of_what_was_shown_are_the_catalogue_of_a_study(sample: Path) -> None:
    """A public file has no catalogue; studies, which promise nothing, average what searches were shown."""
    searches = public(sample)
    assert searches.shown_features is not None
    number = int(np.flatnonzero(searches.shown[:, 3])[0])
    hotel = np.flatnonzero(searches.shown.ravel()) % searches.items
    np.testing.assert_allclose(searches.item_features()[3], searches.shown_features[hotel == 3].mean(axis=0))
    place = int(searches.shown[number, :3].sum())
    first = searches.rounds(feature_map("item")).features[number, place, 1:]
    np.testing.assert_array_equal(first, searches.shown_features[hotel == 3][0])
    kept = searches.frequent(160)
    assert kept.shown_features is not None
    assert len(kept.shown_features) == kept.shown.sum()


@needs_data
def test_real_files_by_others_are_unknown_and_the_raw_sample_can_be_prepared_publicly() -> None:
    """Arrays and tables that others standardised have no record; from the raw rows all 28 features come out."""
    assert {read_searches(path).preparation for path in (ARRAYS, TABLES[30])} == {UNKNOWN}
    searches = public(RAW)
    assert searches.preparation.data_dependent == ()
    assert (len(searches), len(searches.item_names), len(searches.visitor_names)) == (5, 10, 18)
