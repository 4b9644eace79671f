"""What one row says changes no other: quotes, separators, ids and cells that look equal."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.data.logs.long_format import packed, table

from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.lines import BadLine, count_rows
from quietshelf.data.logs.reading import BadLog, as_log, from_wide, read_log
from quietshelf.data.tables import Schema, category, flag

LONG = ["round,item,chosen,price,person", *(f"{k},tea,0,{k}.5,p{k}" for k in range(1, 9))]
WIDE = ["round,chosen,price:tea,person", *(f"{k},,{k}.5,p{k}" for k in range(1, 9))]
BREAKS = {
    "a quote that opens": ("{},tea", '{},"tea', "a line must be a row: quotes must close"),
    "a quote that closes": ("p{}", 'p{}"', None),
    "a separator too many": ("p{}", "p{},", "a line must have 5 cells, as the first has; it has 6"),
    "a cell too few": (",p{}", "", "a line must have 5 cells, as the first has; it has 4"),
    "a line break in a cell": ("p{}", '"p{}\n"', "a line must be a row"),
    "a carriage return": ("p{}", "p{}\rx", "a line must be a row"),
    "a zero": ("p{}", "p{}\0", "a line must be a row"),
    "another encoding": ("p{}", "p{}\udcff", "a line must be in UTF-8"),
}


def written(path: Path, lines: list[str]) -> None:
    """The lines as a file, packed if its name says so."""
    content = "\n".join([*lines, ""]).encode(errors="surrogateescape")
    packed(path, content) if path.suffix != ".csv" else path.write_bytes(content)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zip"])
@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.parametrize("row", [1, 4])
def test_a_line_that_is_no_row_by_itself_is_refused(tmp_path: Path, suffix: str, name: str, row: int) -> None:
    """With its number, also if another row would mend it: two quotes swallow everybody between them."""
    here, there, rule = BREAKS[name]
    path, lines = tmp_path / f"log.{suffix}", LONG.copy()
    lines[row] = lines[row].replace(here.format(row), there.format(row))
    lines[row + 3] = lines[row + 3].replace("p", 'p"') if name == "a quote that opens" else lines[row + 3]
    assert lines[row] != LONG[row]
    written(path, lines)
    if rule is None:
        assert len(read_log(path)) == 8
        return
    with pytest.raises(ValueError, match=rf"{rule}.*, got .* in line {row + 1}$"):
        read_log(path)


def test_wide_logs_keep_to_lines_too(tmp_path: Path) -> None:
    """The same reader."""
    for here, there in (("2,,", '2,",'), ("p2", "p2,9"), (",p2", "")):
        lines = [line.replace(here, there) if line.startswith("2,") else line for line in WIDE]
        written(tmp_path / "log.csv", lines)
        with pytest.raises(ValueError, match=r"a line must .* in line 3$"):
            read_log(tmp_path / "log.csv", layout=Layout(wide=True))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quoted_cells_and_empty_lines_are_no_breaks(tmp_path: Path, end: str) -> None:
    """Separators and doubled quotes within quotes, a mark at the beginning, blank lines."""
    lines = ["round,item,chosen,price", '1,"a, ""b""",1,2', "", "2,a,0,3", "  ", ""]
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbf" + end.join(lines).encode())
    log = read_log(tmp_path / "log.csv")
    assert (len(log), log.item_ids) == (2, ("a", 'a, "b"'))


@pytest.mark.parametrize(
    "ids",
    [[1.0, 2.0], [float(2**53), float(2**53 + 1)], [Decimal("1.0"), Decimal("1.00")], ["1", 1], [True, 2], [1, 1.0]],
)
@pytest.mark.parametrize("column", ["round", "item", "person"])
def test_ids_that_do_not_stay_apart_are_refused(ids: list[Any], column: str) -> None:
    """Floats, decimals, flags, and text beside numbers."""
    rows = pd.DataFrame({"round": ["a", "b"], "item": ["x", "y"], "person": ["p", "q"], "chosen": 0, "price": 1.0})
    rows[column] = pd.Series(ids, dtype=None if len({type(each) for each in ids}) == 1 else object)
    rule = rf"{column} must be all text or all whole numbers.*, got {column}="
    with pytest.raises(BadLog, match=rule):
        as_log(rows)


def test_persons_without_an_id_are_refused() -> None:
    """By the row."""
    for missing in (None, np.nan, pd.NA):
        rows = table().astype({"person": object})
        rows.loc[5, "person"] = missing
        with pytest.raises(BadLog, match=r"person must not be empty, got person=\S+ in row 6"):
            as_log(rows)


def test_cells_that_are_equal_may_mean_different_things() -> None:
    """True and 1 are different levels, and neither affects how the other is read, in either order."""
    schema = Schema(id="item", items={"kind": category(["1", "true"], other=True), "hot": flag()})
    rows = pd.DataFrame({"round": [1, 2], "item": ["a", "a"], "chosen": 0, "hot": [0, 1]})
    for kinds, features in (([True, 1], [[1, 0, 0], [0, 0, 1]]), ([1, True], [[0, 0, 0], [1, 0, 1]])):
        log = as_log(rows.assign(kind=pd.Series(kinds, dtype=object)), schema=schema)
        assert log.features.tolist() == features
    with pytest.raises(ValueError, match=r"hot must be true or false.* got hot=-0.0 in row 2"):
        as_log(rows.assign(kind="1", hot=[0.0, -0.0]), schema=schema)


@pytest.mark.parametrize("column", ["price", "chosen", "revenue", "position"])
def test_a_number_that_no_float_holds_is_refused_with_its_row(tmp_path: Path, column: str) -> None:
    """400 digits, in a file or in a table."""
    rows = pd.DataFrame({"round": [1, 2], "item": ["a", "a"], "chosen": [0, 1], "price": [1, 2]})
    rows = rows.assign(revenue=1, position=1)
    rows[column] = pd.Series([1, 10**400], dtype=object)
    rows.to_csv(tmp_path / "log.csv", index=False)
    rule = rf"{column} must be .*, got {column}=10{{400}} in row 2"
    with pytest.raises(BadLog, match=rule):
        as_log(rows)
    with pytest.raises(BadLog, match=rule):
        read_log(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"price:tea": [1.0, None], "price:jam": [2.0, None]}, "a round must show something, got chosen=nan in row 2"),
        ({"chosen": ["jam", "jam"]}, "chosen must name an item that has a value in its row, .*chosen=jam in row 2"),
    ],
)
def test_nobody_vanishes_from_a_wide_log(changes: dict[str, Any], rule: str) -> None:
    """Neither a round nor a choice."""
    wide = {"chosen": ["tea", np.nan], "price:tea": [1.0, 2.0], "price:jam": [2.0, None], "person": ["p", "q"]}
    assert len(as_log(from_wide(pd.DataFrame(wide)))) == 2
    with pytest.raises(BadLog, match=rule):
        from_wide(pd.DataFrame({**wide, **changes}))


def test_columns_of_one_name_are_refused() -> None:
    """Another reader would give the second a new name, and a person would be a feature."""
    with pytest.raises(BadLine, match=r"columns must have different names; 'person' appears twice, got .* in line 1"):
        count_rows([b"round,person,person\n", b"1,a,b\n"], ",")


def test_one_word_among_times_is_refused() -> None:
    """All would be ordered as words: 10 before 2."""
    rows = table()
    rows["time"] = ["2", "2", "x", "x", "x", "10"]
    with pytest.raises(BadLog, match="time must be numbers in every row, or in none, got time='x'"):
        as_log(rows)
