"""Ids of rounds, items and persons: text or whole numbers, never floats, which rounding can make equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.types import BoolArray

IDS = ("round", "item", "person")
APART = "must be all text or all whole numbers, so that ids stay distinct"


def not_ids(values: Any) -> BoolArray:
    """Which values are neither text nor a whole number, or of another kind than the first.

    >>> not_ids(["a", "b"]).any(), not_ids([7, 7.0, "7", True, None]).tolist()
    (np.False_, [False, True, True, True, True])
    """
    if getattr(getattr(values, "dtype", None), "kind", "") in ("i", "u", "U"):
        return np.zeros(len(values), dtype=bool)
    kinds = [_kind(value) for value in values]
    return np.array([not kind or kind != kinds[0] for kind in kinds], dtype=bool)


def as_ids(name: str, values: Any) -> NDArray[Any]:
    """Ids as an array, without conversion; an error names the first bad one and its row.

    >>> as_ids("person", [3.0])
    Traceback (most recent call last):
    ...
    ValueError: person must be all text or all whole numbers, ... got person=3.0 in row 1
    """
    values = values if hasattr(values, "dtype") else list(values)
    wrong = np.flatnonzero(not_ids(values))
    if wrong.size:
        place = int(wrong[0])
        raise ValueError(f"{name} {APART}, got {name}={list(values)[place]!r} in row {place + 1}")
    found = np.asarray(values)  # of fixed-width text, NumPy drops trailing NULs
    return found if found.dtype.kind in "iu" else np.asarray(values, dtype=object)


def _kind(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return ""
    return "text" if isinstance(value, str) else "number" if isinstance(value, (int, np.integer)) else ""
