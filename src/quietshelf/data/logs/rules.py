"""The rules for a log: one function per rule, which returns the rows that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.files import pandas
from quietshelf.data.logs.ids import APART, IDS, not_ids
from quietshelf.model.types import BoolArray

NEEDED = ("round", "item", "chosen")
KNOWN = (*NEEDED, "position", "revenue", "available", "person", "time", "propensity", "random")
VISITOR = "visitor_"
"""Prefix of visitor features, which are the same in all rows of a round."""


class Problem(NamedTuple):
    """The first row that breaks a rule, counted from 1 after the header, and the number of such rows."""

    rule: str
    row: int
    value: str
    rows: int

    def __str__(self) -> str:
        more = f" ({self.rows} rows in all)" if self.rows > 1 else ""
        return f"{self.rule}, got {self.value} in row {self.row}{more}"


class Rule(NamedTuple):
    """The rule in words, the column to quote, and which rows break it."""

    text: str
    column: str
    broken: Callable[[Any, str], BoolArray]


def problems(table: Any) -> list[Problem]:
    """The first bad row for each broken rule. Later rules check only columns that passed the earlier ones."""
    found: list[Problem] = []
    failed: set[str] = set()
    for rule in (*_shape_rules(table), *_sense_rules(table)):
        if rule.column in failed:
            continue
        rows = np.flatnonzero(rule.broken(table, rule.column))
        if rows.size:
            failed.add(rule.column)
            value = f"{rule.column}={table[rule.column].iloc[rows[0]]!s}"
            found.append(Problem(rule.text, int(rows[0]) + 1, value, rows.size))
    return found


def feature_columns(table: Any) -> tuple[list[str], list[str]]:
    """The feature columns: of the visitor, of the item."""
    found = [str(name) for name in table.columns if name not in KNOWN]
    visitor = [name for name in found if name.startswith(VISITOR)]
    return visitor, [name for name in found if name not in visitor]


def numbers(table: Any, column: str) -> Any:
    """The column as numbers, NaN for anything else, including numbers too large for a float."""
    try:
        return pandas().to_numeric(table[column], errors="coerce").astype(np.float64)
    except OverflowError:
        return pandas().to_numeric(table[column].astype(str), errors="coerce").astype(np.float64)


def is_shown(table: Any) -> BoolArray:
    """Rows whose item was shown: those with a position, or all if the log has no positions."""
    if "position" not in table.columns:
        return np.ones(len(table), dtype=bool)
    return np.asarray(table["position"].notna())


def _shape_rules(table: Any) -> Iterator[Rule]:
    """Rules for single cells."""
    for column in (name for name in IDS if name in table.columns):
        yield Rule(f"{column} must not be empty", column, lambda t, c: np.asarray(t[c].isna()))
        yield Rule(f"{column} {APART}", column, lambda t, c: not_ids(t[c]))
    for column in ("chosen", "available", "random"):
        if column in table.columns:
            yield Rule(f"{column} must be 0 or 1", column, lambda t, c: ~numbers(t, c).isin([0, 1]).to_numpy())
    if "position" in table.columns:
        rule = "position must be a whole number from 1 on, or empty for items not shown"
        yield Rule(rule, "position", lambda t, _: _bad_position(t))
    if "revenue" in table.columns:
        yield Rule(
            "revenue must be a finite number from 0 on", "revenue", lambda t, _: ~_between(t, "revenue", 0, np.inf)
        )
    if "propensity" in table.columns:
        yield Rule("propensity must be in (0, 1]", "propensity", lambda t, _: ~_between(t, "propensity", 1e-300, 1.0))
    for columns in feature_columns(table):
        for column in columns:
            yield Rule(
                f"the feature {column} must be a finite number",
                column,
                lambda t, c: ~np.isfinite(numbers(t, c).to_numpy(dtype=np.float64)),
            )


def _sense_rules(table: Any) -> Iterator[Rule]:
    """Rules that compare cells."""
    yield Rule("an item must appear only once in a round", "item", lambda t, _: _again(t, ["round", "item"]))
    yield Rule("at most one item may be chosen in a round", "chosen", lambda t, _: _second_choice(t))
    yield Rule("a chosen item must have been shown", "chosen", lambda t, _: _chosen(t) & ~is_shown(t))
    if "position" in table.columns:
        yield Rule(
            "a position must be taken once in a round",
            "position",
            lambda t, _: is_shown(t) & _again(t, ["round", "position"]),
        )
        yield Rule("a round must show something", "round", lambda t, _: _shows_nothing(t))
    if "available" in table.columns:
        yield Rule(
            "an item that was shown must be available",
            "available",
            lambda t, _: is_shown(t) & (numbers(t, "available") == 0).to_numpy(),
        )
    same = [name for name in ("person", "time", "propensity", "random") if name in table.columns]
    for column in [*same, *feature_columns(table)[0]]:
        yield Rule(f"{column} must be the same in all rows of a round", column, lambda t, c: _varies(t, c))
    if "time" in table.columns:
        yield Rule("time must not be empty", "time", lambda t, c: np.asarray(t[c].isna()))


def _bad_position(table: Any) -> BoolArray:
    value = numbers(table, "position")
    return np.asarray(table["position"].notna() & ~((value >= 1) & (value % 1 == 0)))


def _between(table: Any, column: str, low: float, high: float) -> BoolArray:
    value = numbers(table, column).to_numpy(dtype=np.float64)
    return np.asarray(np.isfinite(value) & (value >= low) & (value <= high))


def _again(table: Any, columns: list[str]) -> BoolArray:
    return np.asarray(table.duplicated(columns))


def _chosen(table: Any) -> BoolArray:
    return np.asarray(numbers(table, "chosen") == 1)


def _second_choice(table: Any) -> BoolArray:
    chosen = numbers(table, "chosen") == 1
    return np.asarray(chosen & (chosen.groupby(table["round"]).cumsum() > 1))


def _shows_nothing(table: Any) -> BoolArray:
    shown = pandas().Series(is_shown(table), index=table.index)
    return np.asarray(~shown.groupby(table["round"]).transform("any"))


def _varies(table: Any, column: str) -> BoolArray:
    first = table.groupby("round", sort=False)[column].transform("first")
    return np.asarray((table[column] != first) & ~(table[column].isna() & first.isna()))
