"""Behind `quietshelf restore`: checks that a restore is needed, says what it costs, and carries it out.

The cost is exact: the restore runs in a transaction that is rolled back, and the ledger is read inside it. If the
database is gone, this happens in a temporary folder. The restore itself compares the agreed cost with the real one
before it commits.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.privacy.accounting import together
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.service import queries
from quietshelf.serving.service.access import admin_log
from quietshelf.serving.service.access.admin_log import Act
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.store import Store, made
from quietshelf.serving.service.database.vault import EPOCH, Vault
from quietshelf.serving.service.releases import epochs, in_use, losses, restore
from quietshelf.serving.service.releases.losses import Dropped
from quietshelf.serving.service.settings import ServiceSettings

NOTHING = (
    "there is nothing to restore: the database has every batch and every release that its epoch file knows of "
    "(start the service, which continues from here)"
)
CHANGED = "the database must not change after its cost was shown, got another cost (run the command again)"
BEHIND = "The database lags its epoch file: a backup was restored, or commits were lost."
NO_FILE = "There is no epoch file in the secrets folder, so what was released after this backup is unknown."
OTHER = "The epoch file belongs to another database, whose promises are entered here."
ELSEWHERE = "Only another machine's epoch file may have the last release; from now on this machine releases."


@dataclass(frozen=True, kw_only=True)
class Promised:
    """A shelf's promise by its ledger: per person or per visit, its rho, and in words."""

    unit: str
    rho: float
    words: str


@dataclass(frozen=True, kw_only=True)
class ShelfCost:
    """What a restore costs one shelf.

    Attributes:
        shelf: Its name.
        number: Its number.
        visitors: Visitors of open batches, who will be left out.
        lost_releases: Releases entered by their cost alone.
        rho_per_lost_release: What each of them costs.
        before: The promise now; None for a shelf that only the epoch file knows, which comes back as a deleted one.
        after: The promise afterwards.
    """

    shelf: str
    number: int
    visitors: int
    lost_releases: int
    rho_per_lost_release: float
    before: Promised | None
    after: Promised


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Why a database needs a restore, and what that costs each shelf and somebody on all of them."""

    reason: str
    visitors: int
    lost_releases: int
    rho_before: float
    rho: float
    shelves: tuple[ShelfCost, ...]


@contextmanager
def sole_use(settings: ServiceSettings) -> Iterator[None]:
    """Use the database and its epoch file alone; refused while a service uses them."""
    there = made(settings.url)
    if there:
        Vault(settings.secrets, make=False)  # refuse a folder without the key before writing to it
    with in_use.alone(settings):
        if there:
            with _opened(settings) as store:
                in_use.check_sessions(store)
        yield


def plan(settings: ServiceSettings, source: NoiseSource) -> Plan:
    """Compute what a restore would cost, without changing anything. The caller has sole use."""
    if made(settings.url):
        with _opened(settings) as store:
            return _rehearsed(store, source)
    with TemporaryDirectory(prefix="quietshelf-restore-") as folder:
        shutil.copy(Path(settings.secrets) / EPOCH, folder)
        elsewhere = replace(settings, database=f"sqlite:///{folder}/lost.db", secrets=folder)
        with _opened(elsewhere, make=True) as store:
            return _rehearsed(store, source)


def carry_out(settings: ServiceSettings, source: NoiseSource, agreed: Plan) -> None:
    """Restore at the agreed cost, or not at all. The caller has sole use."""
    with _opened(settings, make=not made(settings.url)) as store:
        store.migrate()
        with store.vault.locked():
            with store.write() as connection:
                in_use.refuse_sessions(connection)
                known = _known(connection, store)
                found, lost = _restored(connection, store, source, known)
                require(found == agreed, CHANGED)
                losses.settle(connection, store, known, lost)
                admin_log.enter(connection, Act("", "database restored"), store.now(connection))
            epochs.note(store, afresh=True, mine=True)


@contextmanager
def _opened(settings: ServiceSettings, *, make: bool = False) -> Iterator[Store]:
    store = Store(settings.url, Vault(settings.secrets, make=make))
    try:
        yield store
    finally:
        store.close()


def _rehearsed(store: Store, source: NoiseSource) -> Plan:
    store.migrate()
    with store.rehearse() as connection:
        return _restored(connection, store, source, _known(connection, store))[0]


def _restored(
    connection: Connection, store: Store, source: NoiseSource, known: dict[str, Any]
) -> tuple[Plan, dict[int, Dropped]]:
    """Restore in this transaction, and read the cost."""
    reason = _reason(connection, store)
    before, rho_before = _promises(connection)
    entered = {shelf: len(learning.stored_events(connection, shelf)) for shelf in before}
    lost = losses.lose(connection, store, source, known)
    after, rho = _promises(connection)
    costs = tuple(
        ShelfCost(
            shelf=row["name"],
            number=row["shelf"],
            visitors=lost[row["shelf"]].visitors,
            lost_releases=lost[row["shelf"]].lost_releases,
            rho_per_lost_release=_dearest(connection, row["shelf"], entered.get(row["shelf"], 0)),
            before=before.get(row["shelf"]),
            after=after[row["shelf"]],
        )
        for row in queries.shelf_rows(connection)
    )
    total = {name: sum(getattr(each, name) for each in costs) for name in ("visitors", "lost_releases")}
    return Plan(reason=reason, **total, rho_before=rho_before, rho=rho, shelves=costs), lost


def _reason(connection: Connection, store: Store) -> str:
    """Why this database needs a restore; refuses one that does not."""
    (this, _, under_way), file = epochs.look(connection), store.vault.epoch
    if not file:
        return NO_FILE
    if file["identity"] != this.identity:
        return OTHER
    if restore.state_of(connection, store).behind:
        return BEHIND
    alone = not file.get("witnesses") or store.sqlite
    require(not (alone and epochs.current(this, under_way, file)), NOTHING)
    return ELSEWHERE


def _known(connection: Connection, store: Store) -> dict[str, Any]:
    """The epoch file. If it belongs to a lost database, its shelves get new numbers after those of this one."""
    known, this = store.vault.epoch, connection.execute(sa.select(schema.store)).one()
    if not known or known["identity"] == this.identity:
        return known
    top = max(map(int, epochs.progress(connection)), default=0)
    moved = {str(int(shelf) + top): mark for shelf, mark in known["shelves"].items() if mark["opened"] >= 0}
    return {**known, "shelves": moved}


def _promises(connection: Connection) -> tuple[dict[int, Promised], float]:
    """Each shelf's promise by its ledger, and the rho of all of them together."""
    rows = queries.shelf_rows(connection)
    ledgers = {row["shelf"]: queries.ledger_of(connection, row, published=False) for row in rows}
    made_of = {shelf: ledger.promise() for shelf, ledger in ledgers.items()}
    found = {shelf: Promised(unit=each.unit, rho=each.rho, words=each.words) for shelf, each in made_of.items()}
    return found, together(*ledgers.values())


def _dearest(connection: Connection, shelf: int, first: int) -> float:
    """The cost of the most expensive batch among a shelf's events from number ``first`` on."""
    costs: dict[int, float] = {}
    for event in learning.stored_events(connection, shelf)[first:]:
        costs[int(event.batch)] = costs.get(int(event.batch), 0.0) + event.rho
    return max(costs.values(), default=0.0)
