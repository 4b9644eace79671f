"""A product table as items for the service: text ids and JSON attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quietshelf.data.tables.cells import as_flag, as_level, as_number, as_vector
from quietshelf.data.tables.columns import Column, embedding
from quietshelf.data.tables.reading import read_table
from quietshelf.data.tables.schema import Schema

READ: dict[str, Callable[[str, Any], Any]] = {
    "number": as_number, "log_number": as_number, "category": as_level, "flag": as_flag
}  # fmt: skip


def service_items(products: Any, schema: Schema, *, separator: str | None = None) -> list[dict[str, Any]]:
    """The items of a product table for ``PUT /v1/shelves/{shelf}/items``, on a shelf with this schema.

    Every cell is checked here, where errors can name its row. Ignored columns are not sent.

    >>> from quietshelf.data.tables import number
    >>> schema = Schema({"price": number(scale=2)}, id="sku", revenue="margin")
    >>> service_items([{"sku": 17, "price": "4.5", "margin": 2}], schema)
    [{'id': '17', 'attributes': {'price': 4.5, 'margin': 2.0}}]

    Args:
        products: A data frame, an Arrow table, a path to CSV or Parquet, or a list of dicts.
        schema: What its columns mean.
        separator: Separator of a CSV file; detected in its first line if left out.
    """
    table = read_table(products, separator=separator)
    ids = [str(name) for name in schema.products(table).ids]
    if len(set(ids)) < len(ids):
        again = next(index for index, name in enumerate(ids) if name in ids[:index])
        rule = f"{schema.id} must be different in every row as text"
        raise ValueError(f"{rule}, got {schema.id}={ids[again]!r} again in {table.place(again)}")
    special = {schema.revenue: as_number, schema.available: as_flag, schema.group: as_level}
    reads = {name: read for name, column in schema.items.items() if (read := _reader(column)) is not None}
    reads |= {name: read for name, read in special.items() if name is not None and name not in reads}
    cells = {name: table.each(name, read) for name, read in reads.items()}
    return [
        {"id": name, "attributes": {column: found[index] for column, found in cells.items()}}
        for index, name in enumerate(ids)
    ]


def _reader(column: Column) -> Callable[[str, Any], Any] | None:
    """The function that turns a cell into plain data; None for an ignored column."""
    if isinstance(column, embedding):
        return lambda name, value: as_vector(name, value, column.dim)
    return READ.get(column.kind)
