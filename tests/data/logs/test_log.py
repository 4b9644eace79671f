"""A shop's own log: what is read, what is refused, and what it becomes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.data.logs.long_format import table

from quietshelf.data.logs.encoded import Scale, encoded, parse_scales, scaled
from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.reading import BadLog, as_log, from_wide, read_log
from quietshelf.model.choice.maps import feature_map


def test_a_good_log_becomes_rounds() -> None:
    """Rows by round, places by row; what was not shown is a candidate and not in the fit."""
    log = as_log(table())
    features, choice, available = log.offered(feature_map("concat"))
    np.testing.assert_array_equal(features[0], [[1, 30, 1], [1, 30, 2]])
    np.testing.assert_array_equal(features[1], [[1, 40, 3], [1, 40, 5]])
    np.testing.assert_array_equal(choice, [1, 0, -1])
    np.testing.assert_array_equal(available, [[True, True], [True, True], [True, False]])
    candidates = log.offerable(feature_map("item"))
    np.testing.assert_array_equal(candidates.shown[1], [True, False, True])
    np.testing.assert_array_equal(candidates.revenue[1], [3, 5, 1])
    assert log.candidates
    assert log.capacity == 2


def test_persons_are_numbered_by_id_and_rounds_ranked_in_time() -> None:
    """Persons are numbered by id, not by arrival; rounds are ranked by time."""
    log = as_log(table())
    assert log.person is not None
    assert log.time is not None
    assert log.person.tolist() == [1, 0, 1]
    assert log.time.tolist() == [1, 2, 0]


def test_scattered_rows_of_a_round_belong_together() -> None:
    """The order of rows within the file changes the order of places at most."""
    log = as_log(table().iloc[[0, 2, 5, 1, 3, 4]])
    assert np.diff(log.start).tolist() == [2, 3, 1]
    np.testing.assert_array_equal(log.offered(feature_map("item")).choice, [1, 0, -1])


BREAKS = {
    "round must not be empty": ("round", 1, None),
    "item must not be empty": ("item", 2, None),
    "chosen must be 0 or 1": ("chosen", 1, 2),
    "an item must appear only once in a round": ("item", 1, "tea"),
    "at most one item may be chosen in a round": ("chosen", 0, 1),
    "a chosen item must have been shown": ("chosen", 3, 1),
    "position must be a whole number": ("position", 0, 0.5),
    "a position must be taken once in a round": ("position", 1, 1),
    "revenue must be a finite number": ("revenue", 4, -1.0),
    "the feature price must be a finite number": ("price", 5, np.inf),
    "visitor_age must be the same in all rows of a round": ("visitor_age", 1, 31),
    "person must be the same in all rows of a round": ("person", 1, "eve"),
    "time must not be empty": ("time", 5, None),
}


@pytest.mark.parametrize("rule", BREAKS)
def test_each_broken_rule_is_named_with_its_row(rule: str) -> None:
    """One cell is spoilt; the message has the rule and a row of that round."""
    column, row, value = BREAKS[rule]
    bad = table().astype({column: object})
    bad.loc[row, column] = value
    if rule.startswith("a chosen item"):
        bad.loc[2, column] = 0
    with pytest.raises(BadLog) as refused:
        as_log(bad)
    assert rule in str(refused.value)
    assert "in row " in str(refused.value)


def test_all_kinds_of_problems_are_reported_at_once() -> None:
    """Two rules broken in three rows: two lines, the first row of each and how many there are."""
    bad = table().astype({"price": object, "revenue": object})
    bad.loc[[1, 3], "price"] = "dear"
    bad.loc[5, "revenue"] = np.nan
    with pytest.raises(BadLog) as refused:
        as_log(bad)
    text = str(refused.value)
    assert "got price=dear in row 2 (2 rows in all)" in text
    assert "got revenue=nan in row 6" in text


def test_availability_propensity_and_randomness_have_rules_too() -> None:
    """Shown though not available, an impossible propensity, a round that shows nothing."""
    for column, values, rule in (
        ("available", [1, 1, 0, 1, 1, 1], "an item that was shown must be available"),
        ("propensity", [0.5, 0.5, 1.5, 1.5, 1.5, 1.0], r"propensity must be in \(0, 1\]"),
        ("random", [1, 0, 1, 1, 1, 1], "random must be the same in all rows of a round"),
        ("position", [1, 2, 2, np.nan, 1, np.nan], "a round must show something"),
    ):
        with pytest.raises(BadLog, match=rule):
            as_log(table().assign(**{column: values}))


def test_missing_columns_and_empty_logs_are_refused() -> None:
    """The message names what is missing."""
    with pytest.raises(ValueError, match=r"missing=\['chosen'\]"):
        as_log(table().drop(columns="chosen"))
    with pytest.raises(ValueError, match="must have rows"):
        as_log(table().iloc[:0])


def test_csv_and_parquet_hold_the_same_log(tmp_path: Path) -> None:
    """Both formats give equal rounds; a file that is neither is refused."""
    table().to_csv(tmp_path / "log.csv", index=False)
    table().to_parquet(tmp_path / "log.parquet")
    one, other = read_log(tmp_path / "log.csv"), read_log(tmp_path / "log.parquet")
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.shown, other.shown)
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(ValueError, match="must be a Parquet file"):
        read_log(tmp_path / "broken.parquet")
    with pytest.raises(ValueError, match="the file must exist"):
        read_log(tmp_path / "nowhere.csv")


def test_wide_format_is_the_same_log() -> None:
    """One row a round; an item is in a round where it has a value."""
    wide = pd.DataFrame(
        {
            "chosen": ["jam", "tea", None],
            "price:tea": [1.0, 3.0, np.nan],
            "price:jam": [2.0, np.nan, np.nan],
            "price:rye": [np.nan, 5.0, 6.0],
            "visitor_age": [30, 40, 50],
        }
    )
    log = as_log(from_wide(wide))
    long = as_log(table()[table()["position"].notna()][["round", "item", "chosen", "price", "visitor_age"]])
    for name in ("features", "choice", "available"):
        mine, theirs = (getattr(each.offered(feature_map("concat")), name) for each in (log, long))
        if name == "features":
            mine, theirs = np.sort(mine, axis=1), np.sort(theirs, axis=1)
        if name != "choice":
            np.testing.assert_array_equal(mine, theirs)
    assert sorted(log.item_ids) == ["jam", "rye", "tea"]
    assert log.chosen.sum() == 2
    with pytest.raises(BadLog, match="got chosen=gin in row 2"):
        from_wide(wide.assign(chosen=["jam", "gin", None]))
    with pytest.raises(ValueError, match="FEATURE:ITEM"):
        from_wide(table())


def test_declared_scales_are_complete_and_applied() -> None:
    """Every feature needs one; values are centred and divided by what was declared."""
    log = as_log(table())
    with pytest.raises(ValueError, match=r"missing=\['visitor_age'\]"):
        scaled(log, parse_scales("price=2"), feature_map("full"))
    changed = scaled(log, {"price": Scale(1.0, 2.0), "visitor_age": Scale(40.0, 10.0)}, feature_map("full"))
    assert isinstance(changed, Log)
    np.testing.assert_allclose(changed.features[:, 0], (table()["price"] - 1) / 2)
    np.testing.assert_allclose(changed.visitor[:, 0], [-1, 0, 1])
    assert encoded(changed, feature_map("full")).names == ["intercept", "price", "visitor_age", "visitor_age:price"]
    with pytest.raises(ValueError, match="got 'price'"):
        parse_scales("price")


def test_the_catalogue_of_a_log_is_the_average_of_its_rows() -> None:
    """Items in the order of their names."""
    features, revenue = as_log(table()).catalogue()
    np.testing.assert_allclose(features[:, 0], [3.0, 5.5, 2.0])
    np.testing.assert_allclose(revenue, [5.0, 1.0, 3.0])


def test_one_persons_id_never_regroups_others(tmp_path: Path) -> None:
    """Ids are text, each by itself: "1" and "01" are two persons whatever anybody else is called."""
    found = []
    for special in ("999", "X999", ""):
        rows = [
            (r, pid, item, int(item == "a"), 0.5) for r, pid in enumerate(("1", "01", "2", special)) for item in "ab"
        ]
        frame = pd.DataFrame(rows, columns=["round", "person", "item", "chosen", "price"])
        if not special:
            frame = frame[frame["person"] != ""]
        frame.to_csv(tmp_path / "log.csv", index=False)
        person = read_log(tmp_path / "log.csv").person
        assert person is not None
        found.append(len(set(person[:3].tolist())))
    assert found == [3, 3, 3]


def test_ids_that_were_rounded_are_refused(tmp_path: Path) -> None:
    """Numbers with decimals cannot tell large ids apart."""
    frame = table().assign(person=[1.0, 1.0, 2.0, 2.0, 2.0, 1.0])
    frame.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="person must be all text or all whole numbers"):
        read_log(tmp_path / "log.parquet")


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("value", ["1e300", "-1e-320", "9007199254740993", "1" * 30, "5.", " 7 "])
def test_one_round_changes_no_other_however_it_is_written(tmp_path: Path, value: str, *, wide: bool) -> None:
    """A figure of another kind or size in one round leaves what all others become as it was, to the last bit."""
    rng, found = np.random.default_rng(0), []
    figures = [[str(cell) for cell in row] for row in zip(rng.normal(size=50), range(50), strict=True)]
    for cell in ("3", value):
        rows = [["cost,size", *map(",".join, figures)], ["cost:a,size:a", *map(",".join, figures)]][wide]
        before = [["round,item,chosen", *(f"{k},a,{k % 2}" for k in range(50))], ["chosen", *"a" * 50]][wide]
        rows[8] = f"{cell},{cell}"
        path = tmp_path / "log.csv"
        path.write_text("\n".join(f"{left},{right}" for left, right in zip(before, rows, strict=True)))
        found.append(read_log(path, layout=Layout(wide=wide)).offered(feature_map("item")))
    others = np.arange(50) != 7
    for before, after in zip(*found, strict=True):
        assert before[others].tobytes() == after[others].tobytes()
