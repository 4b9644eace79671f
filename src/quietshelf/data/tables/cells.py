"""Parse one cell of a table as a number, flag, level, vector or id, or say which rule it breaks."""

from __future__ import annotations

import json
import math
import sys
from decimal import Decimal
from typing import Any

import numpy as np

from quietshelf.model.types import Id, require

FLAGS = {"true": True, "t": True, "yes": True, "y": True, "1": True, "1.0": True} | {
    "false": False, "f": False, "no": False, "n": False, "0": False, "0.0": False
}  # fmt: skip
LARGEST = sys.float_info.max
NUMBERS = (int, float, Decimal, np.integer, np.floating)


def is_missing(value: Any) -> bool:
    """Whether a cell is missing: None, NaN, NA, or blank text.

    >>> [is_missing(value) for value in (None, float("nan"), " ", 0, "0", False)]
    [True, True, True, False, False, False]
    """
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, (float, np.floating, Decimal)):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def as_number(name: str, value: Any) -> float | None:
    """A finite number, or None if missing.

    >>> as_number("price", "2.5"), as_number("price", "")
    (2.5, None)
    >>> as_number("price", "2,5")
    Traceback (most recent call last):
    ...
    ValueError: price must be a finite number, got price='2,5'
    """
    if is_missing(value):
        return None
    found = math.inf
    if isinstance(value, (*NUMBERS, str)) and not isinstance(value, bool):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = math.inf
    require(not math.isinf(found), f"{name} must be a finite number", **{name: value})
    return None if math.isnan(found) else found


def as_flag(name: str, value: Any) -> bool | None:
    """True or false, or None if missing.

    >>> as_flag("vegan", "Yes"), as_flag("vegan", 0), as_flag("vegan", None)
    (True, False, None)
    >>> as_flag("vegan", "maybe")
    Traceback (most recent call last):
    ...
    ValueError: vegan must be true or false, yes or no, 1 or 0, got vegan='maybe'
    """
    if is_missing(value):
        return None
    plain = isinstance(value, (bool, np.bool_, str, *NUMBERS))
    found = FLAGS.get(str(value).strip().lower()) if plain else None
    require(found is not None, f"{name} must be true or false, yes or no, 1 or 0", **{name: value})
    return found


def as_level(name: str, value: Any) -> str | None:
    """A category level as text, the same from every source; None if missing.

    >>> as_level("stars", 3), as_level("stars", 3.0), as_level("stars", " 3"), as_level("stars", None)
    ('3', '3', '3', None)
    """
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    is_whole = isinstance(value, (int, np.integer)) or (
        isinstance(value, NUMBERS) and math.isfinite(value) and value == int(value)
    )
    require(is_whole, f"{name} must be text or a whole number", **{name: value})
    return str(int(value))


def as_vector(name: str, value: Any, dim: int) -> list[float] | None:
    """A list of ``dim`` finite numbers, written ``[0.1, 0.2]`` in a CSV; None if missing.

    >>> as_vector("style", "[0.5, 1]", 2)
    [0.5, 1.0]
    >>> as_vector("style", [0.5], 2)
    Traceback (most recent call last):
    ...
    ValueError: style must be a list of 2 finite numbers, got style=[0.5]
    """
    if is_missing(value):
        return None
    rule = f"{name} must be a list of {dim} finite numbers"
    parts = listed(value)
    if parts is None or len(parts) != dim:
        raise ValueError(f"{rule}, got {name}={value!r}")
    try:
        found = [None if isinstance(part, str) else as_number(name, part) for part in parts]
    except ValueError:
        found = [None]
    numbers = [x for x in found if x is not None]
    require(len(numbers) == dim, rule, **{name: value})
    return numbers


def listed(value: Any) -> list[Any] | None:
    """A list from a list, tuple, array or JSON text; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple)) else None


def as_id(name: str, value: Any) -> Id:
    """A product id: text or a whole number, unchanged.

    >>> as_id("sku", "0012"), as_id("sku", 12)
    ('0012', 12)
    >>> as_id("sku", 1.5)
    Traceback (most recent call last):
    ...
    ValueError: sku must be text or a whole number, got sku=1.5
    """
    if isinstance(value, np.integer):
        value = int(value)
    good = isinstance(value, (str, int)) and not isinstance(value, bool) and not is_missing(value)
    require(good, f"{name} must be text or a whole number", **{name: value})
    found: Id = value
    return found


def three_digits(x: float) -> float:
    """Round to three significant digits, for people to read.

    >>> three_digits(12.3456)
    12.3
    """
    return float(f"{x:.3g}")
