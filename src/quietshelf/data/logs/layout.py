"""Files -> tables under our own column names: CSV (compressed too) or Parquet, whatever the shop calls its columns."""

from __future__ import annotations

import csv
import lzma
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quietshelf.data.logs.files import EXTRA, pandas, reading
from quietshelf.data.logs.ids import APART, IDS
from quietshelf.data.logs.lines import BadLine, count_rows
from quietshelf.data.tables.reading import PARQUET, separator_of
from quietshelf.model.types import require

SEPARATOR = ":"
"""Between feature and item in the column names of wide format, as in ``price:tea``."""
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
"""What a damaged file raises; pandas' own errors are ValueErrors."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a shop writes its logs.

    Attributes:
        wide: Whether a row is a round, not a round and item.
        columns: What the file calls a column, by our name for it.
        separator: Between the cells of a CSV; None to take it from the header.
    """

    wide: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = None

    def __post_init__(self) -> None:
        one = self.separator is None or len(self.separator) == 1
        require(one, "separator must be one character", separator=self.separator)


def parse_columns(given: Iterable[str]) -> dict[str, str]:
    """``OURS=THEIRS``, one each.

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
    """The table as it stands in the file, under our names.

    Ids are read as text, each by itself: a type guessed from a whole column would let one person's id decide whether
    "01" and "1" are one person or two, and so change what others contribute. So are the columns in ``text``. Every line
    of a CSV is a row by itself too: what one row says cannot swallow or shift another.

    Args:
        path: The file.
        layout: How it is laid out.
        text: Our names of further columns that are text; in wide format, of features.
        exact: Whether only an empty cell is a missing one, not "NA" or "null".
    """
    ids = (*IDS, "chosen") if layout.wide else IDS
    if Path(path).suffix.lower() in PARQUET:
        require(layout.separator is None, "separator is for CSV files", separator=layout.separator)
        return _check_ids(renamed(_parquet(path), layout), ids)
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
    """The table under our names."""
    there = [str(name) for name in table.columns]
    for ours, theirs in layout.columns.items():
        rule = f"--column {ours}={theirs} must name a column of the file"
        require(theirs in there, rule, columns=there)
        rule = f"--column {ours}={theirs}: the file has a column {ours} as well, so rename one of them"
        require(ours == theirs or ours not in there, rule)
    return table.rename(columns={theirs: ours for ours, theirs in layout.columns.items()})


def _kinds(header: str, separator: str, layout: Layout, text: set[str]) -> dict[str, type[str]]:
    """Which columns of the file are text, by their names in it."""
    ours = {theirs: name for name, theirs in layout.columns.items()}
    names = [name.strip("\r\n") for name in next(csv.reader([header], delimiter=separator))]
    return {name: str for name in names if ours.get(name, name).split(SEPARATOR)[0] in text}


def _parquet(path: str | Path) -> Any:
    require(Path(path).is_file(), "the file must exist", path=str(path))
    try:
        return pandas().read_parquet(path, engine="pyarrow")
    except ImportError:
        raise ModuleNotFoundError(f"Parquet files are read with pyarrow: {EXTRA}") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a Parquet file: {error}") from None


def _check_ids(table: Any, ids: tuple[str, ...]) -> Any:
    for name in set(ids) & set(table.columns):
        kind = table[name].dtype
        require(kind.kind in "OTUiu", f"{name} {APART}", type=str(kind))
    return table
