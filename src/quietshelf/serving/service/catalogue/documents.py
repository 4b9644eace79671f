"""Signed documents for devices: a release, the catalogue, and what a batch froze. All of it is public.

Release and batch numbers can repeat if a shelf is deleted and created again or a backup is restored; editions never do.
Each document names its edition, and caches may keep it at an address that names the same edition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.device import DEVICE, MOST_ITEMS, batch_document, catalogue_document, model_document
from quietshelf.curation.fields import batch_from, learner_from
from quietshelf.model.types import Release
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service.access import signing
from quietshelf.serving.service.catalogue.catalogues import counted
from quietshelf.serving.service.catalogue.views import View, look, shelf_row
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import Row, from_row
from quietshelf.serving.service.database.store import Store, one
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.models import ShelfBody
from quietshelf.serving.service.problems import Invalid, NotFound

NO_SHELF = -1
"""No shelf has this number, so items that carry it are never reused."""
KEPT = 32
"""Most documents that a process caches; clients have their own caches."""
Key = tuple[str, str, int]
Make = Callable[[Connection, Row], dict[str, Any]]


class Document(NamedTuple):
    """A signed text, its edition and number, and whether it is the version asked for."""

    content: bytes
    edition: str
    number: int
    same: bool = True


def edition(connection: Connection, vault: Vault, shelf: int) -> str:
    """The current edition of a shelf's documents."""
    return vault.edition(shelf, connection.execute(sa.select(schema.store.c.epoch)).scalar_one())


class Documents:
    """Makes and caches documents, one at a time, so that many requests cost the time and memory of one.

    Args:
        store: The database.
        views: The shelves in memory, by name, whose releases need not be read again.
    """

    def __init__(self, store: Store, views: Mapping[str, View]) -> None:
        self._store, self._views = store, views
        self._lock, self._making = Lock(), Lock()
        self._made: OrderedDict[Key, Document] = OrderedDict()

    def model(self, name: str, release: int) -> Document:
        """The release of this number; 0 for what was known before the first."""

        def made(connection: Connection, row: Row) -> dict[str, Any]:
            view = look(connection, row, self._known(name))
            if view.learner is None or release > len(view.learner.records):  # never one that is not published yet
                raise NotFound(f"release must be one that a slot named, got {release}")
            return model_document(name, view.settings, view.stock, _earlier(connection, row, view.learner, release))

        return self._found(name, "model", lambda _: release, made)

    def catalogue(self, name: str, version: int) -> Document:
        """The current items; the result says whether they are of this version."""

        def made(connection: Connection, row: Row) -> dict[str, Any]:
            view = look(connection, row, self._known(name))
            return catalogue_document(name, view.catalogue.version, view.ids, view.stock)

        found = self._found(name, "catalogue", lambda row: int(row["stock_version"]), made)
        return found._replace(same=found.number == version)

    def batch(self, name: str, number: int) -> Document:
        """What an unreleased batch froze when it opened."""

        def made(connection: Connection, row: Row) -> dict[str, Any]:
            table = schema.batches
            kept = one(connection, sa.select(table).where(table.c.shelf == row["shelf"], table.c.batch == number))
            if kept is None:
                raise NotFound(f"batch must be one that is not released, got {number}")
            return batch_document(name, batch_from(from_row(kept)))

        return self._found(name, "batch", lambda _: number, made)

    def _known(self, name: str) -> View | None:
        """The shelf in memory, but without its items: those must be read from the database before they are signed."""
        view = self._views.get(name)
        return None if view is None else replace(view, catalogue=replace(view.catalogue, shelf=NO_SHELF))

    def _found(self, name: str, kind: str, number: Callable[[Row], int], make: Make) -> Document:
        """The cached document, or a new one. No connection is held while waiting for another to be made."""
        with self._store.read() as connection:
            kept = self._kept(connection, name, kind, number)
        if isinstance(kept, Document):
            return kept
        with self._making, self._store.read() as connection:
            kept = self._kept(connection, name, kind, number)
            return kept if isinstance(kept, Document) else self._new(connection, *kept, make)

    def _kept(
        self, connection: Connection, name: str, kind: str, number: Callable[[Row], int]
    ) -> Document | tuple[Key, Row]:
        """The cached document; or its key and its shelf's row, read at the same moment."""
        row = shelf_row(connection, name)
        key = (edition(connection, self._store.vault, row["shelf"]), kind, number(row))
        with self._lock:
            return self._made.get(key) or (key, row)

    def _new(self, connection: Connection, key: Key, row: Row, make: Make) -> Document:
        _check(connection, row)
        this, _, number = key
        made = Document(signing.envelope(self._store.vault, {**make(connection, row), "edition": this}), this, number)
        with self._lock:
            self._made[key] = made
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        return made


def _earlier(connection: Connection, row: Row, now: Learner, release: int) -> Release:
    """Reconstruct an earlier release."""
    if release == len(now.records):
        return now.release
    found = learning.release_rows(connection, row["shelf"], release, after=release - 1) if release else []
    last = from_row(found[0]) if release else None
    known = now.records[:release]
    return learner_from(now.config, now.capacity, from_row(row), known, last, now.ledger).release


def _check(connection: Connection, row: Row) -> None:
    if ShelfBody.model_validate_json(row["config"]).contributions != DEVICE:
        raise Invalid("documents for devices need a shelf with contributions='device', got one without")
    if counted(connection, row["shelf"]) > MOST_ITEMS:
        raise Invalid(f"a device chooses from at most {MOST_ITEMS:,} items, got more")
