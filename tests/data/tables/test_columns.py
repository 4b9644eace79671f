"""What a declared column makes of a cell, and what it refuses."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from quietshelf.data.tables import Column, category, embedding, flag, ignore, log_number, number

MISSING = [None, "", "  ", math.nan, np.nan, pd.NA, pd.NaT, Decimal("NaN")]


@pytest.mark.parametrize("missing", MISSING)
def test_missing_cells_have_a_defined_place(missing: Any) -> None:
    """The centre, the reference, false, zeros; or a feature of their own where that was asked."""
    assert number(scale=2.0, centre=5.0).encode("x", missing) == [0.0]
    assert number(scale=2.0, centre=5.0, missing=True).encode("x", missing) == [0.0, 1.0]
    assert log_number(scale=2.0, missing=True).encode("x", missing) == [0.0, 1.0]
    assert category(["a", "b"]).encode("x", missing) == [0.0]
    assert category(["a", "b"], other=True).encode("x", missing) == [0.0, 1.0]
    assert flag().encode("x", missing) == [0.0]
    assert flag(missing=True).encode("x", missing) == [0.0, 1.0]
    assert embedding(2).encode("x", missing) == [0.0, 0.0]


@pytest.mark.parametrize("value", [7, 7.0, "7", " 7 ", np.int64(7), np.float32(7), Decimal(7)])
def test_a_number_is_the_same_from_every_source(value: Any) -> None:
    """Text of a CSV, numbers of Python, NumPy and databases."""
    assert number(scale=2.0, centre=5.0).encode("x", value) == [1.0]
    assert category([6, 7]).encode("x", value) == [1.0]


@pytest.mark.parametrize("value", [True, "true", "YES", "1", 1, 1.0, np.True_, "t"])
def test_a_flag_is_the_same_from_every_source(value: Any) -> None:
    """However it is written."""
    assert flag().encode("x", value) == [1.0]


def test_an_unknown_level_has_a_defined_place() -> None:
    """The reference, or "other"."""
    assert category(["tea", "coffee"]).encode("kind", "mate") == [0.0]
    other = category(["tea", "coffee"], other=True)
    assert other.encode("kind", "mate") == [0.0, 1.0]
    assert other.names("kind") == ["kind=coffee", "kind=other"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (number(scale=1), "cheap", "x must be a finite number, got x='cheap'"),
        (number(scale=1), "inf", "x must be a finite number, got x='inf'"),
        (number(scale=1), 10**400, "x must be a finite number, got x=1000"),
        (number(scale=1), True, "x must be a finite number, got x=True"),
        (number(scale=1), [1], r"x must be a finite number, got x=\[1\]"),
        (number(), 3, r"x must have a scale, declared or measured, got x: number\(\)"),
        (log_number(scale=1), 0, "x must be positive to have a logarithm, got x=0"),
        (category(["a", "b"]), 1.5, "x must be text or a whole number, got x=1.5"),
        (category(["a", "b"]), ["a"], r"x must be text or a whole number, got x=\['a'\]"),
        (flag(), "maybe", "x must be true or false, yes or no, 1 or 0, got x='maybe'"),
        (flag(), 2, "x must be true or false, yes or no, 1 or 0, got x=2"),
        (embedding(2), [1.0], r"x must be a list of 2 finite numbers, got x=\[1.0\]"),
        (embedding(2), [1.0, math.nan], "x must be a list of 2 finite numbers"),
        (embedding(2), "1 2", "x must be a list of 2 finite numbers, got x='1 2'"),
    ],
)
def test_a_wrong_cell_is_refused_with_rule_and_value(column: Column, value: Any, message: str) -> None:
    """Never guessed at."""
    with pytest.raises(ValueError, match=f"^{message}"):
        column.encode("x", value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: number(scale=0), "scale must be positive and finite, got scale=0"),
        (lambda: number(scale=1, centre=math.nan), "centre must be finite"),
        (lambda: number(scale=1, missing=cast("bool", 1)), "missing must be True or False, got missing=1"),
        (lambda: category("ab"), "levels must be a list, got levels='ab'"),
        (lambda: category(["a"]), r"levels must be at least two levels, or one with other=True, got levels=\['a'\]"),
        (lambda: category([], other=True), r"levels must be at least one level, got levels=\[\]"),
        (lambda: category(["a", "b", "a"]), r"levels must be different, got twice=\['a'\]"),
        (lambda: category(["1", 1]), r"levels must be different, got twice=\['1'\]"),
        (lambda: category(["a", ""]), "a level must not be empty"),
        (lambda: category(["a", "other"], other=True), 'levels must not hold "other" with other=True'),
        (lambda: embedding(0), "dim must be between 1 and 10000, got dim=0"),
        (lambda: embedding(10**9), "dim must be between 1 and 10000, got dim=1000000000"),
        (lambda: embedding(2, scale=-1), "scale must be positive and finite, got scale=-1"),
        (lambda: ignore("two\nlines"), "why must be one line of text"),
    ],
)
def test_a_wrong_declaration_is_refused(make: Any, message: str) -> None:
    """When it is written, not when it is used."""
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


def test_measuring_gives_mean_and_spread_to_three_digits() -> None:
    """What was declared stays."""
    assert number().measure([1.0, 3.0, None, 5.00001]) == number(scale=1.63, centre=3.0)
    assert number(centre=0.0).measure([1.0, 3.0]) == number(scale=1.0, centre=0.0)
    assert number().measure([4.0, 4.0]) == number(scale=1.0, centre=4.0)
