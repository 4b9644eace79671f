"""A shelf's items from product tables: the first ones, later ones, and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.curation.stock import Stock, named_items
from quietshelf.data.tables import Products, Schema, read_table
from quietshelf.data.tables.cells import as_level
from quietshelf.model.types import FloatArray, Id, IntArray, finite, integer, require

Limits = int | Mapping[str, int] | None
"""The most items shown of every group, or of each by name. A group without an entry has no limit."""


@dataclass(frozen=True, eq=False)
class Items:
    """What a shelf is told about its items.

    Attributes:
        ids: Their ids; None if indices are the ids.
        count: N.
        features: Their features, (N, d2); None if each offer brings those of every item.
        popular: Whether items have only ids: each then has an effect and no features.
    """

    ids: tuple[Id, ...] | None
    count: int
    features: FloatArray | None
    popular: bool


def items_of(items: Any, dim: int | None, catalogue: ArrayLike | None) -> Items:
    """Check a shelf's arguments about items."""
    ids = None if items is None or isinstance(items, (int, float, np.number)) else named_items(items)
    popular = ids is not None and dim is None and catalogue is None
    dense, given = catalogue is None and not popular, items is not None
    fits = given and dim is not None if dense else dim is None and given == (ids is not None)
    require(fits, "give either items and dim, or a catalogue, or ids of items alone")
    features = None
    if not dense:
        told = np.zeros((len(ids or ()), 0)) if catalogue is None else catalogue
        features = np.array(finite("catalogue", told, shape=(None, None)), order="F")
    count = integer("items", len(features) if features is not None else items if ids is None else len(ids))
    require(ids is None or len(ids) == count, f"items must have an id for each of {count}", ids=len(ids or ()))
    return Items(ids, count, features, popular)


def check_schema(schema: Schema | None, items: Items, visitor_dim: int) -> None:
    """Refuse a schema that does not match the features."""
    if schema is None:
        return
    if items.features is None:
        raise ValueError("schema needs a catalogue: this shelf gets features with each offer")
    have, want = items.features.shape[1], len(schema.item_names)
    require(items.popular or have == want, f"catalogue must have the {want} features of the schema", features=have)
    want = len(schema.visitor_names)
    require(visitor_dim == want, f"visitor_dim must be that of the schema, {want}", visitor_dim=visitor_dim)


def grouped(products: Products, limits: Limits) -> dict[str, Any]:
    """Groups and limits as `Shelf` takes them, and the names of the groups."""
    if products.group is None:
        require(limits is None, "limits need a schema with group=..., the column that names groups", limits=limits)
        return {"groups": None, "limits": None, "names": None}
    there = tuple(sorted({name for name in products.group if name is not None}))
    if isinstance(limits, int):
        limits = dict.fromkeys(there, limits)
    if limits is None:
        raise ValueError(f"limits must be given for the groups, as in limits={{{there[0]!r}: 2}}, got limits=None")
    named = {str(name): integer(f"limit of {name}", most, low=0) for name, most in limits.items()}
    strange = [name for name in named if name not in there]
    require(not strange, f"limits must name groups of the table ({', '.join(there)})", unknown=strange)
    return {
        "groups": numbered(products, tuple(named)),
        "limits": np.array(list(named.values()), dtype=np.int64),
        "names": tuple(named),
    }


def numbered(products: Products, names: tuple[str, ...]) -> IntArray:
    """The number of each product's group, -1 if it has no limit."""
    return np.array([_number(name, names) for name in products.group or ()], dtype=np.int64)


def _number(group: str | None, names: tuple[str, ...]) -> int:
    return names.index(group) if group in names else -1


def with_rows(stock: Stock, schema: Schema, rows: Any) -> Stock:
    """Add the products of another table to the stock."""
    table = read_table(rows)
    new = schema.products(table)
    for index, name in enumerate(new.ids):
        rule = f"{schema.id} must be new to the shelf, got {schema.id}={name!r} in {table.place(index)}"
        require(name not in stock.numbers, rule)
    group = None if stock.groups is None else numbered(new, stock.group_names or ())
    more = stock.with_more(new.features, new.revenue, group, new.ids)
    return replace(more, available=np.concatenate([stock.available, new.available]))


def with_changes(stock: Stock, schema: Schema, item: Id, row: Mapping[str, Any]) -> Stock:
    """Change some columns of one product in the stock."""
    index, features = stock.known(item), None
    special = (schema.revenue, schema.available, schema.group)
    known = list(dict.fromkeys([*schema.items, *(name for name in special if name is not None)]))
    strange = [name for name in row if name not in known]
    require(not strange, f"columns that change must be among those declared ({', '.join(known)})", unknown=strange)
    if stock.catalogue is not None:
        features = stock.catalogue[index].copy()
        for name in schema.items.keys() & row.keys():
            features[schema.places[name]] = schema.items[name].encode(name, row[name])
    if stock.groups is not None and schema.group is not None and schema.group in row:
        groups = stock.groups.copy()
        groups[index] = _number(as_level(schema.group, row[schema.group]), stock.group_names or ())
        stock = replace(stock, groups=groups)
    return stock.changed(
        item,
        features=features,
        revenue=schema.earned(row) if schema.revenue in row else None,
        available=schema.may_be_shown(row) if schema.available in row else None,
    )
