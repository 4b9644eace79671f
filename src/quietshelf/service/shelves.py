"""Shelves and their items, as the shop configures them; each function is one step of a write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.prior_checks import check_items, check_log
from quietshelf.curation.settings import check_places
from quietshelf.service import described, schema
from quietshelf.service.learning import Row
from quietshelf.service.models import LARGEST_DIM, ItemBody, ShelfBody
from quietshelf.service.problems import Frozen, Invalid, NotFound
from quietshelf.service.views import item_rows, public_of, settings_of, shelf_row
from quietshelf.statistics.pair import ROUNDING_ROOM
from quietshelf.tables import Schema

FREE = {"capacity", "fill", "limits", "learned_share", "guard"}
"""Settings that do not alter the guarantee; all others are fixed by the first offer."""
NOT_PRIVATE = ("uniform",)
"""Served for comparison only."""

NO_FEATURES = (
    "features must be given for a new item, or attributes under a schema; to learn popularity alone, set "
    '"feature_map": "item", "intercept": false and "item_effects": 100, as many as there will ever be items, {got}'
)


def checked(body: ShelfBody) -> ShelfBody:
    """The settings with what follows from them; refused by rule and value if they make no sense."""
    body = described.settled(body)
    most = (ROUNDING_ROOM - LARGEST_DIM) // 7
    if body.capacity > most:
        raise Invalid(f"capacity must be at most {most}: rounding is proven so far, got capacity={body.capacity}")
    try:
        settings, public = settings_of(body), public_of(body)
        if public.log is not None:
            check_log(settings, public, public.log)
    except ValueError as error:
        raise Invalid(str(error)) from None
    if body.private and body.policy in NOT_PRIVATE:
        raise Invalid(f"private must be false, explicitly, with policy={body.policy!r}, which is there for comparison")
    private_prior = public.log is None or public.log.private
    if not body.private and body.policy not in NOT_PRIVATE and private_prior:
        raise Invalid(f"private must be true with policy={body.policy!r}")
    return body


def put(connection: Connection, name: str, body: ShelfBody, now: float) -> bool:
    """Create a shelf, or change one as far as its guarantee allows; whether it is new. What is left out stays."""
    try:
        row = shelf_row(connection, name, lock=True)
    except NotFound:
        connection.execute(sa.insert(schema.shelves), new_row(name, checked(body), now))
        return True
    before = ShelfBody.model_validate_json(row["config"])
    anew = not {"rho", "epsilon"}.isdisjoint(body.model_fields_set)
    body = checked(_completed(body, before))
    if body.prior != before.prior and isinstance(body.prior, dict) and not anew:
        rule = "rho, or epsilon and delta, must be given with a new prior, whose cost comes on top"
        raise Invalid(f"{rule}, got neither")
    if described.same_schema(before, body):
        body = body.model_copy(update={"columns": before.columns})
    altered = sorted(key for key in ShelfBody.model_fields if getattr(before, key) != getattr(body, key))
    fixed = [ShelfBody.model_fields[key].alias or key for key in altered if key not in FREE]
    if fixed and _promised(connection, row):
        raise Frozen(
            f"{', '.join(fixed)} must stay as at the first offer: what visitors were promised and what was learned "
            "rest on it (what is left out stays as it is). Another shelf may have another value; "
            "budgets add up for those who meet both.",
            fields=fixed,
        )
    items = item_rows(connection, row["shelf"])
    if items and "columns" in altered:
        rule = "schema must stay as it was when items were put, for their features were made by it"
        raise Invalid(f"{rule}; delete this shelf, to which nobody has come, and put it again")
    missing = sorted({item["group"] for item in items} - {None, *body.limits})
    if missing:
        raise Invalid(f"limits must name every group that has items, got none for {missing[0]!r}")
    if items:
        _check_places(body, len(items), len(items[0]["features"]) // 8)
    if altered:
        changed = {"config": body.kept(), "config_version": row["config_version"] + 1}
        _update(connection, row, changed)
    return False


def _completed(body: ShelfBody, before: ShelfBody) -> ShelfBody:
    """The settings, with those that were left out as they were; a new schema decides some of them anew."""
    told = "columns" in body.model_fields_set and not described.same_schema(before, body)
    anew = {"visitor_dim", "visitor_scale", "feature_map"} if told else set()
    given = body.model_fields_set | anew | {"epsilon", "delta"} | ({"rho"} if body.epsilon is not None else set())
    return body.model_copy(update={key: getattr(before, key) for key in ShelfBody.model_fields if key not in given})


def delete(connection: Connection, name: str, now: float) -> None:
    """Forget a shelf and everybody on it who is not released. Its releases and its ledger stay."""
    row = shelf_row(connection, name, lock=True)
    for table in (schema.leases, schema.batches, schema.offers, schema.retries, schema.persons, schema.items):
        connection.execute(sa.delete(table).where(table.c.shelf == row["shelf"]))
    _update(connection, row, {"deleted": now})


def put_items(connection: Connection, name: str, bodies: Sequence[ItemBody]) -> dict[str, int]:
    """Add items and change known ones: all of them or, by `Invalid`, none."""
    row = shelf_row(connection, name, lock=True)
    config = ShelfBody.model_validate_json(row["config"])
    rows = item_rows(connection, row["shelf"])
    known = {item["id"]: item for item in rows}
    declared = None if config.columns is None else Schema.from_dict(config.columns)
    size = len(np.frombuffer(rows[0]["features"])) if rows else None if declared is None else len(declared.item_names)
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    _check_distinct([body.id for body in bodies])
    for given in bodies:
        body = described.encoded(declared, given, known.get(given.id))
        if config.item_effects and not size and body.features is None and body.id not in known:
            body = body.model_copy(update={"features": []})  # which it is, is all that is known of it
        size = _check_item(body, known.get(body.id), config, size)
        fields = _fields(body)
        if body.id in known:
            changed.append({"this": known[body.id]["number"], **_plain(known[body.id]), **fields})
        else:
            basis = {"revenue": 1.0, "available": True, "retired": False, "group": None, "rank": None}
            new.append({"shelf": row["shelf"], "number": len(rows) + len(new), "id": body.id, **basis, **fields})
    _check_units(config, new, first=not rows)
    _check_places(config, len(rows) + len(new), size or 0)
    table = schema.items
    if new:
        connection.execute(sa.insert(table), new)
    if changed:
        where = (table.c.shelf == row["shelf"]) & (table.c.number == sa.bindparam("this"))
        connection.execute(sa.update(table).where(where), changed)
    _update(connection, row, {"stock_version": row["stock_version"] + 1})
    return {"added": len(new), "changed": len(changed)}


def _check_places(config: ShelfBody, items: int, features: int) -> None:
    try:
        check_places(settings_of(config), items, features)
    except ValueError as error:
        raise Invalid(str(error)) from None


def retire(connection: Connection, name: str, ids: Sequence[str]) -> dict[str, int]:
    """Never show these items again; their numbers are not given to others."""
    row = shelf_row(connection, name, lock=True)
    known = {item["id"]: item["number"] for item in item_rows(connection, row["shelf"])}
    _check_distinct(ids)
    missing = [each for each in ids if each not in known]
    if missing:
        raise Invalid(f"items must be known to the shelf, got {missing[0]!r}")
    table = schema.items
    where = (table.c.shelf == row["shelf"]) & (table.c.number == sa.bindparam("this"))
    connection.execute(sa.update(table).where(where).values(retired=True), [{"this": known[each]} for each in ids])
    _update(connection, row, {"stock_version": row["stock_version"] + 1})
    return {"retired": len(ids)}


def _promised(connection: Connection, row: Row) -> bool:
    """Whether anybody was ever promised something: a restored backup may know of that by its ledger alone."""
    if row["arrivals"] > 0 or row["opened"] >= 0 or row["releases"] > 0:
        return True
    table = schema.events
    return (
        connection.execute(sa.select(table.c.number).where(table.c.shelf == row["shelf"]).limit(1)).first() is not None
    )


def new_row(name: str, body: ShelfBody, now: float) -> dict[str, Any]:
    """A shelf to which nobody has come."""
    zero = dict.fromkeys(("config_version", "stock_version", "arrivals", "anonymous", "releases"), 0)
    config = {"name": name, "config": body.kept(), "created": now, "last_time": now}
    return {**zero, **config, "opened": -1, "notes": json.dumps([])}


def _update(connection: Connection, row: Row, values: dict[str, Any]) -> None:
    table = schema.shelves
    connection.execute(sa.update(table).where(table.c.shelf == row["shelf"]).values(values))


def _check_distinct(ids: Sequence[str]) -> None:
    again, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise Invalid(f"items must be named once each, got {again!r} again")


def _check_item(body: ItemBody, known: Row | None, config: ShelfBody, size: int | None) -> int | None:
    """Refuse an item that cannot be; the length that item features have."""
    if known is not None and known["retired"]:
        raise Invalid(f"item must not be retired, got item={body.id!r}")
    if known is None and body.features is None:
        raise Invalid(NO_FEATURES.format(got=f"got none for item={body.id!r}"))
    if body.features is not None and size not in (None, len(body.features)):
        raise Invalid(f"features must have length {size} for every item, got {len(body.features)} for {body.id!r}")
    if body.group is not None and body.group not in config.limits:
        raise Invalid(f"group must be one of the shelf's limits, got group={body.group!r} for item={body.id!r}")
    return len(body.features) if body.features is not None else size


def _check_units(config: ShelfBody, new: Sequence[dict[str, Any]], *, first: bool) -> None:
    """Refuse items that a prior from a log does not speak of; units are looked at where all items are at hand."""
    public = public_of(config)
    if public.log is None or not new:
        return
    try:
        items = np.stack([np.frombuffer(item["features"]) for item in new])
        check_items(items, public.log, units=first and public.schema is None)
    except ValueError as error:
        raise Invalid(str(error)) from None


def _fields(body: ItemBody) -> dict[str, Any]:
    given = body.model_dump(exclude_none=True, exclude={"id"})
    if "rank" in body.model_fields_set:  # null takes an item out of the ranking
        given["rank"] = body.rank
    if "features" in given:
        given["features"] = np.array(given["features"], dtype=np.float64).tobytes()
    return given


def _plain(item: Row) -> dict[str, Any]:
    return {name: item[name] for name in ("features", "revenue", "available", "group", "rank")}
