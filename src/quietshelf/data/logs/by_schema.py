"""Encode a log by a schema: text, categories, flags and gaps become numbers, each cell by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from quietshelf.data.logs.files import pandas
from quietshelf.data.logs.rules import KNOWN, VISITOR
from quietshelf.data.tables import Column, Schema
from quietshelf.model.types import FloatArray, require

ITEM = "item:"
"""Prefix of item features, so that a feature called ``revenue`` is not mistaken for the item's revenue."""
SAME = {"item": "id", "revenue": "revenue", "available": "available"}
"""Columns of a log that may have the name the schema gives them."""


def by_schema(table: Any, schema: Schema, *, visitors: bool = True, before: int = 0) -> Any:
    """Encode every declared column as features; an error names the first bad cell and its row.

    Item columns have the names of the product table, visitor attributes are called ``visitor_NAME``. Scales must be
    declared: they are never measured on a log. Rows are counted from 1, plus the ``before`` rows read earlier.
    """
    unscaled = [name for name, column in schema.items.items() if not column.measured]
    rule = "every number of the schema must have a scale: measure it on the product table, or declare it"
    require(not unscaled, rule, missing=unscaled)
    own = {ours: getattr(schema, theirs) for ours, theirs in SAME.items()}
    own = {ours: theirs for ours, theirs in own.items() if ours not in table.columns and theirs in table.columns}
    known = [name for name in table.columns if name in KNOWN]
    sides = dict(schema.items)
    if visitors:
        sides |= {VISITOR + name: column for name, column in schema.visitors.items()}
    _check_columns(table, schema, sides, visitors=visitors)
    parts = [table[known], *(table[[theirs]].rename(columns={theirs: ours}) for ours, theirs in own.items())]
    for name, column in sides.items():
        prefix = ITEM if name in schema.items else ""
        if names := column.names(name):
            values = _encoded(table, name, column, before)
            parts.append(pandas().DataFrame(values, columns=[prefix + each for each in names], index=table.index))
    return pandas().concat(parts, axis=1)


def _check_columns(table: Any, schema: Schema, sides: Mapping[str, Column], *, visitors: bool) -> None:
    """Refuse undeclared columns and missing ones; visitor columns only if ``visitors``."""
    free = {*KNOWN, *sides, schema.id, schema.revenue, schema.available, schema.group}
    for name in map(str, table.columns):
        if name not in free and (visitors or not name.startswith(VISITOR)):
            side = "visitors" if name.startswith(VISITOR) else "items"
            advice = f"write {name.removeprefix(VISITOR)!r}: ignore() among {side} to leave it out"
            raise ValueError(f"every column must be declared: {advice}, got {name}={table[name].iloc[0]!s} in row 1")
    absent = [name for name, column in sides.items() if column.names(name) and name not in table.columns]
    columns = [str(name) for name in table.columns]
    require(not absent, "the log must have every declared column", missing=absent, columns=columns)


def _encoded(table: Any, name: str, column: Column, before: int) -> FloatArray:
    """The features of a column, (rows, k), each cell by itself.

    Equal texts are encoded once; only texts, because other equal cells may mean different things, as True and 1 do.
    """
    known: dict[str, list[float]] = {}
    found = []
    for row, cell in enumerate(table[name], start=before + 1):
        features = known.get(cell) if isinstance(cell, str) else None
        if features is None:
            try:
                features = column.encode(name, cell)
            except ValueError as error:
                raise ValueError(f"{error} in row {row}") from None
            if isinstance(cell, str):
                known[cell] = features
        found.append(features)
    return np.array(found, dtype=np.float64).reshape(len(table), -1)
