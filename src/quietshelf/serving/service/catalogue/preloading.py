"""Reads shelves in the background before their first visitor comes, who then need not wait for settings or items.

At the start it reads all shelves, and `/readyz` waits for that. Later it reads new shelves soon after they appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from quietshelf.serving.service import logs
from quietshelf.serving.service.catalogue.views import Versions, View, look, shelf_row
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.problems import NotFound


class Preloading:
    """Fills ``views`` for shelves that have none. Users of a view must check that it is still current."""

    def __init__(self, store: Store, views: dict[str, View]) -> None:
        self._store, self._views = store, views
        self._asked: set[int] = set()
        self._first: list[Future[None]] | None = None
        self._thread = ThreadPoolExecutor(1, "quietshelf-preloading")

    @property
    def ready(self) -> bool:
        """Whether all shelves that existed at the start have been read."""
        return all(each.done() for each in self._first or [])

    def start(self, living: Mapping[str, tuple[int, Versions]]) -> None:
        """Read all shelves, given by name and number."""
        self._first = self._begin(living)

    def follow(self, living: Mapping[str, tuple[int, Versions]]) -> None:
        """Read new shelves, once started."""
        if self._first is not None:
            self._begin(living)

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _begin(self, living: Mapping[str, tuple[int, Versions]]) -> list[Future[None]]:
        self._asked &= {shelf for shelf, _ in living.values()}
        new = {name: shelf for name, (shelf, _) in living.items() if name not in self._views}
        wanted = [name for name, shelf in new.items() if shelf not in self._asked]
        self._asked |= set(new.values())
        return [self._thread.submit(self._read, name) for name in wanted]

    def _read(self, name: str) -> None:
        try:
            with self._store.read() as connection:
                self._views.setdefault(name, look(connection, shelf_row(connection, name)))
        except NotFound:  # deleted meanwhile
            return
        except Exception as error:  # its first visitor will see the error
            logs.failed("preloading", error)
