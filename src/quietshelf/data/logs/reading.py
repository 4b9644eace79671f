"""Tables -> a validated log, from long format or from wide format made long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.data.logs.by_schema import by_schema
from quietshelf.data.logs.files import pandas
from quietshelf.data.logs.layout import SEPARATOR, Layout, read_table
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.rules import NEEDED, VISITOR, feature_columns, is_shown, numbers, problems
from quietshelf.data.tables import Schema
from quietshelf.model.types import FloatArray, IntArray, require

ABSENT = "chosen must name an item that has a value in its row, or be empty"


class BadLog(ValueError):  # noqa: N818 - says what it is
    """A log breaks rules; the message names the first bad row for each rule."""


def read_log(
    path: str | Path, *, layout: Layout | None = None, schema: Schema | None = None, visitors: bool = True
) -> Log:
    """Read a log in long format (docs/logs.md) or in wide format, from CSV or Parquet.

    Args:
        path: The file.
        layout: Its layout; long format with our own column names by default.
        schema: What its columns mean; without one, every further column is a number.
        visitors: Whether to read visitor features; if not, their columns are ignored.
    """
    layout = layout or Layout()
    text = () if schema is None else (schema.id, *schema.items, *(VISITOR + name for name in schema.visitors))
    table = read_table(path, layout, text=text, exact=schema is not None)
    return as_log(from_wide(table) if layout.wide else table, schema=schema, visitors=visitors)


def as_log(table: Any, *, schema: Schema | None = None, visitors: bool = True) -> Log:
    """Make a log from a long table; a `BadLog` names the first bad row for each rule."""
    log = built(checked(as_numbers(table, schema, visitors=visitors)))
    return log if schema is None else named(log, schema, visitors=visitors)


def as_numbers(table: Any, schema: Schema | None, *, visitors: bool, before: int = 0) -> Any:
    """A long table with numeric features: encoded by the schema, or as they are.

    Errors count rows from ``before`` on, the number of rows before this table.
    """
    if schema is not None:
        return by_schema(table, schema, visitors=visitors, before=before)
    return table if visitors else table.drop(columns=feature_columns(table)[0])


def checked(table: Any, *, before: int = 0) -> Any:
    """Return the table if it is valid; a `BadLog` names the first bad row for each rule."""
    missing = [name for name in NEEDED if name not in table.columns]
    require(
        not missing, f"a log must have the columns {', '.join(NEEDED)}", missing=missing, columns=list(table.columns)
    )
    require(len(table) > 0, "a log must have rows", rows=0)
    found = problems(table)
    if found:
        lines = [f"  - {problem._replace(row=before + problem.row)}" for problem in found]
        if any(problem.rule.startswith("the feature") for problem in found):
            lines.append("  (a schema says what text, categories and gaps mean: --schema)")
        raise BadLog("\n".join(["the log breaks these rules:", *lines]))
    return table


def named(log: Log, schema: Schema, *, visitors: bool) -> Log:
    """The log with the schema's feature names."""
    return replace(log, item_names=schema.item_names, visitor_names=schema.visitor_names if visitors else ())


def from_wide(table: Any) -> Any:
    """Turn one row per round into one row per round and item.

    Columns ``FEATURE:ITEM`` (also ``position:ITEM``, ``revenue:ITEM``, ``available:ITEM``) describe an item, which is
    part of a round if any of them has a value there; ``chosen`` holds the id of the chosen item, or is empty. A row
    without any item is refused, since its visitor would vanish. Other columns belong to the round; without a column
    ``round``, rows are numbered.
    """
    of_items = [str(name) for name in table.columns if SEPARATOR in str(name)]
    require(len(of_items) > 0, f"a wide log must have columns FEATURE{SEPARATOR}ITEM", columns=list(table.columns))
    require("chosen" in table.columns, "a wide log must have a column chosen", columns=list(table.columns))
    tables = pandas()
    if "round" not in table.columns:
        table = table.assign(round=np.arange(1, len(table) + 1))
    parts = table[of_items].copy()
    parts.columns = tables.MultiIndex.from_tuples([tuple(name.split(SEPARATOR, 1)) for name in of_items])
    long = parts.stack(level=1, future_stack=True).dropna(how="all").rename_axis(["row", "item"]).reset_index()
    of_rounds = table.drop(columns=of_items).reset_index(drop=True)
    taken = of_rounds["chosen"].reindex(long["row"]).reset_index(drop=True)
    long["chosen"] = (taken.notna() & (taken.astype(str) == long["item"].astype(str))).astype(int)
    _check_wide(of_rounds, long)
    rest = of_rounds.drop(columns="chosen")
    return long.merge(rest, left_on="row", right_index=True).drop(columns="row")


