"""A product table as a shelf needs it: ids, features, revenues, and which products may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quietshelf.data.tables.cells import as_flag, as_id, as_number
from quietshelf.data.tables.reading import Table
from quietshelf.model.types import BoolArray, FloatArray, Id


@dataclass(frozen=True, eq=False)
class Products:
    """A product table as a shelf needs it.

    Attributes:
        ids: Product ids, (n,).
        features: Features, (n, d2).
        revenue: Revenues, (n,); 1 if the table does not say.
        available: Which products may be shown, (n,).
        group: The group of each product, or None; None if there are no groups at all.
    """

    ids: tuple[Id, ...]
    features: FloatArray
    revenue: FloatArray
    available: BoolArray
    group: tuple[str | None, ...] | None


def revenue_of(name: str, value: Any) -> float:
    """A product's revenue: a number from 0 on."""
    found = as_number(name, value)
    if found is None or found < 0:
        raise ValueError(f"{name} must be a finite number from 0 on, got {name}={value!r}")
    return found


def available_of(name: str, value: Any) -> bool:
    """Whether a product may be shown; an empty cell means no."""
    return as_flag(name, value) or False


def ids_of(table: Table, column: str) -> tuple[Id, ...]:
    """The product ids; refuses repeated ones."""
    found: Sequence[Id] = table.each(column, as_id)
    first: dict[Id, int] = {}
    for index, name in enumerate(found):
        if name in first:
            rule = f"{column} must be different in every row"
            again = f"{table.place(first[name])} and again in {table.place(index)}"
            raise ValueError(f"{rule}, got {column}={name!r} in {again}")
        first[name] = index
    return tuple(found)
