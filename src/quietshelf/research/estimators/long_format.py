"""A long table, one row per round and item shown -> the arrays that `ChoiceModel` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quietshelf.data.logs.ids import as_ids
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray, as_float, require


class LongRounds(NamedTuple):
    """The arguments of `ChoiceModel.fit`.

    Attributes:
        X: Features (n, J, d), NaN in places that were not offered.
        y: Place chosen, (n,), -1 for none.
        groups: Person ids, (n,), or None.
    """

    X: FloatArray
    y: IntArray
    groups: NDArray[Any] | None


def from_long(
    table: Any,
    *,
    round: str,  # noqa: A002 - the noun on the arrow
    chosen: str,
    features: Sequence[str],
    person: str | None = None,
) -> LongRounds:
    """Make arrays from a DataFrame (pandas or polars) or a dict of columns, with one row per round and item shown.

    >>> table = {"visit": [7, 7, 9], "bought": [0, 1, 0], "price": [10.0, 12.0, 8.0]}
    >>> found = from_long(table, round="visit", chosen="bought", features=["price"])
    >>> found.X[..., 0].tolist(), found.y.tolist()
    ([[10.0, 12.0], [8.0, nan]], [1, -1])

    Args:
        table: The rows, in any order; rounds keep their order of first appearance.
        round: Column of round ids: text or whole numbers.
        chosen: Column that is true in the chosen row; at most one per round.
        features: Columns of X, in this order.
        person: Column of person ids, text or whole numbers, the same in all rows of a round.
    """
    ids = as_ids(round, _cells(table, round))
    _, first, code = np.unique(ids, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[code]
    place = _places(number, len(first))
    values = np.column_stack([as_float(name, _column(table, name)) for name in features])
    X = np.full((len(first), int(place.max(initial=0)) + 1, len(features)), np.nan)
    X[number, place] = values
    taken = np.flatnonzero(_truth(chosen, _column(table, chosen)))
    twice = taken[np.bincount(number[taken], minlength=len(first))[number[taken]] > 1]
    require(not twice.size, f"{chosen} must be true in one row of a round at most", **_at(round, ids, twice))
    y = np.full(len(first), NOTHING)
    y[number[taken]] = place[taken]
    return LongRounds(X, y, None if person is None else _persons(table, person, round, ids, number))


def _places(number: IntArray, count: int) -> IntArray:
    """The place of each row among those of its round, in the order of the table."""
    order = np.argsort(number, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=count))])
    place = np.empty(number.size, dtype=np.int64)
    place[order] = np.arange(number.size) - start[number[order]]
    return place


def _persons(table: Any, person: str, round: str, ids: NDArray[Any], number: IntArray) -> NDArray[Any]:  # noqa: A002
    who = as_ids(person, _cells(table, person))
    _, first = np.unique(number, return_index=True)
    other = np.flatnonzero(who != who[first][number])
    require(not other.size, f"{person} must be the same in all rows of a round", **_at(round, ids, other))
    return np.asarray(who[first])


def _column(table: Any, name: str) -> NDArray[Any]:
    return np.asarray(_cells(table, name))


def _cells(table: Any, name: str) -> Any:
    names = list(table.columns) if hasattr(table, "columns") else list(table)
    require(name in names, f"the table must have the column {name!r}", columns=names)
    return table[name]


def _truth(name: str, values: NDArray[Any]) -> BoolArray:
    wrong = np.flatnonzero(~np.isin(values, [0, 1]))
    require(not wrong.size, f"{name} must be 0 or 1", row=wrong[:1].tolist(), value=values[wrong[:1]].tolist())
    return values.astype(bool)


def _at(round: str, ids: NDArray[Any], rows: IntArray) -> dict[str, Any]:  # noqa: A002
    return {round: ids[rows[:1]].tolist()[0]} if rows.size else {}
