"""What tells rounds, items and persons apart: text or whole numbers, never figures that rounding makes equal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.types import BoolArray

IDS = ("round", "item", "person")
APART = "must be text or whole numbers, one of them throughout, so that ids stay apart"


def not_ids(values: Any) -> BoolArray:
    """Which are neither text nor a whole number, or not what the first one is.

    >>> not_ids(["a", "b"]).any(), not_ids([7, 7.0, "7", True, None]).tolist()
    (np.False_, [False, True, True, True, True])
    """
    if getattr(getattr(values, "dtype", None), "kind", "") in ("i", "u", "U"):
        return np.zeros(len(values), dtype=bool)
    kinds = [_kind(value) for value in values]
    return np.array([not kind or kind != kinds[0] for kind in kinds], dtype=bool)


def as_ids(name: str, values: Any) -> NDArray[Any]:
    """An array of ids, in which each is still itself; the first that is none is refused with its row.

    >>> as_ids("person", [3.0])
    Traceback (most recent call last):
    ...
    ValueError: person must be text or whole numbers, one of them throughout, ... got person=3.0 in row 1
    """
    values = values if hasattr(values, "dtype") else list(values)
    wrong = np.flatnonzero(not_ids(values))
    if wrong.size:
        place = int(wrong[0])
        raise ValueError(f"{name} {APART}, got {name}={list(values)[place]!r} in row {place + 1}")
    found = np.asarray(values)
    return found if found.dtype.kind in "iu" else np.asarray(values, dtype=object)  # fixed-width text drops a last NUL


def _kind(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return ""
    return "text" if isinstance(value, str) else "number" if isinstance(value, (int, np.integer)) else ""
