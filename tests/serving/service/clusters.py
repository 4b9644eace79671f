"""Several machines on one PostgreSQL with one clock, and everybody whose noise was drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from tests.serving.service.elections import people
from tests.serving.service.harness import FIRST, WINDOW, FakeClock
from tests.serving.service.machines import machine, shop, with_the_key_of

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases.election import LEASE_SECONDS, WITNESS_SECONDS, Announcement
from quietshelf.serving.service.releases.steps import Charged, Drawing
from quietshelf.serving.service.service import Service

LONG = 2 * (LEASE_SECONDS + WITNESS_SECONDS)


class Cluster:
    """Machines on one PostgreSQL with one clock, who know of each other, and everybody whose noise was drawn.

    Attributes:
        alive: Machines that run, by name.
        drawn: Visitors of every batch whose noise was drawn, by the nonces of their offers.
        point: Called before and after every durable step of a machine, with both their names.
    """

    def __init__(self, database: str, folder: Path) -> None:
        self.database, self.folder, self.clock = database, folder, FakeClock()
        self.alive: dict[str, Service] = {}
        self.drawn: list[frozenset[bytes]] = []
        self.point: Callable[[str, str], None] = lambda _machine, _step: None

    def start(self, name: str) -> Service:
        """A machine that starts: with its own folder, or a new one that holds the key alone."""
        folder = self.folder / name
        if not folder.exists() and (self.folder / "a").exists():
            with_the_key_of(self.folder / "a", folder)
        service = machine(self.database, folder, self.clock)
        self._watch(name, service)
        self.alive[name] = service
        service.prepare()
        return service

    def _watch(self, name: str, service: Service) -> None:
        real, vault, dialect = service.releasing._draw, service.vault, service.store._writer.dialect

        def draw(told: Announcement, charged: Charged) -> Drawing:
            self.point(name, "before the draw")
            table, (shelf, batch) = schema.offers, charged.place
            seen = sa.select(table.c.nonce).where(table.c.shelf == shelf, table.c.batch == batch)
            with service.store.read() as connection:
                visitors = frozenset(bytes(nonce) for nonce in connection.execute(seen).scalars())
            drawn = real(told, charged)
            self.drawn.append(visitors)
            self.point(name, "after the draw")
            return drawn

        def around(what: str, step: Callable[[Any], None]) -> Callable[[Any], None]:
            def done(given: Any) -> None:
                if getattr(given, "read_only", False):  # of a transaction that only looked
                    return step(given)
                self.point(name, f"before the {what}")
                step(given)
                return self.point(name, f"after the {what}")

            return done

        service.releasing._draw = draw  # type: ignore[method-assign]
        vault.note = around("note", vault.note)  # type: ignore[method-assign, assignment]
        dialect.do_commit = around("commit", dialect.do_commit)  # type: ignore[method-assign, assignment]

    def kill(self, name: str) -> None:
        self.alive.pop(name).store.close()

    def passes(self, seconds: float, *, without: str = "") -> None:
        """Time passes, and every machine looks once a second; those named in ``without`` are stopped."""
        for _ in range(round(seconds)):
            self.clock.time += 1.0
            for name, service in self.alive.items():
                if name not in without:
                    service.releasing.stay()

    def due(self, *, without: str = "") -> None:
        """The first batch is full and due, and one more visitor waits."""
        people(next(iter(self.alive.values())), FIRST, "person")
        self.passes(WINDOW, without=without)

    def releases(self, name: str, *, others: str = "") -> bool:
        """Whether a machine releases within a few looks of all, at which those in ``others`` look too."""
        for _ in range(3):
            if self.alive[name].releasing.release():
                return True
            for other in others:
                self.alive[other].releasing.stay()
        return False

    def once(self) -> bool:
        """Whether no visitor was drawn twice."""
        return sum(map(len, self.drawn)) == len(frozenset().union(*self.drawn))

    def close(self) -> None:
        for name in list(self.alive):
            self.kill(name)


@contextmanager
def started(database: str, folder: Path, names: str = "ab") -> Iterator[Cluster]:
    """A cluster of machines that have known each other for a while."""
    cluster = Cluster(database, folder)
    shop(cluster.start(names[0]))
    people(cluster.alive[names[0]], 1, "early")
    for name in names[1:]:
        cluster.start(name)
    cluster.passes(4)
    try:
        yield cluster
    finally:
        cluster.close()
