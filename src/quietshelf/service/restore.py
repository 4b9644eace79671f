"""A restored backup holds open batches that may have been released already; releasing them again would cost twice.

The epoch file, outside the database, knows how many batches were opened and released, and which were about to be. A
database that is behind it was restored: its open batches are dropped, which costs nothing (docs/proofs.md, section 6),
releases and shelves that it no longer knows are entered in its ledger by their cost, and all is said. A batch that was
about to be released when the process ended may have been: it alone is dropped, and its cost entered. Batch numbers are
never used twice.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.accounting import Event, gaussian, noise_for
from quietshelf.release import batch_pair
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.service import epochs, learning, schema
from quietshelf.service.learning import Row
from quietshelf.service.models import ShelfBody
from quietshelf.service.moments import moment
from quietshelf.service.releaser import forget_batch
from quietshelf.service.shelves import new_row
from quietshelf.service.store import Store
from quietshelf.service.vault import Mark, Marks
from quietshelf.service.views import settings_in
from quietshelf.types import require

LOST = "released after the backup that was restored; its figures are lost"
AGAIN = (
    "{when}: a backup was restored. {visitors} visitors of batches that were not released were left out. Releases "
    "made after the backup ({lost}) are in the ledger by their cost alone. A person counted after the backup may be "
    "counted again: from now on the promise is to a visit, not to a person."
)
UNSURE = "the process ended while it was released; its figures are not stored"
INTERRUPTED = (
    "{when}: the process ended during the release of batch {batch}. Its {visitors} visitors were left out, since it "
    "may have been published; its cost is in the ledger."
)
FORGOTTEN = "This shelf was made after the backup: of it only the promise and the cost of its releases are known."
NOWHERE: Mark = {"opened": -1, "released": -1, "releasing": []}
Waiting = dict[tuple[str, int], bool]


class Dropped(NamedTuple):
    """What a restoration left out."""

    visitors: int
    lost_releases: int


def check(store: Store, source: NoiseSource) -> Dropped | None:
    """At the start: drop what may have been released already; None if the database is the one last seen."""
    with store.vault.locked():
        with store.write() as connection:
            this = connection.execute(sa.select(schema.store)).one()
            found, known = epochs.marks(connection), store.vault.marks
            same = known.get("identity") == this.identity
            require(same or not (epochs.used(found) or epochs.used(known.get("shelves", {}))), epochs.OTHER)
            waiting = _waiting(connection)
            behind = same and (this.epoch < known["epoch"] or _behind(found, known["shelves"], waiting))
            fresh = this.seal is None or not epochs.used(found)  # nothing was ever announced
            if behind:
                dropped: Dropped | None = drop(connection, store, source, known)
            else:
                dropped = _settle(connection, store, source, known["shelves"] if same else {}, waiting)
                if fresh:
                    epochs.take_over(store, connection)
        epochs.note(store, settled=True, afresh=behind, mine=behind or fresh)
    return dropped


def force(store: Store, source: NoiseSource) -> Dropped:
    """The explicit step: treat this database as a restored backup, whatever the epoch file says."""
    with store.vault.locked():
        with store.write() as connection:
            this = connection.execute(sa.select(schema.store)).one()
            known = store.vault.marks
            if known and known["identity"] != this.identity:  # of a database that is lost: its promises stand
                top = max(map(int, epochs.marks(connection)), default=0)
                moved = {str(int(shelf) + top): mark for shelf, mark in known["shelves"].items() if mark["opened"] >= 0}
                known = {**known, "shelves": moved}
            dropped = drop(connection, store, source, known)
        epochs.note(store, settled=True, afresh=True, mine=True)
    return dropped


def drop(connection: Connection, store: Store, source: NoiseSource, known: dict[str, Any]) -> Dropped:
    """Drop every batch that is not released, and enter the shelves and releases that this database has forgotten."""
    _bring_back(connection, store, known.get("shelves", {}))
    visitors, lost = 0, 0
    for row in connection.execute(sa.select(schema.shelves)).mappings().all():
        mark = known.get("shelves", {}).get(str(row["shelf"]))
        left, gone = _drop_shelf(connection, store, dict(row), mark, source)
        visitors, lost = visitors + left, lost + gone
    table = schema.store
    epoch = sa.case((table.c.epoch > known.get("epoch", 0), table.c.epoch), else_=known.get("epoch", 0)) + 1
    connection.execute(sa.update(table).values(epoch=epoch, dropped=table.c.dropped + visitors))
    epochs.take_over(store, connection)
    return Dropped(visitors, lost)


def _behind(found: Marks, known: Marks, waiting: Waiting) -> bool:
    """Whether shelves, batches or releases are missing; a batch about to be released was full in the newest state."""
    for shelf, mark in known.items():
        here = found.get(shelf)
        if here is None or mark["opened"] > here["opened"] or mark["released"] > here["released"]:
            return True
    return not all(waiting.get(each, False) for each in _pending(found, known, waiting))


def _pending(found: Marks, known: Marks, waiting: Waiting) -> list[tuple[str, int]]:
    """Batches that were about to be released and were not, here; one that was opened and is gone was refused."""
    return [
        (shelf, batch)
        for shelf, mark in known.items()
        for batch in mark["releasing"]
        if batch > found[shelf]["opened"] or (shelf, batch) in waiting
    ]


def _settle(
    connection: Connection, store: Store, source: NoiseSource, known: Marks, waiting: Waiting
) -> Dropped | None:
    """Drop the batches that were about to be released, and enter their cost; None if there are none."""
    visitors, pending = 0, _pending(epochs.marks(connection), known, waiting)
    for shelf, batch in pending:
        table = schema.shelves
        row = dict(connection.execute(sa.select(table).where(table.c.shelf == int(shelf))).mappings().one())
        left = _delete_batch(connection, row["shelf"], batch)
        _enter(connection, row, [batch], known[shelf], source, UNSURE)
        said = INTERRUPTED.format(when=moment(store.now(connection)), batch=batch, visitors=left)
        changed = {"notes": _noted(row, said), "config_version": row["config_version"] + 1}
        connection.execute(sa.update(table).where(table.c.shelf == row["shelf"]).values(changed))
        visitors += left
    connection.execute(sa.update(schema.store).values(dropped=schema.store.c.dropped + visitors))
    return Dropped(visitors, len(pending)) if pending else None


def _bring_back(connection: Connection, store: Store, known: Marks) -> None:
    """Enter shelves made after the backup, as deleted ones: their promises stand, their numbers stay taken."""
    now, here = store.now(connection), epochs.marks(connection)
    gone = {shelf: mark for shelf, mark in known.items() if shelf not in here}
    for shelf, mark in gone.items():
        promised = {"rho": mark["rho"], "visits": mark["visits"]}
        body = ShelfBody.model_validate({**promised, "capacity": 1, "window": 1.0, "feature_map": "item"})
        deleted = {"shelf": int(shelf), "deleted": now, "notes": json.dumps([FORGOTTEN])}
        connection.execute(sa.insert(schema.shelves), {**new_row(mark["name"], body, now), **deleted})
    if gone and not store.sqlite:  # numbers that were said, not drawn, are unknown to PostgreSQL's sequence
        top = sa.select(sa.func.max(schema.shelves.c.shelf)).scalar_subquery()
        connection.execute(sa.select(sa.func.setval(sa.func.pg_get_serial_sequence("shelves", "shelf"), top)))


def _drop_shelf(
    connection: Connection, store: Store, row: Row, mark: Mark | None, source: NoiseSource
) -> tuple[int, int]:
    """Drop a shelf's batches and enter what it has forgotten; visitors left out, releases entered."""
    table, known = schema.batches, NOWHERE if mark is None else mark
    query = sa.select(table.c.batch, table.c.size).where(table.c.shelf == row["shelf"]).order_by(table.c.batch)
    batches = connection.execute(query).all()
    visitors = sum(_delete_batch(connection, row["shelf"], each.batch) for each in batches)
    connection.execute(sa.delete(schema.retries).where(schema.retries.c.shelf == row["shelf"]))
    row = {**row, "config": _config(row, known)}
    last = epochs.marks(connection)[str(row["shelf"])]["released"]
    lost = {*range(last + 1, known["released"] + 1), *(batch for batch in known["releasing"] if batch > last)}
    _enter(connection, row, sorted(lost), known, source, LOST)
    values = {
        "open": False,
        "config": row["config"],
        "opened": max(row["opened"], known["opened"]),
        "next_size": batches[0].size if batches else row["next_size"],
        "config_version": row["config_version"] + 1,
    }
    if mark is None or values["opened"] >= 0:  # else it is known that nobody came
        said = AGAIN.format(when=moment(store.now(connection)), visitors=visitors, lost=len(lost))
        values |= {"notes": _noted(row, said), "estranged": True}
    shelves = schema.shelves
    connection.execute(sa.update(shelves).where(shelves.c.shelf == row["shelf"]).values(values))
    return visitors, len(lost)


