"""Creates, changes and deletes shelves; each function is part of a write transaction."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.device import DEVICE, check_device
from quietshelf.curation.prior_checks import check_log
from quietshelf.privacy.statistics.pair import ROUNDING_ROOM
from quietshelf.serving.service.catalogue import described
from quietshelf.serving.service.catalogue.catalogues import counted
from quietshelf.serving.service.catalogue.items import check_count
from quietshelf.serving.service.catalogue.views import item_rows, public_of, settings_of, shelf_row
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.models import LARGEST_DIM, ShelfBody
from quietshelf.serving.service.problems import Frozen, Invalid, NotFound

FREE = {"capacity", "fill", "limits", "learned_share", "guard"}
"""Settings that do not alter the guarantee. The first offer fixes all others."""
NOT_PRIVATE = ("uniform",)
"""Policies served for comparison only."""


def checked(body: ShelfBody) -> ShelfBody:
    """Check the settings, and fill in those that follow from others."""
    body = described.settled(body)
    most = (ROUNDING_ROOM - LARGEST_DIM) // 7
    if body.capacity > most:
        raise Invalid(f"capacity must be at most {most}, up to which rounding is proven, got capacity={body.capacity}")
    try:
        settings, public = settings_of(body), public_of(body)
        if public.log is not None:
            check_log(settings, public, public.log)
        if body.contributions == DEVICE:
            check_device(settings, groups=bool(body.limits), attributes=bool(public.schema and public.schema.visitors))
    except ValueError as error:
        raise Invalid(str(error)) from None
    if body.private and body.policy in NOT_PRIVATE:
        raise Invalid(f"private must be false with policy={body.policy!r}, which is for comparison only")
    private_prior = public.log is None or public.log.private
    if not body.private and body.policy not in NOT_PRIVATE and private_prior:
        raise Invalid(f"private must be true with policy={body.policy!r}")
    return body


def put(connection: Connection, name: str, body: ShelfBody, now: float) -> bool:
    """Create a shelf, or change one as far as its guarantee allows; whether it is new. Omitted settings stay."""
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
    first = item_rows(connection, row["shelf"], most=1)
    if first and "columns" in altered:
        rule = "schema must stay as it was when items were added, because it made their features"
        raise Invalid(f"{rule}; delete this shelf, which nobody has visited, and create it again")
    missing = _group_without_limit(connection, row, body) if "limits" in altered else None
    if missing is not None:
        raise Invalid(f"limits must name every group that has items, got none for {missing!r}")
    if first:
        check_count(body, counted(connection, row["shelf"]), len(first[0]["features"]) // 8)
    if altered:
        changed = {"config": body.kept(), "config_version": row["config_version"] + 1}
        _update(connection, row, changed)
    return False


def _completed(body: ShelfBody, before: ShelfBody) -> ShelfBody:
    """Fill in omitted settings from before, except those that a new schema decides."""
    told = "columns" in body.model_fields_set and not described.same_schema(before, body)
    anew = {"visitor_dim", "visitor_scale", "feature_map"} if told else set()
    given = body.model_fields_set | anew | {"epsilon", "delta"} | ({"rho"} if body.epsilon is not None else set())
    return body.model_copy(update={key: getattr(before, key) for key in ShelfBody.model_fields if key not in given})


def _group_without_limit(connection: Connection, row: Row, body: ShelfBody) -> str | None:
    group = schema.items.c.group
    strange = (schema.items.c.shelf == row["shelf"], group.isnot(None), group.not_in(list(body.limits)))
    return connection.execute(sa.select(group).where(*strange).order_by(group).limit(1)).scalar()


def delete(connection: Connection, name: str, now: float) -> None:
    """Delete a shelf and its unreleased visitors. Its releases and its ledger stay."""
    row = shelf_row(connection, name, lock=True)
    raw = (schema.leases, schema.batches, schema.leftovers, schema.offers, schema.retries, schema.persons)
    for table in (*raw, schema.items, schema.uploads):
        connection.execute(sa.delete(table).where(table.c.shelf == row["shelf"]))
    made = sa.select(sa.func.count()).select_from(schema.releases).where(schema.releases.c.shelf == row["shelf"])
    _update(connection, row, {"deleted": now, "releases": made.scalar_subquery()})  # published now


def _promised(connection: Connection, row: Row) -> bool:
    """Whether anybody was ever promised anything; in a restored backup only the ledger may show it."""
    if row["arrivals"] > 0 or row["opened"] >= 0 or row["releases"] > 0:
        return True
    table = schema.events
    return (
        connection.execute(sa.select(table.c.number).where(table.c.shelf == row["shelf"]).limit(1)).first() is not None
    )


def new_row(name: str, body: ShelfBody, now: float) -> dict[str, Any]:
    """The row of a new shelf."""
    zero = dict.fromkeys(("config_version", "stock_version", "arrivals", "anonymous", "releases"), 0)
    config = {"name": name, "config": body.kept(), "created": now, "last_time": now}
    return {**zero, **config, "opened": -1, "notes": json.dumps([])}


def _update(connection: Connection, row: Row, values: dict[str, Any]) -> None:
    table = schema.shelves
    connection.execute(sa.update(table).where(table.c.shelf == row["shelf"]).values(values))
