"""`Schema`: a declaration of what product columns and visitor attributes mean."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.data.tables.cells import as_level
from quietshelf.data.tables.columns import Column, category, ignore, number
from quietshelf.data.tables.kinds import KINDS, column_from
from quietshelf.data.tables.products import Products, available_of, ids_of, revenue_of
from quietshelf.data.tables.reading import Table, read_table
from quietshelf.model.types import FloatArray, require

VERSION = 1
SPECIAL = ("id", "revenue", "available", "group")
SIDES = ("items", "visitors")


class UnknownLevel(UserWarning):
    """A product has a level that its category does not list."""


@dataclass(frozen=True, repr=False)
class Schema:
    """What columns mean. Scales of visitor attributes are declared, never measured.

    >>> from quietshelf.data.tables import category, number
    >>> schema = Schema(
    ...     id="sku",
    ...     items={"price": number(scale=2, centre=5), "kind": category(["tea", "coffee"])},
    ...     visitors={"age": number(scale=15, centre=40)},
    ... )
    >>> schema.item_names, schema.visitor({"age": 55})
    (('price', 'kind=coffee'), array([1.]))
    >>> schema.products([{"sku": "a-1", "price": 7, "kind": "coffee"}]).features
    array([[1., 1.]])

    Args:
        items: The columns of the product table, by name.
        visitors: The attributes of a visitor, by name.
        id: The column of product ids.
        revenue: The column of revenues; without one, every product earns 1.
        available: The column that says whether a product may be shown; without one, all may.
        group: The column of groups, for limits. Like the revenue, it may also be among ``items``.
    """

    items: Mapping[str, Column]
    visitors: Mapping[str, Column] = field(default_factory=dict)
    id: str = "id"
    revenue: str | None = None
    available: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for side in ("items", "visitors"):
            _check_columns(side, getattr(self, side))
            object.__setattr__(self, side, dict(getattr(self, side)))
        require(isinstance(self.id, str), "id must be the name of a column", id=self.id)
        for name in self._special:
            require(isinstance(name, str) and name != "", "a special column must be given by its name", column=name)
            require(
                self._special.count(name) == 1, "id, revenue, available and group must be different columns", twice=name
            )
        require(self.id not in self.items, "the id must not be among items", id=self.id)
        unscaled = [name for name, column in self.visitors.items() if not column.measured]
        if unscaled:
            rule = f"the scale of visitors' {unscaled[0]} must be declared: it is never measured on visitors"
            kind = self.visitors[unscaled[0]].kind
            raise ValueError(f"{rule}; write {unscaled[0]!r}: {kind}(scale=..., centre=...) with what you know of them")
        names = Counter([*self.item_names, *self.visitor_names])
        twice = sorted(name for name, times in names.items() if times > 1)
        require(not twice, "features must have different names", twice=twice)

    @cached_property
    def item_names(self) -> tuple[str, ...]:
        """Names of the item features, (d2,)."""
        return _names(self.items)

    @cached_property
    def visitor_names(self) -> tuple[str, ...]:
        """Names of the visitor features, (d1,)."""
        return _names(self.visitors)

    @cached_property
    def visitor_scale(self) -> FloatArray:
        """Declared standard deviation of each visitor feature, (d1,)."""
        return np.array([scale for column in self.visitors.values() for scale in column.scales], dtype=np.float64)

    @cached_property
    def item_scale(self) -> FloatArray:
        """Declared standard deviation of each item feature, (d2,)."""
        return np.array([scale for column in self.items.values() for scale in column.scales], dtype=np.float64)

    @cached_property
    def places(self) -> dict[str, slice]:
        """The slice of features of each item column."""
        ends = np.cumsum([0, *(len(column.names(name)) for name, column in self.items.items())]).tolist()
        return {name: slice(*ends[place : place + 2]) for place, name in enumerate(self.items)}

    @property
    def _special(self) -> list[str]:
        """The columns with a special meaning."""
        return [name for name in (getattr(self, each) for each in SPECIAL) if name is not None]

    def earned(self, row: Mapping[str, Any]) -> float:
        """The revenue of the product in one row; 1 without a revenue column."""
        return 1.0 if self.revenue is None else revenue_of(self.revenue, row.get(self.revenue))

    def may_be_shown(self, row: Mapping[str, Any]) -> bool:
        """Whether the product in one row may be shown; yes without such a column."""
        return self.available is None or available_of(self.available, row.get(self.available))

    def visitor(self, attributes: Mapping[str, Any]) -> FloatArray:
        """The features of one visitor, (d1,). Absent attributes are missing; undeclared ones are refused."""
        require(isinstance(attributes, Mapping), "a visitor must be a mapping of attributes", visitor=attributes)
        strange = [name for name in attributes if name not in self.visitors]
        if strange:
            known = ", ".join(self.visitors) or "none: this schema declares no visitors"
            require(False, f"a visitor's attributes must be among those declared ({known})", unknown=strange)
        get = attributes.get
        return np.array([x for name, column in self.visitors.items() for x in column.encode(name, get(name))])

    def products(self, table: Any, *, separator: str | None = None) -> Products:
        """A product table as a shelf needs it; an error names the first bad cell and its row."""
        read = self._checked(read_table(table, separator=separator))
        for name, column in self.items.items():
            rule = f"{name} must have a scale: declare it, or use schema.measured(products)"
            require(column.measured, rule, **{name: column})
        kept = {name: column for name, column in self.items.items() if column.names(name)}
        self._warn(read)
        count, every = len(read.rows), np.ones(len(read.rows))
        blocks = [np.array(read.each(name, column.encode), dtype=np.float64) for name, column in kept.items()]
        return Products(
            ids=ids_of(read, self.id),
            features=np.concatenate([np.empty((count, 0)), *blocks], axis=1),
            revenue=every if self.revenue is None else np.array(read.each(self.revenue, revenue_of)),
            available=every > 0 if self.available is None else np.array(read.each(self.available, available_of)),
            group=None if self.group is None else tuple(read.each(self.group, as_level)),
        )

    def measured(self, table: Any, *, separator: str | None = None) -> Schema:
        """The schema with missing item scales measured on a public product table."""
        read = self._checked(read_table(table, separator=separator))
        items = {
            name: column.measure(read.each(name, column.value))
            if isinstance(column, number) and not column.measured
            else column
            for name, column in self.items.items()
        }
        return replace(self, items=items)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the inverse of ``from_dict``."""
        special = {name: value for name in SPECIAL if (value := getattr(self, name)) is not None}
        sides = {side: {name: column.to_dict() for name, column in getattr(self, side).items()} for side in SIDES}
        return {"version": VERSION, **special, **sides}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Schema:
        """A schema from plain data, checked."""
        require(isinstance(given, Mapping), "a schema must be an object with items and visitors", schema=given)
        version = given.get("version")
        require(version == VERSION, f"the version of a schema must be {VERSION}", version=version)
        strange = sorted(set(given) - {"version", *SPECIAL, *SIDES})
        require(not strange, f"a schema has {', '.join((*SPECIAL, *SIDES))}", unknown=strange)
        require("items" in given, "a schema must have items", given=sorted(given))
        for side in SIDES:
            require(isinstance(given.get(side, {}), Mapping), f"{side} must be an object", **{side: given.get(side)})
            strange_names = [name for name in given.get(side, {}) if not isinstance(name, str)]
            require(not strange_names, f"a name in {side} must be text", names=strange_names)
        items, visitors = (
            {name: column_from(name, column) for name, column in given.get(side, {}).items()} for side in SIDES
        )
        return cls(items, visitors, **{name: given[name] for name in SPECIAL if name in given})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema as readable JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a file written by ``save``."""
        require(Path(path).is_file(), "the file of a schema must exist", path=str(path))
        try:
            given = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} must be a schema in JSON: {error}") from None
        return cls.from_dict(given)

    def __repr__(self) -> str:
        """The declaration as Python code."""
        special = [f"    {name}={value!r}," for name in SPECIAL if (value := getattr(self, name)) is not None]
        sides = [line for side in SIDES if (line := _declared(side, getattr(self, side)))]
        return "\n".join(["Schema(", *special, *sides, ")"])

    def _warn(self, table: Table) -> None:
        """Warn about product levels that a category does not list: new ones, or typos."""
        for name, column in self.items.items():
            if isinstance(column, category) and not column.other:
                known = {*column.levels, None}
                levels = table.each(name, as_level)
                strange = [index for index, level in enumerate(levels) if level not in known]
                if strange:
                    where = f"{name}={levels[strange[0]]!r} in {table.place(strange[0])}"
                    more = f" and {len(strange) - 1:,} more" if len(strange) > 1 else ""
                    first = next(iter(column.levels))
                    told = f"counted as {first!r}, the first level, because other=True is not declared"
                    warnings.warn(f"{where}{more}: {told}", UnknownLevel, stacklevel=4)

    def _checked(self, table: Table) -> Table:
        """Refuse undeclared columns and missing ones."""
        known = {*self.items, *self._special}
        for name in table.columns:
            if name not in known:
                index = next(index for index, row in enumerate(table.rows) if name in row)
                rule = f"every column must be declared: write {name!r}: ignore() to leave it out"
                raise ValueError(f"{rule}, got {name}={table.rows[index][name]!r} in {table.place(index)}")
        needed = [*self._special, *(name for name, column in self.items.items() if column.kind != ignore.kind)]
        absent = [name for name in dict.fromkeys(needed) if name not in table.columns]
        require(not absent, "the table must have every declared column", missing=absent, columns=list(table.columns))
        return table


def as_schema(given: Schema | Mapping[str, Any] | str | os.PathLike[str]) -> Schema:
    """A schema from itself, its plain data, or the path of its file."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Schema.load(given)
    return Schema.from_dict(given)


def _check_columns(side: str, columns: Any) -> None:
    require(isinstance(columns, Mapping), f"{side} must be a mapping of names to columns", **{side: columns})
    for name, column in columns.items():
        require(isinstance(name, str) and name.strip() != "", f"a name in {side} must be text", name=name)
        rule = f"{name} must be declared as one of {', '.join(f'{kind}()' for kind in KINDS)}"
        require(isinstance(column, Column), rule, **{name: column})


def _names(columns: Mapping[str, Column]) -> tuple[str, ...]:
    return tuple(feature for name, column in columns.items() for feature in column.names(name))


def _declared(side: str, columns: Mapping[str, Column]) -> str:
    """One side of the declaration, a line per column; why one is left out is said beside it."""
    if not columns and side == "visitors":
        return ""
    lines = []
    for name, column in columns.items():
        why = f"  # {column.why}" if isinstance(column, ignore) and column.why else ""
        lines.append(f"        {name!r}: {'ignore()' if why else repr(column)},{why}")
    return "\n".join([f"    {side}={{", *lines, "    },"]) if lines else f"    {side}={{}},"
