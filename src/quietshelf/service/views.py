"""A shelf as an API worker holds it: settings, items and the last release, read from the database in one look.

A view never changes. Writes compare its versions with the shelf's row and take a new look if anything moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.accounting import rho_from
from quietshelf.choice.catalogue import Catalogue
from quietshelf.curation.prior_file import PriorFile
from quietshelf.curation.settings import Public, Settings, declared_dim
from quietshelf.curation.stock import Stock
from quietshelf.release.quiet import Learner
from quietshelf.service import learning, schema
from quietshelf.service.learning import Row
from quietshelf.service.models import ShelfBody
from quietshelf.service.problems import NotFound
from quietshelf.service.store import one
from quietshelf.tables import Schema
from quietshelf.types import FloatArray, Release

_LIVES = sa.and_(schema.shelves.c.name == sa.bindparam("wanted"), schema.shelves.c.deleted.is_(None))
_LIVING = schema.COUNTED.where(_LIVES)
_LIVING_LOCKED = sa.select(schema.shelves).where(_LIVES).with_for_update()
Versions = tuple[int, int, int, bool]


@dataclass(frozen=True, eq=False)
class View:
    """One look at a shelf.

    Attributes:
        shelf: Its number.
        name: Its name.
        body: As it was configured.
        settings: The same, in the form that the protocol uses.
        public: What was declared about visitors and tastes.
        stock: The items.
        learner: What the releases taught; None before the first offer.
        ids: Item ids by item number.
        versions: Of configuration and items, how many releases there were, and whether there was an offer.
    """

    shelf: int
    name: str
    body: ShelfBody
    settings: Settings
    public: Public
    stock: Stock
    learner: Learner | None
    ids: tuple[str, ...]
    versions: Versions

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Item numbers by item id."""
        return {name: number for number, name in enumerate(self.ids)}

    @cached_property
    def release(self) -> Release | None:
        """What policies may know; None before the first offer."""
        return None if self.learner is None else self.learner.release

    def is_of(self, row: Row) -> bool:
        """Whether another look at this row would see the same."""
        return self.shelf == row["shelf"] and self.versions == versions(row)


def versions(row: Row) -> Versions:
    """What a view of this row would be a view of."""
    return row["config_version"], row["stock_version"], row["releases"], row["second"] is not None


def settings_of(body: ShelfBody) -> Settings:
    """The settings that the protocol runs by."""
    return Settings(
        rho=rho_from(body.rho, body.epsilon, body.delta),
        visits=body.visits,
        window=body.window,
        on_no_answer=body.on_no_answer,
        capacity=body.capacity,
        fill=body.fill,
        policy=body.policy,
        feature_map=body.feature_map,
        intercept=body.intercept,
        item_effects=body.item_effects,
        visitor_dim=declared_dim(body.feature_map, body.visitor_dim, body.visitor_scale),
        max_batch=body.max_batch,
        forgetting=body.forgetting,
        conversion=body.conversion,
        comparison=body.comparison,
        most_revenue=body.most_revenue,
        present=body.present,
        learned_share=body.learned_share,
        guard=body.guard,
    )


def settings_in(row: Row) -> Settings:
    """The same, of a shelf's row."""
    return settings_of(ShelfBody.model_validate_json(row["config"]))


def public_of(body: ShelfBody) -> Public:
    """What is declared about visitors and tastes."""
    given: Any = body.prior
    if isinstance(given, dict):
        prior: Any = PriorFile.from_dict(given).accepted(not body.private, how="private=false")
    else:
        prior = None if given is None else (given.theta, given.precision)
    public = Public.of(visitor_scale=body.visitor_scale, curvature=body.curvature, prior=prior)
    return public if body.columns is None else replace(public, schema=Schema.from_dict(body.columns))


def public_in(row: Row) -> Public:
    """The same, of a shelf's row."""
    return public_of(ShelfBody.model_validate_json(row["config"]))


def shelf_row(connection: Connection, name: str, *, lock: bool = False) -> Row:
    """The row of a living shelf; ``lock`` keeps others from changing it until the transaction ends."""
    query = _LIVING_LOCKED if lock else _LIVING
    row = one(connection, query, {"wanted": name})
    if row is None:
        raise NotFound(f"shelf must exist (/v1/shelves lists those that do), got shelf={name!r}")
    return row


def number_of(connection: Connection, name: str) -> int | None:
    """The number of a living shelf; None if there is none of that name."""
    table = schema.shelves
    query = sa.select(table.c.shelf).where(table.c.name == name, table.c.deleted.is_(None))
    return connection.execute(query).scalar()


def look(connection: Connection, row: Row, before: View | None = None) -> View:
    """A shelf as it is now; what an earlier view saw of settings and items is kept if neither has changed."""
    if before is not None and before.shelf == row["shelf"] and before.versions[:2] == versions(row)[:2]:
        body, stock, ids = before.body, before.stock, before.ids
    else:
        body = ShelfBody.model_validate_json(row["config"])
        found = item_rows(connection, row["shelf"])
        stock, ids = stock_of(found, body), tuple(item["id"] for item in found)
    settings = settings_of(body)
    learner = learning.learner(connection, row, settings)
    return View(row["shelf"], row["name"], body, settings, public_of(body), stock, learner, ids, versions(row))


def item_rows(connection: Connection, shelf: int, most: int | None = None) -> list[Row]:
    """All items of a shelf, or the first ones, retired ones included, by number."""
    table = schema.items
    query = sa.select(table).where(table.c.shelf == shelf).order_by(table.c.number).limit(most)
    return [dict(row) for row in connection.execute(query).mappings()]


def stock_of(rows: list[Row], body: ShelfBody) -> Stock:
    """The items in the form that `Shelf` uses."""
    size = len(np.frombuffer(rows[0]["features"])) if rows else 0
    features = np.frombuffer(b"".join(row["features"] for row in rows)).reshape(len(rows), size)
    groups, limits = None, None
    if body.limits:
        order = {name: number for number, name in enumerate(body.limits)}
        groups = np.array([order.get(row["group"], -1) for row in rows], dtype=np.int64)
        limits = np.array(list(body.limits.values()), dtype=np.int64)

    def column(name: str, kind: Any) -> Any:
        return np.array([row[name] for row in rows], dtype=kind)

    return Stock(
        catalogue=Catalogue.of(np.asfortranarray(features)),
        revenue=column("revenue", np.float64),
        available=column("available", np.bool_),
        retired=column("retired", np.bool_),
        groups=groups,
        limits=limits,
        ranks=_ranks(rows),
    )


def _ranks(rows: list[Row]) -> FloatArray | None:
    """The places of all items in the present ranking; None if none has one."""
    ranks = np.array([np.inf if row["rank"] is None else row["rank"] for row in rows], dtype=np.float64)
    return ranks if np.isfinite(ranks).any() else None
