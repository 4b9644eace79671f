"""A restored backup holds open batches that may have been released already; releasing them again would cost twice.

The epoch file, outside the database, knows how many batches were opened and released. A database that is behind it was
restored: its open batches are dropped, which costs nothing (docs/proofs.md, section 6), releases that it no longer
knows are entered in its ledger, and both are said. Batch numbers are never used twice.
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
from quietshelf.release.quiet import Learner, Quiet
from quietshelf.service import learning, schema
from quietshelf.service.learning import Row
from quietshelf.service.models import ShelfBody
from quietshelf.service.offers import moment
from quietshelf.service.store import Store
from quietshelf.service.vault import Marks
from quietshelf.service.views import settings_of
from quietshelf.types import require

LOST = "released after the backup that was restored; its figures are lost"
AGAIN = (
    "{when}: a backup was restored. {visitors} visitors of batches that were not released were left out, and {lost} "
    "releases made after the backup are in the ledger by their cost alone. A person counted after the backup may be "
    "counted again: to that person the promise may add up twice."
)


class Dropped(NamedTuple):
    """What a restoration left out."""

    visitors: int
    lost_releases: int


def marks(connection: Connection) -> Marks:
    """How far each shelf has come."""
    shelves, done = schema.shelves, schema.events
    query = (
        sa.select(shelves.c.shelf, shelves.c.opened, sa.func.coalesce(sa.func.max(done.c.batch), -1))
        .join_from(shelves, done, shelves.c.shelf == done.c.shelf, isouter=True)
        .group_by(shelves.c.shelf, shelves.c.opened)
    )
    return {str(row[0]): {"opened": row[1], "released": row[2]} for row in connection.execute(query)}


def note(store: Store, *, afresh: bool = False) -> None:
    """Bring the epoch file up to the database; what it knows beyond it stays, unless it is to begin ``afresh``."""
    with store.read() as connection:
        this = connection.execute(sa.select(schema.store)).one()
        found = marks(connection)
    file = store.vault.marks
    known = {} if afresh or file.get("identity") != this.identity else file["shelves"]
    merged = {shelf: _furthest(found.get(shelf), known.get(shelf)) for shelf in {**known, **found}}
    if file != {"identity": this.identity, "epoch": this.epoch, "shelves": merged}:
        store.vault.note(this.identity, this.epoch, merged)


def check(store: Store, source: NoiseSource) -> Dropped | None:
    """At the start: drop what a restored backup holds; None if the database is the one last seen."""
    with store.write() as connection:
        this = connection.execute(sa.select(schema.store)).one()
        found, known = marks(connection), store.vault.marks
        if known.get("identity") != this.identity:
            fits = not any(mark["opened"] >= 0 for mark in found.values())
            require(
                fits, "the epoch file must be the one of this database; if this is a backup, run quietshelf restore"
            )
            behind = False
        else:
            behind = this.epoch < known["epoch"] or any(
                _furthest(found.get(shelf), mark) != found.get(shelf) for shelf, mark in known["shelves"].items()
            )
        dropped = drop(connection, store, source, known) if behind else None
    note(store, afresh=behind)
    return dropped


def force(store: Store, source: NoiseSource) -> Dropped:
    """The explicit step: treat this database as a restored backup, whatever the epoch file says."""
    with store.write() as connection:
        this = connection.execute(sa.select(schema.store)).one()
        known = store.vault.marks
        dropped = drop(connection, store, source, known if known.get("identity") == this.identity else {})
    note(store, afresh=True)
    return dropped


def drop(connection: Connection, store: Store, source: NoiseSource, known: dict[str, Any]) -> Dropped:
    """Drop every batch that is not released, and enter the releases that this database has forgotten."""
    visitors, lost = 0, 0
    for row in connection.execute(sa.select(schema.shelves)).mappings().all():
        mark = known.get("shelves", {}).get(str(row["shelf"]), {"opened": -1, "released": -1})
        left, gone = _drop_shelf(connection, store, dict(row), mark, source)
        visitors, lost = visitors + left, lost + gone
    table = schema.store
    epoch = sa.case((table.c.epoch > known.get("epoch", 0), table.c.epoch), else_=known.get("epoch", 0)) + 1
    connection.execute(sa.update(table).values(epoch=epoch, dropped=table.c.dropped + visitors))
    return Dropped(visitors, lost)


def _drop_shelf(
    connection: Connection, store: Store, row: Row, mark: dict[str, int], source: NoiseSource
) -> tuple[int, int]:
    table = schema.batches
    query = sa.select(table).where(table.c.shelf == row["shelf"]).order_by(table.c.batch)
    batches = connection.execute(query).mappings().all()
    for part in (schema.offers, schema.batches, schema.retries):
        connection.execute(sa.delete(part).where(part.c.shelf == row["shelf"]))
    visitors = sum(batch["taken"] for batch in batches)
    events = _forgotten(connection, row, mark["released"], source)
    if events:
        connection.execute(sa.insert(schema.events), events)
    lost = len({event["batch"] for event in events})
    said = AGAIN.format(when=moment(store.now(connection)), visitors=visitors, lost=lost)
    values = {
        "open": False,
        "opened": max(row["opened"], mark["opened"]),
        "next_size": batches[0]["size"] if batches else row["next_size"],
        "notes": json.dumps([*json.loads(row["notes"]), said]),
        "config_version": row["config_version"] + 1,
    }
    shelves = schema.shelves
    connection.execute(sa.update(shelves).where(shelves.c.shelf == row["shelf"]).values(values))
    return visitors, lost


def _forgotten(connection: Connection, row: Row, released: int, source: NoiseSource) -> list[dict[str, Any]]:
    """Ledger rows for the batches released since the backup; every release of a shelf costs the same."""
    first = len(learning.stored_events(connection, row["shelf"]))
    last = marks(connection)[str(row["shelf"])]["released"]
    settings = settings_of(ShelfBody.model_validate_json(row["config"]))
    learner = learning.learner(connection, row, settings)
    missing: list[tuple[int, Event]] = []
    for batch in range(last + 1, released + 1):
        cost = _cost(learner, settings.learning(declared=True), batch, source)
        missing += [(batch, replace(event, detail=LOST)) for event in cost]
    return [
        {"shelf": row["shelf"], "number": number, "batch": batch, "event": json.dumps(event.to_dict())}
        for number, (batch, event) in enumerate(missing, start=first)
    ]


def _cost(learner: Learner | None, config: Quiet, batch: int, source: NoiseSource) -> tuple[Event, ...]:
    if learner is None:  # the backup is older than the first offer: only the cost is known
        reach = noise_for(1.0, config.rho_per_release)
        return (gaussian("release", sensitivity=1.0, noise=reach, visitors=batch, assumption=source.assumption),)
    scales, dim = learner.open(None, source).scales, learner.curvature.shape[-1]
    return batch_pair.events(dim, batch=batch, scales=scales, source=source)


def _furthest(one: dict[str, int] | None, other: dict[str, int] | None) -> dict[str, int]:
    found = [mark for mark in (one, other) if mark is not None]
    return {name: max(mark[name] for mark in found) for name in ("opened", "released")}
