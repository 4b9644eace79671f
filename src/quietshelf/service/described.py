"""What a shelf's schema makes of its settings, its items and its coordinates; without one, names by their places."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sqlalchemy import Connection

from quietshelf.accounting import rho_from
from quietshelf.choice.maps import feature_map
from quietshelf.curation.settings import declared_dim
from quietshelf.service.learning import Row
from quietshelf.service.models import LARGEST_DIM, LARGEST_RHO, SMALLEST_RHO, ItemBody, ShelfBody, is_text
from quietshelf.service.problems import Invalid
from quietshelf.service.views import item_rows
from quietshelf.tables import Schema
from quietshelf.tables.cells import as_level
from quietshelf.types import FloatArray, require


def settled(body: ShelfBody) -> ShelfBody:
    """The settings with what follows from others written out; `Invalid` where they contradict each other."""
    try:
        rho = rho_from(body.rho, body.epsilon, body.delta)
        rule = f"rho must be between {SMALLEST_RHO:g} and {LARGEST_RHO:g}"
        require(SMALLEST_RHO <= rho <= LARGEST_RHO, rule, rho=rho)
        changes: dict[str, Any] = {"rho": rho, "epsilon": None, "delta": None}
        if body.columns is not None:
            changes |= _by_schema(body, Schema.from_dict(body.columns))
        body = body.model_copy(update=changes)
        dim = declared_dim(body.feature_map, body.visitor_dim, body.visitor_scale)
        require(dim <= LARGEST_DIM, f"visitor_dim must be at most {LARGEST_DIM}", visitor_dim=dim)
    except ValueError as error:
        raise Invalid(str(error)) from None
    return body.model_copy(update={"visitor_dim": dim})


def same_schema(one: ShelfBody, other: ShelfBody) -> bool:
    """Whether both declare the same; why a column is left out, and the order of columns, are no part of it."""
    if one.columns is None or other.columns is None:
        return False
    return Schema.from_dict(one.columns) == Schema.from_dict(other.columns)


def _by_schema(body: ShelfBody, schema: Schema) -> dict[str, Any]:
    """The settings that a schema decides."""
    require(is_text(json.dumps(body.columns, ensure_ascii=False)), "schema must be text that UTF-8 can hold")
    for name, column in schema.items.items():
        rule = f"{name} must have its scale written out: `quietshelf schema` measures it on your table"
        require(column.measured, rule, **{name: column})
    told = bool(schema.item_names) or body.item_effects > 0
    require(told, "the items of a schema must make a feature, or item_effects be set", items=sorted(schema.items))
    count, scale = len(schema.visitor_names), schema.visitor_scale
    rule = f"visitor_dim must be left out, or be that of the schema, {count}"
    require(body.visitor_dim in (None, count), rule, visitor_dim=body.visitor_dim)
    if count and "visitor_scale" in body.model_fields_set:
        given = np.array([] if body.visitor_scale is None else body.visitor_scale)
        same = given.shape in ((), scale.shape) and bool((given == scale).all())
        rule = f"visitor_scale must be left out, or be that of the schema, {scale.tolist()}"
        require(same, rule, visitor_scale=body.visitor_scale)
    name = body.feature_map if "feature_map" in body.model_fields_set else "full" if count else "item"
    shape = feature_map(name, intercept=body.intercept, effects=body.item_effects)
    dim = shape.dim(count, len(schema.item_names))
    rule = f"schema and feature map must give 1 to {LARGEST_DIM} coordinates"
    require(1 <= dim <= LARGEST_DIM, rule, coordinates=dim, feature_map=name)
    scales = {"visitor_scale": scale.tolist()} if count else {}
    return {"columns": schema.to_dict(), "visitor_dim": count, "feature_map": name, **scales}


def encoded(schema: Schema | None, body: ItemBody, known: Row | None) -> ItemBody:
    """An item whose attributes have become features, revenue, availability and group; what is given by itself wins."""
    given = body.attributes
    if given is None:
        return body
    where = f"for item={body.id!r}"
    if schema is None:
        raise Invalid(f"attributes need a shelf with a schema, got attributes={given!r} {where}")
    if body.features is not None:
        raise Invalid(f"an item must have features or attributes, got both {where}")
    special = [name for name in (schema.revenue, schema.available, schema.group) if name is not None]
    strange = [name for name in given if name not in schema.items and name not in special]
    if strange:
        declared = ", ".join(dict.fromkeys([*schema.items, *special]))
        raise Invalid(f"attributes must be among the columns declared ({declared}), got unknown={strange} {where}")
    try:
        found = _columns(schema, given, known)
    except ValueError as error:
        raise Invalid(f"{error} {where}") from None
    own = body.model_dump(exclude_none=True, exclude={"attributes"})
    return body.model_copy(update={"attributes": None, **found, **own})


def _columns(schema: Schema, given: dict[str, Any], known: Row | None) -> dict[str, Any]:
    """What attributes say; of a known item, columns that are not among them stay."""
    features = np.zeros(len(schema.item_names)) if known is None else np.frombuffer(known["features"]).copy()
    for name, column in schema.items.items():
        if known is None or name in given:
            features[schema.places[name]] = column.encode(name, given.get(name))
    found: dict[str, Any] = {"features": features.tolist()}
    if schema.revenue in given:
        found["revenue"] = schema.earned(given)
    if schema.available in given:
        found["available"] = schema.may_be_shown(given)
    if schema.group is not None and schema.group in given:
        found["group"] = as_level(schema.group, given[schema.group])
    return found


def feature_names(body: ShelfBody, catalogue: FloatArray, ids: tuple[str, ...], dim: int | None = None) -> list[str]:
    """What each coordinate of theta multiplies; ``dim``: how many there are, where the items may be forgotten."""
    shape = feature_map(body.feature_map, intercept=body.intercept)
    effects = _effects(body, ids)
    if body.columns is not None:
        schema = Schema.from_dict(body.columns)
        return shape.names(schema.visitor_names, schema.item_names) + effects
    visitor_dim, item_dim = body.visitor_dim or 0, catalogue.shape[1]
    if dim is not None:
        rest = dim - len(effects)
        item_dim = next((size for size in range(rest + 1) if shape.dim(visitor_dim, size) == rest), 0)
    visitor = [f"visitor feature {place + 1}" for place in range(visitor_dim)]
    item = [f"item feature {place + 1}" for place in range(item_dim)]
    return shape.names(visitor, _by_id(catalogue, ids, item) if _one_hot(body) else item) + effects


def names_in(connection: Connection, row: Row, dim: int | None = None) -> list[str]:
    """The same, of a shelf's row; nothing before there are items."""
    body = ShelfBody.model_validate_json(row["config"])
    rows = item_rows(connection, row["shelf"], most=None if _one_hot(body) else max(1, body.item_effects))
    if body.columns is None and not rows and dim is None:
        return []
    catalogue = np.array([np.frombuffer(item["features"]) for item in rows]).reshape(len(rows), -1 if rows else 0)
    return feature_names(body, catalogue, tuple(item["id"] for item in rows), dim)


def _effects(body: ShelfBody, ids: tuple[str, ...]) -> list[str]:
    """Effects are called by the items that have them, where nothing else is in x; else as effects of them."""
    named = "{}" if body.feature_map == "item" and not body.intercept and body.columns is None else "effect of {}"
    found = [named.format(name) for name in ids[: body.item_effects]]
    return found + [f"free place {place + 1}" for place in range(len(found), body.item_effects)]


def _one_hot(body: ShelfBody) -> bool:
    """Whether features may be places of items: nothing else is in x."""
    return body.columns is None and body.feature_map == "item" and not (body.intercept or body.item_effects)


def _by_id(catalogue: FloatArray, ids: tuple[str, ...], names: list[str]) -> list[str]:
    """Places called by the items that have them for their own, if every item has one."""
    items, places = np.nonzero(catalogue)
    own = np.array_equal(items, np.arange(len(ids))) and bool((catalogue[items, places] == 1.0).all())
    if not own or len(set(places.tolist())) < len(ids):
        return names
    by_place = dict(zip(places.tolist(), ids, strict=True))
    return [by_place.get(place, name) for place, name in enumerate(names)]
