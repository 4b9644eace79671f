"""Read tables from data frames, Arrow, CSV, Parquet or lists of dicts, as rows of named cells."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from quietshelf.model.types import require

SEPARATORS = ",;\t|"
PARQUET = (".parquet", ".pq")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows of named cells.

    Attributes:
        columns: Names of the columns.
        rows: One mapping per row; absent keys are missing cells.
        place: How to name the row at an index in errors: a line of a file, or an index from 0.
    """

    columns: tuple[str, ...]
    rows: Sequence[Row]
    place: Callable[[int], str]

    def column(self, name: str) -> list[Any]:
        """All cells of one column."""
        return [row.get(name) for row in self.rows]

    def each(self, name: str, read: Callable[[str, Any], Any]) -> list[Any]:
        """Apply ``read`` to every cell of a column; errors name the row."""
        found = []
        for index, row in enumerate(self.rows):
            try:
                found.append(read(name, row.get(name)))
            except ValueError as error:
                raise ValueError(f"{error} in {self.place(index)}") from None
        return found


def read_table(given: Any, *, separator: str | None = None) -> Table:
    """Read a table from a data frame (pandas, polars), an Arrow table, a path to CSV or Parquet, or a list of dicts.

    >>> read_table([{"id": "a", "price": 3}]).columns
    ('id', 'price')
    """
    if isinstance(given, Table):
        return given
    if isinstance(given, (str, os.PathLike)):
        return _file(Path(given), separator)
    require(separator is None, "separator is for CSV files", separator=separator)
    rows = _records(given)
    if rows is None:
        known = "a data frame, an Arrow table, a path to CSV or Parquet, or a list of dicts"
        raise ValueError(f"a table must be {known}, got an object of type {type(given).__name__}")
    return _table(rows, _names(given, rows), lambda index: f"row {index} (counted from 0)")


def _records(given: Any) -> Sequence[Any] | None:
    """Rows as dicts, by whichever method the table has; None for anything else."""
    if isinstance(given, (list, tuple)):
        for index, row in enumerate(rows := given):
            rule = f"a row must be a dict, got an object of type {type(row).__name__} in row {index} (counted from 0)"
            require(isinstance(row, Mapping), rule)
        return rows
    methods: tuple[tuple[str, dict[str, str]], ...] = (
        ("to_pylist", {}), ("to_dicts", {}), ("to_dict", {"orient": "records"})
    )  # fmt: skip
    for method, options in methods:
        if hasattr(given, method) and hasattr(given, "columns"):
            _distinct(_names(given, ()))
            found: Sequence[Any] = getattr(given, method)(**options)
            return found
    return None


def _names(given: Any, rows: Sequence[Row]) -> tuple[Any, ...]:
    """Column names in the order of the table; in a list of dicts, in order of first appearance."""
    if isinstance(given, (list, tuple)):
        return tuple(dict.fromkeys(name for row in rows for name in row))
    return tuple(given.column_names if hasattr(given, "column_names") else given.columns)


def _table(rows: Sequence[Row], names: tuple[Any, ...], place: Callable[[int], str]) -> Table:
    for name in names:
        require(isinstance(name, str) and name.strip() != "", "a column name must be text", column=name)
    require(len(rows) > 0, "a table must have rows", rows=0)
    return Table(names, rows, place)


def _distinct(names: Sequence[Any]) -> None:
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    require(not twice, "the columns of a table must have different names", twice=twice)


def _file(path: Path, separator: str | None) -> Table:
    require(path.is_file(), "the file must exist", path=str(path))
    if path.suffix.lower() in PARQUET:
        require(separator is None, "separator is for CSV files", separator=separator)
        with parquet(path) as pq:
            stored = pq.read_table(path)
        return read_table(stored)
    with _text(path) as file:
        try:
            return _csv(file, path, separator)
        except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} must be a CSV table in UTF-8: {error}") from None


@contextmanager
def parquet(path: str | Path) -> Iterator[Any]:
    """The module ``pyarrow.parquet``, whose errors become one that names the file."""
    try:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Parquet files are read with pyarrow: pip install '.[data]' in a checkout") from None
    try:
        yield pq
    except (OSError, ValueError, ArrowException) as error:
        raise ValueError(f"{path} must be a Parquet file: {error}") from None


def _text(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _csv(file: TextIO, path: Path, separator: str | None) -> Table:
    one = separator is None or (isinstance(separator, str) and len(separator) == 1)
    require(one, "separator must be one character", separator=separator)
    first = file.readline()
    require(first.strip() != "", f"{path} must begin with the names of its columns", line=first)
    reader = csv.reader(_lines(first, file), delimiter=separator or separator_of(first), strict=True)
    names = [name.strip() for name in next(reader)]
    _distinct(names)
    rows, lines, line = [], [], reader.line_num + 1
    for cells in reader:
        if cells:
            fits = len(cells) == len(names)
            require(fits, f"a line must have {len(names)} cells, as the first has, got {len(cells)} in line {line}")
            rows.append(dict(zip(names, cells, strict=True)))
            lines.append(line)
        line = reader.line_num + 1
    return _table(rows, tuple(names), lambda index: f"line {lines[index]} of {path.name}")


def separator_of(header: str) -> str:
    """The separator that splits a header into the most columns.

    >>> separator_of('sku;"price, net";colour')
    ';'
    """
    return max(SEPARATORS, key=lambda each: len(next(csv.reader([header], delimiter=each))))


def _lines(first: str, rest: TextIO) -> Iterator[str]:
    yield first
    yield from rest
