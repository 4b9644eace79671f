"""Read a log file, CSV (also compressed) or Parquet, as a table with our own column names."""

from __future__ import annotations

import csv
import lzma
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quietshelf.data.logs.files import pandas, reading
from quietshelf.data.logs.ids import APART, IDS
from quietshelf.data.logs.lines import BadLine, count_rows
from quietshelf.data.tables.reading import PARQUET, parquet, separator_of
from quietshelf.model.types import require

SEPARATOR = ":"
"""Between feature and item in the column names of wide format, as in ``price:tea``."""
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
"""Errors of a damaged file; those of pandas are ValueErrors."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of a shop's logs.

    Attributes:
        wide: Whether a row is a round, rather than one item of a round.
        columns: The file's column names by ours.
        separator: Separator of a CSV; None to detect it in the header.
    """

    wide: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = None

    def __post_init__(self) -> None:
        one = self.separator is None or len(self.separator) == 1
        require(one, "separator must be one character", separator=self.separator)


def parse_columns(given: Iterable[str]) -> dict[str, str]:
    """Parse column names given as ``OURS=THEIRS``.

    >>> parse_columns(["item=sku", "round=visit id"])
    {'item': 'sku', 'round': 'visit id'}
    """
    found: dict[str, str] = {}
    for text in given:
        ours, equals, theirs = (part.strip() for part in text.partition("="))
        require(bool(ours and equals and theirs), "a column must be given as OURS=THEIRS, as in item=sku", column=text)
        require(ours not in found, "a column must be given once", column=text)
        found[ours] = theirs
    return found


def read_table(path: str | Path, layout: Layout, *, text: tuple[str, ...] = (), exact: bool = False) -> Any:
    """Read a table from a file, under our column names.

    Ids are read as text, one by one: a type guessed from a whole column would let one person's id decide whether "01"
    and "1" are the same person, and so change what others contribute. The columns in ``text`` are read the same way.
    Every line of a CSV is one row, so that no row can swallow or shift another.

    Args:
        path: The file.
        layout: Its layout.
        text: Our names of further text columns; in wide format, of text features.
        exact: Whether only empty cells are missing, not "NA" or "null".
    """
    ids = (*IDS, "chosen") if layout.wide else IDS
    if Path(path).suffix.lower() in PARQUET:
        require(layout.separator is None, "separator is for CSV files", separator=layout.separator)
        require(Path(path).is_file(), "the file must exist", path=str(path))
        with parquet(path):
            stored = pandas().read_parquet(path, engine="pyarrow")
        return _check_ids(renamed(stored, layout), ids)
    require(Path(path).is_file(), "the file must exist", path=str(path))
    require(Path(path).stat().st_size > 0, "the file must not be empty", path=str(path))
    try:
        with reading(path) as source:
            header = source.handle.readline().decode("utf-8-sig")
        separator = layout.separator or separator_of(header)
        with reading(path) as source:
            rows = count_rows(source.handle, separator)
        kinds = _kinds(header, separator, layout, {*ids, *text})
        options: dict[str, Any] = {"keep_default_na": False, "na_values": [""]} if exact else {}
        with reading(path) as source:
            table = pandas().read_csv(source.handle, sep=separator, dtype=kinds, index_col=False, **options)
        require(len(table) == rows, "each line must be a row", lines=rows, rows=len(table))
    except BadLine as error:
        raise ValueError(f"{path}: {error}") from None
    except _UNREADABLE as error:
        raise ValueError(f"{path} must be a CSV table with a header: {str(error).strip()}") from None
    return renamed(table, layout)


def renamed(table: Any, layout: Layout) -> Any:
    """Rename the columns to ours."""
    there = [str(name) for name in table.columns]
    for ours, theirs in layout.columns.items():
        rule = f"--column {ours}={theirs} must name a column of the file"
        require(theirs in there, rule, columns=there)
        rule = f"--column {ours}={theirs}: the file also has a column {ours}, so rename one of them"
        require(ours == theirs or ours not in there, rule)
    return table.rename(columns={theirs: ours for ours, theirs in layout.columns.items()})


def _kinds(header: str, separator: str, layout: Layout, text: set[str]) -> dict[str, type[str]]:
    """The text columns, by their names in the file."""
    ours = {theirs: name for name, theirs in layout.columns.items()}
    names = [name.strip("\r\n") for name in next(csv.reader([header], delimiter=separator))]
    return {name: str for name in names if ours.get(name, name).split(SEPARATOR)[0] in text}


def _check_ids(table: Any, ids: tuple[str, ...]) -> Any:
    for name in set(ids) & set(table.columns):
        kind = table[name].dtype
        require(kind.kind in "OTUiu", f"{name} {APART}", type=str(kind))
    return table
