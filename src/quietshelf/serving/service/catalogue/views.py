"""A shelf as a process holds it in memory: settings, items and the last release, read in one transaction.

A view never changes. Writes compare its versions with the shelf's row, and read a new view if anything changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.prior_file import PriorFile
from quietshelf.curation.settings import Public, ShelfSettings, declared_dim
from quietshelf.curation.stock import Stock
from quietshelf.data.tables import Schema
from quietshelf.model.types import Release
from quietshelf.privacy.accounting import rho_from
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service.catalogue import catalogues
from quietshelf.serving.service.catalogue.catalogues import ShelfItems
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.models import ShelfBody
from quietshelf.serving.service.problems import NotFound

_LIVES = sa.and_(schema.shelves.c.name == sa.bindparam("wanted"), schema.shelves.c.deleted.is_(None))
_LIVING = Prepared(schema.COUNTED.where(_LIVES))
_LIVING_LOCKED = Prepared(sa.select(schema.shelves).where(_LIVES).with_for_update())
_VERSIONS = Prepared(
    sa.select(
        *(schema.shelves.c[name] for name in ("name", "shelf", "config_version", "stock_version", "releases")),
        schema.shelves.c.second.isnot(None).label("begun"),
    ).where(schema.shelves.c.deleted.is_(None))
)
_SAME = tuple(field.name for field in fields(ShelfSettings) if field.name not in ("rho", "visitor_dim", "dim"))
"""Settings with the same name in a body; ``dim`` is for shelves without a feature map, which services do not have."""
Versions = tuple[int, int, int, bool]
Follow = Callable[[Connection, Row, dict[str, int], ShelfItems | None], ShelfItems]


@dataclass(frozen=True, eq=False)
class View:
    """A shelf at one moment.

    Attributes:
        shelf: Its number.
        name: Its name.
        body: Its configuration.
        settings: The configuration in the form that the protocol uses.
        public: What was declared about visitors and tastes.
        catalogue: The items.
        learner: What the releases taught; None before the first offer.
        versions: Of configuration and items, the number of releases, and whether there was an offer.
    """

    shelf: int
    name: str
    body: ShelfBody
    settings: ShelfSettings
    public: Public
    catalogue: ShelfItems
    learner: Learner | None
    versions: Versions

    @property
    def stock(self) -> Stock:
        """The items as policies see them."""
        return self.catalogue.stock

    @property
    def ids(self) -> tuple[str, ...]:
        """Item ids by item number."""
        return self.catalogue.ids

    @property
    def numbers(self) -> dict[str, int]:
        """Item numbers by item id."""
        return self.catalogue.numbers

    @cached_property
    def release(self) -> Release | None:
        """What policies may know; None before the first offer."""
        return None if self.learner is None else self.learner.release

    def has_items_of(self, other: View) -> bool:
        """Whether another view holds the same settings and items, so that a request valid for one is valid for both."""
        return self.settings is other.settings and self.public is other.public and self.catalogue is other.catalogue

    def is_of(self, row: Row) -> bool:
        """Whether this view is still current, given the shelf's row."""
        return self.shelf == row["shelf"] and self.versions == versions(row)


def versions(row: Row) -> Versions:
    """The versions that a view of this row would have."""
    return row["config_version"], row["stock_version"], row["releases"], row["second"] is not None


def versions_of(connection: Connection) -> dict[str, tuple[int, Versions]]:
    """Number and versions of every living shelf, by name."""
    return {
        row["name"]: (row["shelf"], (row["config_version"], row["stock_version"], row["releases"], bool(row["begun"])))
        for row in _VERSIONS.rows(connection, {})
    }


def settings_of(body: ShelfBody) -> ShelfSettings:
    """Convert a configuration to the settings that the protocol uses."""
    same: dict[str, Any] = {name: getattr(body, name) for name in _SAME}
    visitor_dim = declared_dim(body.feature_map, body.visitor_dim, body.visitor_scale)
    return ShelfSettings(rho=rho_from(body.rho, body.epsilon, body.delta), visitor_dim=visitor_dim, **same)


def settings_in(row: Row) -> ShelfSettings:
    """The protocol's settings of a shelf's row."""
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
    """What a shelf's row declares about visitors and tastes."""
    return public_of(ShelfBody.model_validate_json(row["config"]))


def shelf_row(connection: Connection, name: str, *, lock: bool = False) -> Row:
    """The row of a living shelf, locked until the transaction ends if ``lock``."""
    query = _LIVING_LOCKED if lock else _LIVING
    row = query.one(connection, {"wanted": name})
    if row is None:
        raise not_there(name)
    return row


def not_there(name: str) -> NotFound:
    """The refusal for a shelf that does not exist."""
    return NotFound(f"shelf must exist (/v1/shelves lists those that do), got shelf={name!r}")


def number_of(connection: Connection, name: str) -> int | None:
    """The number of a living shelf; None if there is none of that name."""
    table = schema.shelves
    query = sa.select(table.c.shelf).where(table.c.name == name, table.c.deleted.is_(None))
    return connection.execute(query).scalar()


def look(connection: Connection, row: Row, before: View | None = None, follow: Follow = catalogues.follow) -> View:
    """Read a shelf as it is now, reusing the unchanged parts of an earlier view.

    Args:
        connection: To the database.
        row: The shelf's row.
        before: An earlier view of the same name.
        follow: Updates the items, or keeps the old ones while many changes are being read.
    """
    now = versions(row)
    if before is not None and (before.shelf != row["shelf"] or row["deleted"] is not None):
        before = None
    if before is not None and before.versions[0] == now[0]:
        body, settings, public = before.body, before.settings, before.public
    else:
        body = ShelfBody.model_validate_json(row["config"])
        settings, public = settings_of(body), public_of(body)
    catalogue = None if before is None else before.catalogue
    if catalogue is None or catalogue.version != now[1] or not catalogue.serves(row, body.limits):
        catalogue = follow(connection, row, body.limits, catalogue)
    if before is not None and (before.versions[0], *before.versions[2:]) == (now[0], *now[2:]):
        learner = before.learner
    else:
        same = before is not None and before.versions[0] == now[0]  # else a restore may have lost releases
        known = before.learner if before is not None and same else None
        learner = learning.learner(connection, row, settings, known=known)
    seen = (now[0], catalogue.version, *now[2:])
    return View(row["shelf"], row["name"], body, settings, public, catalogue, learner, seen)


def item_rows(connection: Connection, shelf: int, most: int) -> list[Row]:
    """The first items of a shelf, retired ones included, by number."""
    table = schema.items
    query = sa.select(table).where(table.c.shelf == shelf).order_by(table.c.number).limit(most)
    return [dict(row) for row in connection.execute(query).mappings()]
