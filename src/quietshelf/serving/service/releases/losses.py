"""Handles lost commits: drops open batches, and enters lost releases in the ledger by their cost alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import REGCLASS

from quietshelf.curation.prior_file import PriorFile
from quietshelf.privacy.accounting import Event, gaussian, noise_for
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service.catalogue.shelves import new_row
from quietshelf.serving.service.catalogue.views import settings_in
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.forgetting import forget_batch
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.database.vault import Mark, Progress
from quietshelf.serving.service.models import ShelfBody
from quietshelf.serving.service.releases import epochs
from quietshelf.serving.service.releases.election import announced, withdraw
from quietshelf.serving.service.visitors import slot_rows

LOST = "released in a commit that was lost; its figures are lost"
AGAIN = (
    "{when}: a backup was restored, or a commit was lost. {visitors} visitors of batches that were not released were "
    "left out. Releases that were lost ({lost}) are in the ledger by their cost alone. A person counted in between may "
    "be counted again: from now on the promise is to a visit, not to a person."
)
BURNT = "announced, and perhaps drawn, but not stored; its figures are dropped"
UNSEEN = (
    LOST,
    BURNT,
    "released after the backup that was restored; its figures are lost",
    "the process ended while it was released; its figures are not stored",
)
"""Details of events without a stored release. An earlier version wrote the last two."""
FORGOTTEN = "This shelf was created after the backup: only its promise and the cost of its releases are known."
NOWHERE: Mark = {"opened": -1, "released": -1, "announced": []}


class Dropped(NamedTuple):
    """What was lost: visitors of dropped batches, and releases known by their cost alone."""

    visitors: int
    lost_releases: int


def lose(connection: Connection, store: Store, source: NoiseSource, known: dict[str, Any]) -> dict[int, Dropped]:
    """Drop every unreleased batch, and enter the releases this database has forgotten; returns each shelf's losses."""
    marks: Progress = known.get("shelves", {})
    for each in announced(connection):  # by another process, and perhaps drawn
        mark = marks.setdefault(str(each.shelf), epochs.progress(connection)[str(each.shelf)])
        mark["announced"] = [*mark["announced"], each.batch]
        withdraw(connection, each.id)
    _bring_back(connection, store, marks)
    every = sa.select(schema.shelves).order_by(schema.shelves.c.shelf)  # locked, so that nobody opens a batch meanwhile
    rows = connection.execute(every.with_for_update()).mappings().all()
    return {
        row["shelf"]: _drop_shelf(connection, store, dict(row), marks.get(str(row["shelf"])), source) for row in rows
    }


def settle(connection: Connection, store: Store, known: dict[str, Any], lost: dict[int, Dropped]) -> Dropped:
    """Begin a new epoch in which this epoch file announces. The file is written even if the transaction fails."""
    total = Dropped(sum(each.visitors for each in lost.values()), sum(each.lost_releases for each in lost.values()))
    table = schema.store
    epoch = sa.case((table.c.epoch > known.get("epoch", 0), table.c.epoch), else_=known.get("epoch", 0)) + 1
    connection.execute(sa.update(table).values(epoch=epoch, dropped=table.c.dropped + total.visitors))
    if not store.sqlite:  # PostgreSQL's sequence does not know numbers that were inserted explicitly
        numbers = sa.func.pg_get_serial_sequence("shelves", "shelf")
        top = sa.select(sa.func.max(schema.shelves.c.shelf)).scalar_subquery()
        drawn = sa.func.coalesce(sa.func.pg_sequence_last_value(sa.cast(numbers, REGCLASS)), 0)
        connection.execute(sa.select(sa.func.setval(numbers, top)).where(top > drawn))
    epochs.take_over(store, connection)
    return total


def delete_batch(connection: Connection, shelf: int, batch: int) -> int:
    """Delete a batch; returns how many visitors it held."""
    table = schema.batches
    this = (table.c.shelf == shelf) & (table.c.batch == batch)
    taken = connection.execute(sa.select(table.c.taken).where(this)).scalar()
    in_leases = slot_rows.drop_leases(connection, shelf, batch)
    forget_batch(connection, shelf, batch)
    return int(taken or 0) + in_leases


def noted(row: Row, said: str) -> str:
    """The notes of a shelf, with one more."""
    return json.dumps([*json.loads(row["notes"]), said])


