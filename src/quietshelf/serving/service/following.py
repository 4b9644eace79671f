"""One process's copy of time, shelves and keys, kept up to date with the database."""

from __future__ import annotations

import time
from contextlib import suppress

from sqlalchemy import Connection

from quietshelf.serving.service import queries
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.access.keyring import Keyring
from quietshelf.serving.service.catalogue.catalogues import Catalogues
from quietshelf.serving.service.catalogue.preloading import Preloading
from quietshelf.serving.service.catalogue.views import View, look, shelf_row, versions_of
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.models import ShelfBody
from quietshelf.serving.service.problems import NotFound, Unavailable


class ShelfTime:
    """The time of a service: the database's, but never behind a shelf's own, so that no release is late.

    Attributes:
        ahead: By how many seconds shelves are ahead of the clock, after the clock was set back.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._offset, self.ahead = store, 0.0, 0.0

    def start(self, connection: Connection) -> None:
        """Continue from the latest time of any shelf: it never goes back."""
        self.read(connection)
        self.ahead = max(0.0, queries.last_time(connection) - self._store.now(connection))

    def read(self, connection: Connection) -> None:
        """Compare this machine's clock with the store's."""
        self._offset = self._store.now(connection) - time.monotonic()

    def stamp(self) -> float:
        """The time now, without asking the database."""
        return self._store.local_now(self._offset) + self.ahead

    def now(self, connection: Connection) -> float:
        """The time now."""
        return self._store.now(connection) + self.ahead


class Following:
    """Shelves, items and keys in memory, kept up to date with the database."""

    def __init__(self, store: Store, poll_seconds: float) -> None:
        self._store, self._poll_seconds = store, poll_seconds
        self.views: dict[str, View] = {}
        self.catalogues = Catalogues(store)
        self.preloading = Preloading(store, self.views)
        self.keyring = Keyring(poll_seconds)
        self.keys_at = 0.0

    def start(self) -> None:
        """Read the keys now, and shelves in another thread."""
        self.look_at_keys()
        with self._store.read() as connection:
            self.preloading.start(versions_of(connection))

    def close(self) -> None:
        """Stop the reading threads."""
        self.preloading.close()
        self.catalogues.close()

    def look_at_keys(self) -> None:
        """Read the keys, if that is due."""
        if time.monotonic() >= self.keys_at:
            with self._store.read() as connection:
                now = self._store.now(connection)
                self.keyring.update(keys.valid(connection, now), now)
            self.keys_at = time.monotonic() + self._poll_seconds

    def keys_changed(self) -> None:
        """Read the keys with the next chores, because one was created here."""
        self.keys_at = 0.0

    def look(self, connection: Connection) -> None:
        """Refresh the shelves that have changed."""
        living = versions_of(connection)
        self.preloading.follow(living)
        for name, view in list(self.views.items()):
            if living.get(name) != (view.shelf, view.versions):
                self._refresh(connection, name)

    def view(self, connection: Connection, name: str, row: Row) -> View:
        """The shelf at the versions in ``row``, which the transaction has read."""
        view = self.views.get(name)
        if view is not None and view.is_of(row):
            return view
        return look(connection, shelf_row(connection, name), view, self.catalogues.follow)

    def catch_up(self, name: str) -> None:
        """Read the items of a shelf now, in this thread, so that the next visitor sees them."""
        try:
            with self._store.read() as connection:
                row = shelf_row(connection, name)
        except NotFound:
            return
        self.catalogues.read(row, ShelfBody.model_validate_json(row["config"]).limits)

    def _refresh(self, connection: Connection, name: str) -> None:
        try:
            row = shelf_row(connection, name)
        except NotFound:
            self.views.pop(name, None)
            return
        with suppress(Unavailable):  # many items are being read: the next look finds them
            self.views[name] = look(connection, row, self.views[name], self.catalogues.follow)
