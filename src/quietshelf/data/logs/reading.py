"""Tables -> a validated log: long format, or wide format made long."""

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
    """A log breaks rules; the message names the first row that breaks each."""


def read_log(
    path: str | Path, *, layout: Layout | None = None, schema: Schema | None = None, visitors: bool = True
) -> Log:
    """A log in long format (docs/logs.md), or in wide format, from CSV or Parquet.

    Args:
        path: The file.
        layout: How it is laid out; long format and our own names if not given.
        schema: What its columns mean; without one every further column is a number.
        visitors: Whether visitor features are wanted; if not, theirs are not looked at.
    """
    layout = layout or Layout()
    text = () if schema is None else (schema.id, *schema.items, *(VISITOR + name for name in schema.visitors))
    table = read_table(path, layout, text=text, exact=schema is not None)
    return as_log(from_wide(table) if layout.wide else table, schema=schema, visitors=visitors)


def as_log(table: Any, *, schema: Schema | None = None, visitors: bool = True) -> Log:
    """A long table as a log; a `BadLog` names the first bad row of each kind."""
    log = built(checked(as_numbers(table, schema, visitors=visitors)))
    return log if schema is None else named(log, schema, visitors=visitors)


def as_numbers(table: Any, schema: Schema | None, *, visitors: bool, before: int = 0) -> Any:
    """A long table with features that should be numbers: as the schema makes them, or as they are.

    In messages rows are counted from ``before`` on, of which so many came before this table.
    """
    if schema is not None:
        return by_schema(table, schema, visitors=visitors, before=before)
    return table if visitors else table.drop(columns=feature_columns(table)[0])


def checked(table: Any, *, before: int = 0) -> Any:
    """The table itself if it keeps to the rules; a `BadLog` names the first bad row of each kind."""
    missing = [name for name in NEEDED if name not in table.columns]
    require(
        not missing, f"a log must have the columns {', '.join(NEEDED)}", missing=missing, columns=list(table.columns)
    )
    require(len(table) > 0, "a log must have rows", rows=0)
    found = problems(table)
    if found:
        lines = [f"  - {problem._replace(row=before + problem.row)}" for problem in found]
        if any(problem.rule.startswith("the feature") for problem in found):
            lines.append("  (what text, categories and gaps mean is said in a schema: --schema)")
        raise BadLog("\n".join(["the log breaks these rules:", *lines]))
    return table


def named(log: Log, schema: Schema, *, visitors: bool) -> Log:
    """The log with its features called as the schema calls them."""
    return replace(log, item_names=schema.item_names, visitor_names=schema.visitor_names if visitors else ())


def from_wide(table: Any) -> Any:
    """One row a round to one row a round and item.

    Columns ``FEATURE:ITEM`` (also ``position:ITEM``, ``revenue:ITEM``, ``available:ITEM``) hold what belongs to an
    item, which was in the round where any of them has a value; ``chosen`` holds the name of the item taken, or nothing.
    A row in which no item has a value is refused, for its visitor would vanish. Other columns belong to the round;
    without a column ``round`` the rows are numbered.
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
    """Refuse a row that would vanish, or whose choice would: each is somebody's round."""
    rows = np.arange(len(of_rounds))
    empty = ~np.isin(rows, long["row"])
    lost = of_rounds["chosen"].notna().to_numpy() & ~np.isin(rows, long["row"][long["chosen"] == 1])
    for rule, broken in (("a round must show something", empty), (ABSENT, lost)):
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            raise BadLog(f"{rule}, got chosen={of_rounds['chosen'].iloc[row]!s} in row {row + 1}")


def built(table: Any, *, items: bool = True) -> Log:
    """The log of a table that keeps to the rules; without ``items`` they are not told apart, which takes longest."""
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
    """Refuse times of which one is a word among numbers: all would be ordered as words."""
    told = pandas().to_numeric(times, errors="coerce").notna()
    if told.any() and not told.all() and not times[~told].isna().all():
        value = times[~told & times.notna()].iloc[0]
        raise BadLog(f"time must be numbers in every row, or in none, got time={value!r}")


def _persons(first: Any) -> IntArray | None:
    """Numbers in the order of the ids themselves: an order that does not depend on anybody's rows."""
    if "person" not in first.columns:
        return None
    ids = (
        first["person"].astype(str).astype(object)
    )  # as objects: fixed-width text would drop a NUL at the end of an id
    return np.asarray(pandas().factorize(ids, sort=True)[0])
