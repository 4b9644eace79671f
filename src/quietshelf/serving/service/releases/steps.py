"""The steps that turn a full batch into exactly one release: seal, charge, draw, enter, publish (R5, R7).

All but *draw* are short transactions, with the slow work between them. *Seal*, once the feedback window is over: from
then on no answer and no erasure changes the batch, which is summed piece by piece (`summing`). *Charge*: the budget is
checked and the batch announced. *Draw*, in memory: its noise is drawn and the estimate fitted. *Enter*: release, ledger
entry and the end of the batch's slots, all or nothing; a batch that was announced but never entered is burnt
(`restore`). *Publish*: at a time fixed when the batch was full, offers begin to use the release. That time depends on
arrivals and the clock alone (docs/proofs.md, section 6). The rows of the shelf and of the batch are locked, so that
each shelf has one releaser at a time; if the batch is gone, another process has released it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation import batches
from quietshelf.curation.batches import published, shelf_time
from quietshelf.model.types import require
from quietshelf.privacy.accounting import BudgetExceeded
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.forgetting import forget_batch, forget_slots
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.schema import RELEASED, SEALED, TAKING
from quietshelf.serving.service.releases.election import Announcement
from quietshelf.serving.service.releases.summing import Sum
from quietshelf.serving.service.work import Once

CHANGED = "a release must follow what was known when it was drawn, got another batch, ledger or release"
Place = tuple[int, int]
"""Number of a shelf, and of its batch."""
_batches, _older = schema.batches.c, schema.batches.alias()
_due_at = _batches.full_at + _batches.window
_published_at = _due_at + _batches.lag
_full = _batches.taken + _batches.unused >= _batches.size
_before = sa.and_(_older.c.shelf == _batches.shelf, _older.c.batch < _batches.batch)
_FIRST = ~sa.exists().where(_before)
"""R5: only the oldest batch of each shelf."""
_NEXT = ~sa.exists().where(_before, _older.c.stage != RELEASED)
"""The oldest batch without a release."""
_HELD_UP = sa.exists().where(_before, _older.c.full_at.is_(None))
_DUE = Prepared(
    sa.select(_batches.shelf, _batches.batch, _due_at)
    .where(_NEXT, _batches.stage != RELEASED, _full)
    .order_by(_due_at, _batches.shelf)
)
_made = sa.case((_batches.stage == RELEASED, _published_at))
_PUBLICATIONS = Prepared(
    sa.select(sa.func.min(_published_at).label("next"), sa.func.min(_made).label("made")).where(_FIRST)
)
_of_shelf: sa.BindParameter[int] = sa.bindparam("of_shelf")
_of_batch: sa.BindParameter[int] = sa.bindparam("of_batch")
_this = sa.and_(_batches.shelf == _of_shelf, _batches.batch == _of_batch)
_shelves, _releases, _events = schema.shelves.c, schema.releases.c, schema.events.c
_SHELF = Prepared(
    sa.select(*(_shelves[name] for name in ("shelf", "name", "last_time", "releases")))
    .where(_shelves.shelf == _of_shelf)
    .with_for_update()
)
_BATCH = Prepared(sa.select(schema.batches).where(_this).with_for_update())
_MOVE = Prepared(sa.update(schema.batches).where(_this).values(stage=sa.bindparam("to")))
_END = Prepared(sa.delete(schema.batches).where(_this))


def _count(table: sa.Table) -> sa.Label[Any]:
    mine = sa.select(sa.func.count()).select_from(table).where(table.c.shelf == _of_shelf)
    return mine.scalar_subquery().label(table.name)


_COUNTS = Prepared(sa.select(_count(schema.events), _count(schema.releases)))
_LAST_RELEASE = Prepared(sa.select(sa.func.max(_releases.released_at)).where(_releases.shelf == _of_shelf))
_RELEASED_AT = Prepared(
    sa.select(_releases.released_at).where(_releases.shelf == _of_shelf, _releases.batch == _of_batch)
)
_to_publish = (
    sa.select(_batches.shelf, _batches.batch)
    .where(_FIRST, _batches.stage == RELEASED, _published_at <= sa.bindparam("upto"))
    .order_by(_batches.shelf)  # locked in the order in which offers lock
)
_TO_PUBLISH, _TO_PUBLISH_OF = Prepared(_to_publish), Prepared(_to_publish.where(_batches.shelf == _of_shelf))
_PUBLISH = Prepared(
    sa.update(schema.shelves)
    .where(_shelves.shelf == _of_shelf)
    .values(last_time=sa.bindparam("time"), releases=sa.bindparam("made"))
)
_PUBLICATION_OF = Prepared(  # in order of batches: one whose own time is earlier is published with the one before it
    sa.select(
        schema.shelves.c.shelf,
        sa.select(_published_at)
        .where(_batches.shelf == schema.shelves.c.shelf, _published_at > sa.bindparam("after"), ~_HELD_UP)
        .order_by(_batches.batch)
        .limit(1)
        .scalar_subquery()
        .label("at"),
    ).where(schema.shelves.c.shelf.in_(sa.bindparam("shelves", expanding=True)))
)


class Outcome(NamedTuple):
    """What became of a batch of ``size`` visitors; ``released`` is False if the ledger refused."""

    shelf: str
    batch: int
    size: int
    released: bool


class Charged(NamedTuple):
    """A batch ready to be drawn once announced: its sum, and the learner with its cost entered."""

    summed: Sum
    learner: Learner
    released_at: float
    events: int

    @property
    def place(self) -> Place:
        """Shelf and batch."""
        return self.summed.row["shelf"], self.summed.row["batch"]


class Drawing(NamedTuple):
    """A release that was announced and is being drawn; ``found`` will hold the new learner."""

    told: Announcement
    charged: Charged
    task: Once
    found: list[Learner]


class Publications(NamedTuple):
    """When the ``next`` release is due to be published, and the next one that is ``made``; None if there is none."""

    next: float | None
    made: float | None


def publications(connection: Connection) -> Publications:
    """When releases are due to be published."""
    (found,) = _PUBLICATIONS.tuples(connection, {})
    return Publications(*found)


def next_publication_of(connection: Connection, shelves: Sequence[int], *, after: float) -> dict[int, float]:
    """When the next release of each of these shelves is published, if after ``after``; infinity if no batch is full."""
    found = _PUBLICATION_OF.rows(connection, {"shelves": shelves, "after": after})
    return dict.fromkeys(shelves, math.inf) | {row["shelf"]: row["at"] for row in found if row["at"] is not None}


def due_batches(connection: Connection) -> dict[Place, float]:
    """The next batch of each shelf, if it is full, and when it is due; the earliest first."""
    return {(shelf, batch): due_at for shelf, batch, due_at in _DUE.tuples(connection, {})}


def seal(connection: Connection, place: Place) -> Row | None:
    """R5: make the slots of a due batch final as of this commit; None if the batch is gone.

    This waits for answers under way, which hold a shared lock on the batch.
    """
    found = _locked(connection, place)
    if found is None:
        return None
    batch = found[1]
    if batch["stage"] == TAKING:
        _MOVE.run(connection, {**_of(place), "to": SEALED})
    return {**batch, "stage": SEALED}


def charge(connection: Connection, source: NoiseSource, summed: Sum) -> Charged | Outcome | None:
    """R7: charge the cost of a summed batch, which the caller announces in the same transaction.

    None if the batch is gone. If the ledger refuses, the batch is deleted, and nothing is announced or drawn.
    """
    place = summed.row["shelf"], summed.row["batch"]
    found = _locked(connection, place)
    learner = summed.learner
    if found is None or learner is None:
        return None
    shelf, batch = found
    require(_as_known(connection, batch, len(learner.ledger.events), len(learner.records)), CHANGED)
    if source.noiseless:  # injected by a test: the ledger says that the cost is infinite
        learner = replace(learner, ledger=replace(learner.ledger, budget=None))
    try:
        charged = batches.charge(learner, summed.batch, source)
    except BudgetExceeded:
        forget_batch(connection, *place)
        return Outcome(shelf["name"], batch["batch"], batch["size"], released=False)
    time = published(summed.batch, _last_release(connection, shelf["shelf"]))
    return Charged(summed, charged, time, len(learner.ledger.events))


def draw(charged: Charged, source: NoiseSource) -> Learner:
    """R7: draw the noise of an announced batch, once, and learn from the noisy sum. Nobody has seen it yet."""
    return batches.draw(charged.learner, charged.summed.batch, charged.summed.total, source)


def enter(connection: Connection, charged: Charged, after: Learner) -> Outcome:
    """R7: store release and ledger entry, and end the batch's slots; refused if anything changed since the charge.

    Args:
        connection: The transaction.
        charged: The batch.
        after: The learner after this release.
    """
    place = charged.place
    found = _locked(connection, place)
    same = found is not None and _as_known(connection, found[1], charged.events, len(charged.learner.records))
    require(same, CHANGED)
    assert found is not None  # noqa: S101 - as above
    shelf, batch = found
    row = learning.release_row(after, {**batch, "released_at": charged.released_at})
    connection.execute(sa.insert(schema.releases), row)
    entries = [(batch["batch"], event) for event in after.ledger.events[charged.events :]]
    learning.enter(connection, batch["shelf"], entries, first=charged.events)
    _MOVE.run(connection, {**_of(place), "to": RELEASED})
    forget_slots(connection, *place, batch["size"])
    return Outcome(shelf["name"], batch["batch"], batch["size"], released=True)


def publish(connection: Connection, upto: float, *, only: int | None = None) -> list[str]:
    """R5: let offers use releases whose time has come, as of this commit; returns the names of their shelves.

    ``only``: the one shelf that the transaction has already locked. Locking others after it could deadlock.
    """
    names, query = [], _TO_PUBLISH if only is None else _TO_PUBLISH_OF
    for shelf_number, batch_number in query.tuples(connection, {"upto": upto, "of_shelf": only}):
        place = shelf_number, batch_number
        found = _locked(connection, place, any_stage=True)
        if found is None:
            continue  # another process has published it
        shelf = found[0]
        time = shelf_time(_RELEASED_AT.value(connection, _of(place)), shelf["last_time"])
        _PUBLISH.run(connection, {**_of(place), "time": time, "made": shelf["releases"] + 1})
        _END.run(connection, _of(place))
        names.append(shelf["name"])
    return names


def _of(place: Place) -> dict[str, int]:
    return {"of_shelf": place[0], "of_batch": place[1]}


def _locked(connection: Connection, place: Place, *, any_stage: bool = False) -> tuple[Row, Row] | None:
    """Lock shelf and batch; None if the batch is gone or released.

    It waits for held locks and never skips them: an answer under way must not change the order of releases.
    """
    shelf, batch = (query.one(connection, _of(place)) for query in (_SHELF, _BATCH))
    if shelf is None or batch is None or (batch["stage"] == RELEASED and not any_stage):
        return None
    return shelf, batch


def _as_known(connection: Connection, batch: Row, events: int, releases: int) -> bool:
    """Whether a batch is sealed and its shelf still has this number of events and releases."""
    known = _COUNTS.one(connection, {"of_shelf": batch["shelf"]})
    return batch["stage"] == SEALED and known == {"events": events, "releases": releases}


def _last_release(connection: Connection, shelf: int) -> float | None:
    """The time of a shelf's last release, published or not."""
    found: float | None = _LAST_RELEASE.value(connection, {"of_shelf": shelf})
    return found
