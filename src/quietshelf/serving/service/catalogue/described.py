"""Applies a shelf's schema to its settings and items, and names its coordinates, by position if there is no schema."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sqlalchemy import Connection

from quietshelf.curation.names import feature_names
from quietshelf.curation.prior_file import PriorFile
from quietshelf.curation.settings import declared_dim
from quietshelf.data.tables import Schema
from quietshelf.data.tables.cells import as_level
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import require
from quietshelf.privacy.accounting import rho_from
from quietshelf.serving.service.catalogue.views import item_rows, public_of, settings_of
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.models import LARGEST_DIM, LARGEST_RHO, SMALLEST_RHO, ItemBody, ShelfBody, is_text
from quietshelf.serving.service.problems import Invalid


def settled(body: ShelfBody) -> ShelfBody:
    """Fill in the settings that follow from others; `Invalid` if they contradict each other."""
    try:
        log = PriorFile.from_dict(body.prior).rho if isinstance(body.prior, dict) else 0.0
        rho = rho_from(body.rho, body.epsilon, body.delta, log=log)
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
    """Whether both declare the same schema, whatever the order of columns or the reasons for leaving some out."""
    if one.columns is None or other.columns is None:
        return False
    return Schema.from_dict(one.columns) == Schema.from_dict(other.columns)


def _by_schema(body: ShelfBody, schema: Schema) -> dict[str, Any]:
    """The settings that the schema decides."""
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
    """Turn an item's attributes into features, revenue, availability and group. Fields given directly win."""
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
    """The fields that attributes set. A known item keeps its other columns."""
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


def names_in(connection: Connection, row: Row, dim: int | None = None) -> list[str]:
    """Names of theta's coordinates; their number follows from the items before there is an estimate."""
    body = ShelfBody.model_validate_json(row["config"])
    settings, public = settings_of(body), public_of(body)
    rows = item_rows(connection, row["shelf"], most=max(1, body.item_effects))
    if dim is None and settings.map is not None and (rows or public.schema is not None):
        size = len(rows[0]["features"]) // 8 if public.schema is None else len(public.schema.item_names)
        dim = settings.map.dim(settings.visitor_dim, size)
    return [] if dim is None else list(feature_names(settings, public, [item["id"] for item in rows], dim))