def _check_wide(of_rounds: Any, long: Any) -> None:
    """Refuse a row that would vanish or lose its choice: each is a visitor's round."""
    rows = np.arange(len(of_rounds))
    empty = ~np.isin(rows, long["row"])
    lost = of_rounds["chosen"].notna().to_numpy() & ~np.isin(rows, long["row"][long["chosen"] == 1])
    for rule, broken in (("a round must show something", empty), (ABSENT, lost)):
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            raise BadLog(f"{rule}, got chosen={of_rounds['chosen'].iloc[row]!s} in row {row + 1}")


def built(table: Any, *, items: bool = True) -> Log:
    """The log of a valid table; without ``items``, skip telling items apart, the slowest step."""
    codes, _ = pandas().factorize(table["round"])
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        table, codes = table.iloc[order], codes[order]
    start = np.append(np.flatnonzero(np.diff(codes, prepend=-1)), len(codes))
    visitor, features = feature_columns(table)
    item_ids, item = _items(table) if items else ((), np.zeros(len(table), dtype=np.int64))
    first = table.iloc[start[:-1]]
    return Log(
        start=start,
        item=item,
        shown=is_shown(table),
        chosen=np.asarray(numbers(table, "chosen") == 1),
        available=np.asarray(_column(table, "available", 1.0) == 1),
        revenue=_column(table, "revenue", 1.0),
        features=_matrix(table, features),
        visitor=_matrix(first, visitor),
        item_ids=item_ids,
        item_names=tuple(features),
        visitor_names=tuple(visitor),
        person=_persons(first),
        time=_ranks(first),
        propensity=_column(first, "propensity", None),
        random=np.asarray(_column(first, "random", None) == 1) if "random" in first.columns else None,
    )


def _items(table: Any) -> tuple[tuple[str, ...], IntArray]:
    names, item = np.unique(table["item"].astype(str).to_numpy(dtype=str), return_inverse=True)
    return tuple(map(str, names)), item


def _column(table: Any, name: str, default: float | None) -> Any:
    if name not in table.columns:
        return None if default is None else np.full(len(table), default)
    return numbers(table, name).to_numpy(dtype=np.float64)


def _matrix(table: Any, columns: list[str]) -> FloatArray:
    values = [numbers(table, name).to_numpy(dtype=np.float64) for name in columns]
    return np.column_stack(values) if values else np.empty((len(table), 0))


def _ranks(first: Any) -> IntArray | None:
    if "time" not in first.columns:
        return None
    _check_times(first["time"])
    return np.asarray(first["time"].rank(method="first")).astype(np.int64) - 1


def _check_times(times: Any) -> None:
    """Refuse text among numeric times: all would be sorted as text."""
    told = pandas().to_numeric(times, errors="coerce").notna()
    if told.any() and not told.all() and not times[~told].isna().all():
        value = times[~told & times.notna()].iloc[0]
        raise BadLog(f"time must be numbers in every row, or in none, got time={value!r}")


def _persons(first: Any) -> IntArray | None:
    """Number persons in the order of their ids, which does not depend on anybody's rows."""
    if "person" not in first.columns:
        return None
    ids = (
        first["person"].astype(str).astype(object)
    )  # as objects: fixed-width text would drop a NUL at the end of an id
    return np.asarray(pandas().factorize(ids, sort=True)[0])