def _delete_batch(connection: Connection, shelf: int, batch: int) -> int:
    """Forget a batch; how many visitors it held."""
    table = schema.batches
    this = (table.c.shelf == shelf) & (table.c.batch == batch)
    taken = connection.execute(sa.select(table.c.taken).where(this)).scalar_one()
    forget_batch(connection, shelf, batch)
    return int(taken)


def _noted(row: Row, said: str) -> str:
    return json.dumps([*json.loads(row["notes"]), said])


def _config(row: Row, mark: Mark) -> str:
    """A shelf's settings: if the first offer came after the backup, with the promise that stood then."""
    if row["opened"] >= 0 or mark["opened"] < 0:
        return str(row["config"])
    body = ShelfBody.model_validate_json(row["config"])
    return body.model_copy(update={"rho": mark["rho"], "visits": mark["visits"]}).model_dump_json()


def _enter(connection: Connection, row: Row, batches: list[int], mark: Mark, source: NoiseSource, detail: str) -> None:
    """Enter the cost of releases whose figures are unknown; every release of a shelf costs the same."""
    first = len(learning.stored_events(connection, row["shelf"]))
    learner = learning.learner(connection, row, settings_in(row))
    missing: list[tuple[int, Event]] = []
    for batch in batches:
        cost = _cost(learner, mark["rho_per_release"], batch, source)
        missing += [(batch, replace(event, detail=detail)) for event in cost]
    if missing:
        learning.enter(connection, row["shelf"], missing, first=first)


def _cost(learner: Learner | None, rho: float, batch: int, source: NoiseSource) -> tuple[Event, ...]:
    if learner is None:  # the backup is older than the first offer: only the cost is known
        reach = noise_for(1.0, rho)
        return (gaussian("release", sensitivity=1.0, noise=reach, visitors=batch, assumption=source.assumption),)
    scales, dim = learner.open(None, source).scales, learner.curvature.shape[-1]
    return batch_pair.events(dim, batch=batch, scales=scales, source=source)


def _waiting(connection: Connection) -> Waiting:
    """The batches that are not released; whether they are full."""
    table = schema.batches
    query = sa.select(table.c.shelf, table.c.batch, table.c.full_at)
    return {(str(row.shelf), row.batch): row.full_at is not None for row in connection.execute(query)}
