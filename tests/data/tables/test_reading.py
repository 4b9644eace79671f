"""Tables from real libraries and real files become the same rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quietshelf.data.tables import Schema, category, embedding, flag, infer, number, read_table

ROWS: list[dict[str, Any]] = [
    {"sku": "001", "price": 2.5, "kind": "tea", "vegan": True, "style": [0.1, 0.2]},
    {"sku": "002", "price": None, "kind": None, "vegan": False, "style": [0.3, 0.4]},
    {"sku": "003", "price": 4.0, "kind": "coffee, ground", "vegan": None, "style": [0.5, 0.6]},
]
SCHEMA = Schema(
    {
        "price": number(scale=1, missing=True),
        "kind": category(["tea", "coffee, ground"]),
        "vegan": flag(missing=True),
        "style": embedding(2),
    },
    id="sku",
)


def as_csv(separator: str) -> str:
    lines = [
        ["sku", "price", "kind", "vegan", "style"],
        ["001", "2.5", "tea", "true", '"[0.1, 0.2]"'],
        ["002", "", "", "false", '"[0.3, 0.4]"'],
        ["003", "4.0", '"coffee, ground"', "", '"[0.5, 0.6]"'],
    ]
    return "\r\n".join(separator.join(cells) for cells in lines) + "\r\n"


def csv_file(folder: Path) -> Path:
    (folder / "teas.csv").write_text(as_csv(","), encoding="utf-8-sig")
    return folder / "teas.csv"


def zipped_file(folder: Path) -> str:
    (folder / "teas.tsv.gz").write_bytes(gzip.compress(as_csv("\t").encode()))
    return str(folder / "teas.tsv.gz")


def parquet_file(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "teas.parquet")
    return folder / "teas.parquet"


@pytest.mark.parametrize(
    "make",
    [
        lambda _: ROWS,
        lambda _: pd.DataFrame(ROWS),
        lambda _: pd.DataFrame(ROWS).convert_dtypes(),
        lambda _: pl.DataFrame(ROWS),
        lambda _: pa.Table.from_pylist(ROWS),
        lambda _: pa.RecordBatch.from_pylist(ROWS),
        csv_file,
        zipped_file,
        parquet_file,
    ],
)
def test_every_source_gives_the_same_products(make: Callable[[Path], Any], tmp_path: Path) -> None:
    """Ids of a CSV stay text, zeros in front and all; inferred scales are the same too."""
    table = make(tmp_path)
    found, wanted = SCHEMA.products(table), SCHEMA.products(ROWS)
    assert found.ids == ("001", "002", "003")
    np.testing.assert_allclose(found.features, wanted.features)
    assert infer(table).items == infer(ROWS).items


def test_whole_numbers_stay_ids() -> None:
    """Those of NumPy become Python's."""
    found = Schema({}).products(pd.DataFrame({"id": np.array([7, 8], dtype=np.int32)})).ids
    assert found == (7, 8)
    assert all(type(each) is int for each in found)


@pytest.mark.parametrize("separator", [";", "|", "\t"])
def test_the_separator_is_found_or_given(separator: str, tmp_path: Path) -> None:
    """One that is not found by itself can be named."""
    (tmp_path / "a.csv").write_text(as_csv(separator))
    assert read_table(tmp_path / "a.csv").columns == ("sku", "price", "kind", "vegan", "style")
    (tmp_path / "b.csv").write_text("id#price\na#3\n")
    assert read_table(tmp_path / "b.csv", separator="#").rows == [{"id": "a", "price": "3"}]


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    """With the header, empty lines, and cells of several lines."""
    (tmp_path / "a.csv").write_text('id,price,text\na,1,"two\nlines"\n\nb,dear,x\n')
    schema = infer([{"id": "a", "price": 1.0, "text": "x"}, {"id": "b", "price": 2.5, "text": "x"}])
    with pytest.raises(ValueError, match=r"price must be a finite number, got price='dear' in line 5 of a\.csv$"):
        schema.products(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must begin with the names of its columns"),
        (b"id,price\n", "a table must have rows"),
        (b"id,price\na,1\nb\n", "a line must have 2 cells, as the first has, got 1 in line 3"),
        (b"id,id\na,b\n", r"the columns of a table must have different names, got twice=\['id'\]"),
        (b"id,\na,b\n", "a column name must be text, got column=''"),
        (b"id,price\n\xff\xfe,1\n", "must be a CSV table in UTF-8"),
        (b'id,price\n"a,1\n', "must be a CSV table in UTF-8"),
    ],
)
def test_a_wrong_csv_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """With the rule and the line."""
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, "a table must be a data frame, .* got an object of type int"),
        ({"id": [1]}, "a table must be a data frame, .* got an object of type dict"),
        (pd.Series([1]), "a table must be a data frame, .* got an object of type Series"),
        ([{"id": 1}, 3], r"a row must be a dict, got an object of type int in row 1 \(counted from 0\)"),
        ([], "a table must have rows, got rows=0"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), r"must have different names, got twice=\['id'\]"),
        (pd.DataFrame([[1, 2]], columns=["id", 3]), "a column name must be text, got column=3"),
        ("nowhere.csv", "the file must exist, got path='nowhere.csv'"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, message: str) -> None:
    """With what would be one."""
    with pytest.raises(ValueError, match=message):
        read_table(table)


def test_wrong_files_and_separators_are_refused(tmp_path: Path) -> None:
    """A separator is one character, and of CSV files only."""
    (tmp_path / "a.parquet").write_bytes(b"no")
    (tmp_path / "a.csv.gz").write_bytes(b"no")
    with pytest.raises(ValueError, match="must be a Parquet file"):
        read_table(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="must be a CSV table in UTF-8"):
        read_table(tmp_path / "a.csv.gz")
    with pytest.raises(ValueError, match="separator must be one character, got separator=', '"):
        read_table(csv_file(tmp_path), separator=", ")
    with pytest.raises(ValueError, match="separator is for CSV files"):
        read_table(ROWS, separator=",")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "price must be a finite number, got price=Timestamp"),
        (pd.Series([1 + 2j, 3j]), "price must be a finite number, got price="),
        ([b"x", b"y"], "price must be a finite number, got price=b'x'"),
    ],
)
def test_a_wrong_dtype_is_refused_with_its_row(column: Any, message: str) -> None:
    """Whatever pandas makes of it."""
    with pytest.raises(ValueError, match=rf"^{message}.* in row 0 \(counted from 0\)$"):
        Schema({"price": number(scale=1)}).products(pd.DataFrame({"id": ["a", "b"], "price": column}))
