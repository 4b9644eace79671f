"""Adds, changes and retires items of a shelf, reading and writing only those that are named."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.prior_checks import check_items
from quietshelf.curation.settings import check_places
from quietshelf.data.tables import Schema
from quietshelf.serving.service.catalogue import described
from quietshelf.serving.service.catalogue.catalogues import counted
from quietshelf.serving.service.catalogue.views import item_rows, public_of, settings_of, shelf_row
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.lookup import Keyed
from quietshelf.serving.service.database.prepared import insert_rows
from quietshelf.serving.service.models import ItemBody, ShelfBody
from quietshelf.serving.service.problems import Invalid

CHANGED = ("features", "revenue", "available", "group", "rank", "version")
NO_FEATURES = (
    "features must be given for a new item, or attributes under a schema; to learn popularity alone, set "
    '"feature_map": "item", "intercept": false and "item_effects": 100, as many as there will ever be items, {got}'
)
_table = schema.items
_this = (_table.c.shelf == sa.bindparam("of_shelf")) & (_table.c.number == sa.bindparam("this"))
_NAMED = Keyed(_table, ("shelf", "id"))


@dataclass
class Prepared:
    """Collects and checks items to put on a shelf: the rows to add and to change.

    Attributes:
        config: The shelf's settings.
        size: Length of item features; None until an item sets it.
        count: How many items there are.
        schema: The shelf's schema, if it has one.
    """

    config: ShelfBody
    size: int | None
    count: int
    schema: Schema | None
    new: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, connection: Connection, row: Row) -> Prepared:
        """Start with nothing to put."""
        config = ShelfBody.model_validate_json(row["config"])
        declared = None if config.columns is None else Schema.from_dict(config.columns)
        first = item_rows(connection, row["shelf"], most=1)
        size = len(first[0]["features"]) // 8 if first else None if declared is None else len(declared.item_names)
        return cls(config, size, counted(connection, row["shelf"]), declared)

    def take(self, given: ItemBody, known: Row | None) -> None:
        """Add an item; `Invalid` if it breaks a rule."""
        body, config = described.encoded(self.schema, given, known), self.config
        if config.item_effects and not self.size and body.features is None and known is None:
            body = body.model_copy(update={"features": []})  # all that is known of it is its id
        self.size = _check_item(body, known, config, self.size)
        fields = _fields(body)
        if known is not None:
            self.changed.append({**known, **fields})
        else:
            basis = {"revenue": 1.0, "available": True, "retired": False, "group": None, "rank": None}
            self.new.append({"number": self.count + len(self.new), "id": body.id, **basis, **fields})

    def check(self) -> None:
        """Check what depends on all items: places for item effects, and units of a prior."""
        _check_units(self.config, self.new, first=not self.count)
        check_count(self.config, self.count + len(self.new), self.size or 0)

    @property
    def counts(self) -> dict[str, int]:
        """How many are added and changed."""
        return {"added": len(self.new), "changed": len(self.changed)}


class Stamps(NamedTuple):
    """Versions for changed items: ``shown`` before number ``base``, ``hidden`` for those of an upload being applied."""

    base: float
    shown: int
    hidden: int

    @classmethod
    def of(cls, connection: Connection, row: Row) -> Stamps:
        """Versions for the next change. Items added during an upload appear with it, so that numbers have no gap."""
        table, following = schema.uploads, row["stock_version"] + 1
        under_way = (table.c.shelf == row["shelf"], table.c.version.isnot(None))
        found = connection.execute(sa.select(table.c.base, table.c.version).where(*under_way)).one_or_none()
        base, hidden = found or (math.inf, following)
        return cls(base, following, hidden)

    def at(self, number: int) -> int:
        """The version of a changed item."""
        return self.shown if number < self.base else self.hidden


def put_items(connection: Connection, name: str, bodies: Sequence[ItemBody]) -> dict[str, int]:
    """Add items and change known ones, all or none."""
    row = shelf_row(connection, name, lock=True)
    check_distinct([body.id for body in bodies])
    prepared = Prepared.of(connection, row)
    known = named(connection, row["shelf"], [body.id for body in bodies])
    for body in bodies:
        prepared.take(body, known.get(body.id))
    prepared.check()
    write(connection, row, prepared, Stamps.of(connection, row))
    show(connection, row["shelf"], row["stock_version"] + 1)
    return prepared.counts


def write(connection: Connection, row: Row, prepared: Prepared, stamps: Stamps) -> None:
    """Write prepared items."""
    if prepared.new:
        place = {"shelf": row["shelf"], "version": stamps.hidden}
        insert_rows(connection, _table, [{**each, **place} for each in prepared.new])
    if prepared.changed:
        values: dict[str, Any] = {name: sa.bindparam(f"now_{name}") for name in CHANGED}
        rows = [
            {"of_shelf": row["shelf"], "this": each["number"], "now_version": stamps.at(each["number"])}
            | {f"now_{name}": each[name] for name in CHANGED if name != "version"}
            for each in prepared.changed
        ]
        connection.execute(sa.update(_table).where(_this).values(values), rows)


def retire(connection: Connection, name: str, ids: Sequence[str]) -> dict[str, int]:
    """Never show these items again. Their numbers are not reused."""
    row = shelf_row(connection, name, lock=True)
    check_distinct(ids)
    known, stamps = named(connection, row["shelf"], ids), Stamps.of(connection, row)
    missing = [each for each in ids if each not in known]
    if missing:
        raise Invalid(f"items must be known to the shelf, got {missing[0]!r}")
    gone = sa.update(_table).where(_this).values(retired=True, version=sa.bindparam("now_version"))
    numbers = [known[each]["number"] for each in ids]
    rows = [{"of_shelf": row["shelf"], "this": each, "now_version": stamps.at(each)} for each in numbers]
    connection.execute(gone, rows)
    show(connection, row["shelf"], row["stock_version"] + 1)
    return {"retired": len(ids)}


def show(connection: Connection, shelf: int, version: int) -> None:
    """Let visitors see the stock up to this version."""
    table = schema.shelves
    connection.execute(sa.update(table).where(table.c.shelf == shelf).values(stock_version=version))


def named(connection: Connection, shelf: int, ids: Sequence[str]) -> dict[str, Row]:
    """The rows of these items, by id; unknown ids are left out."""
    return {row["id"]: row for row in _NAMED.rows(connection, [(shelf, each) for each in ids])}


def check_distinct(ids: Iterable[str]) -> None:
    """Refuse an id that occurs twice."""
    again, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise Invalid(f"items must be named once each, got {again!r} again")


def check_count(config: ShelfBody, items: int, features: int) -> None:
    """Refuse more items than there are places for item effects."""
    try:
        check_places(settings_of(config), items, features)
    except ValueError as error:
        raise Invalid(str(error)) from None


def _check_item(body: ItemBody, known: Row | None, config: ShelfBody, size: int | None) -> int | None:
    """Refuse an item that breaks a rule; returns the length of item features."""
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
    """Refuse items that do not fit a prior from a log; units are checked only if these are all the items."""
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
