"""A product table as a shelf needs it: ids, features, what each product earns, and which may be shown."""

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
        ids: What the shop calls each product, (n,).
        features: What they are, (n, d2).
        revenue: What each earns, (n,); 1 where the table does not say.
        available: Which may be shown, (n,).
        group: The group of each, None where it has none; None without groups.
    """

    ids: tuple[Id, ...]
    features: FloatArray
    revenue: FloatArray
    available: BoolArray
    group: tuple[str | None, ...] | None


def revenue_of(name: str, value: Any) -> float:
    """What a product earns: a number from 0 on."""
    found = as_number(name, value)
    if found is None or found < 0:
        raise ValueError(f"{name} must be a finite number from 0 on, got {name}={value!r}")
    return found


def available_of(name: str, value: Any) -> bool:
    """Whether a product may be shown; not where the cell is empty."""
    return as_flag(name, value) or False


def ids_of(table: Table, column: str) -> tuple[Id, ...]:
    """What the shop calls each product, each name once."""
    found: Sequence[Id] = table.each(column, as_id)
    first: dict[Id, int] = {}
    for index, name in enumerate(found):
        if name in first:
            rule = f"{column} must be different in every row"
            again = f"{table.place(first[name])} and again in {table.place(index)}"
            raise ValueError(f"{rule}, got {column}={name!r} in {again}")
        first[name] = index
    return tuple(found)