def enter_costs(
    connection: Connection, row: Row, batches: list[int], mark: Mark, source: NoiseSource, detail: str
) -> None:
    """Enter the cost of releases whose figures are lost. Every release of a shelf costs the same."""
    first = len(learning.stored_events(connection, row["shelf"]))
    learner = learning.learner(connection, row, settings_in(row))
    missing: list[tuple[int, Event]] = []
    for batch in batches:
        cost = _cost(learner, mark["rho_per_release"], batch, source)
        missing += [(batch, replace(event, detail=detail)) for event in cost]
    if missing:
        learning.enter(connection, row["shelf"], missing, first=first)


def _bring_back(connection: Connection, store: Store, known: Progress) -> None:
    """Enter shelves created after the backup as deleted ones, so that their promises and numbers stand."""
    now, here = store.now(connection), epochs.progress(connection)
    gone = {shelf: mark for shelf, mark in known.items() if shelf not in here}
    for shelf, mark in gone.items():
        body = ShelfBody.model_validate({**_promised(mark), "capacity": 1, "window": 1.0, "feature_map": "item"})
        deleted = {"shelf": int(shelf), "deleted": now, "notes": json.dumps([FORGOTTEN])}
        connection.execute(sa.insert(schema.shelves), {**new_row(mark["name"], body, now), **deleted})


def _drop_shelf(connection: Connection, store: Store, row: Row, mark: Mark | None, source: NoiseSource) -> Dropped:
    """Drop a shelf's unreleased batches, and enter the releases it has forgotten."""
    table, known = schema.batches, NOWHERE if mark is None else mark
    mine = (table.c.shelf == row["shelf"], table.c.stage != schema.RELEASED)
    query = sa.select(table.c.batch, table.c.size).where(*mine).order_by(table.c.batch)
    batches = connection.execute(query).all()
    visitors = sum(delete_batch(connection, row["shelf"], each.batch) for each in batches)
    connection.execute(sa.delete(schema.retries).where(schema.retries.c.shelf == row["shelf"]))
    row = {**row, "config": _config(row, known)}
    last = epochs.progress(connection)[str(row["shelf"])]["released"]
    lost = {*range(last + 1, known["released"] + 1), *(batch for batch in known["announced"] if batch > last)}
    enter_costs(connection, row, sorted(lost), known, source, LOST)
    values = {
        "config": row["config"],
        "opened": max(row["opened"], known["opened"]),
        "next_size": batches[0].size if batches else row["next_size"],
        "config_version": row["config_version"] + 1,
    }
    if mark is None or values["opened"] >= 0:  # else nobody can have come
        said = AGAIN.format(when=timestamp(store.now(connection)), visitors=visitors, lost=len(lost))
        values |= {"notes": noted(row, said), "history_incomplete": True}
    shelves = schema.shelves
    connection.execute(sa.update(shelves).where(shelves.c.shelf == row["shelf"]).values(values))
    return Dropped(visitors, len(lost))


def _config(row: Row, mark: Mark) -> str:
    """A shelf's settings, with the promise made after the backup if the first offer came after it."""
    if row["opened"] >= 0 or mark["opened"] < 0:
        return str(row["config"])
    body = ShelfBody.model_validate_json(row["config"])
    return body.model_copy(update=_promised(mark)).kept()


def _promised(mark: Mark) -> dict[str, Any]:
    """The settings behind a shelf's promise. Of a log behind its prior, only the cost is known."""
    promised = {"rho": mark["rho"], "visits": mark["visits"]}
    cost = mark.get("log")  # not in marks of earlier versions
    if cost is None:
        return promised
    log = PriorFile.forgotten(cost)
    return {**promised, "prior": log.to_dict(), "private": log.private}


def _cost(learner: Learner | None, rho: float, batch: int, source: NoiseSource) -> tuple[Event, ...]:
    if learner is None:  # the backup is older than the first offer: only the cost is known
        reach = noise_for(1.0, rho)
        return (gaussian("release", sensitivity=1.0, noise=reach, batch=batch, assumption=source.assumption),)
    scales = batch_pair.scales(rho=rho, bound=batch_pair.BOUND)
    return batch_pair.events(batch=batch, scales=scales, source=source)
