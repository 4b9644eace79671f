"""Reads, locks and writes shelves, batches and leases, for all shelves of a transaction together.

A transaction costs one set of statements, no matter how many shelves it serves. All processes lock rows in the same
order, so that they never deadlock: shelves by number, then leases by shelf, batch and first slot, then batches by shelf
and number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.batches import Batch, Lease, Schedule, ended
from quietshelf.curation.fields import batch_fields
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.frozen import MOVING, FrozenBatches
from quietshelf.serving.service.database.learning import Row, to_row
from quietshelf.serving.service.database.lookup import TO_CHANGE, Change, Keyed
from quietshelf.serving.service.database.prepared import Prepared, insert_rows
from quietshelf.serving.service.visitors.slots import Held, Slots
from quietshelf.serving.service.writer import Contended

MOVED = ("taken", "full_at", "present", "share", "leased", "unused", "latest")
"""Columns of a batch that arrivals and leases change."""
USED = ("taken", "last", "present", "share", "anonymous")
"""Columns of a lease that arrivals change."""
_OF_SCHEDULE = tuple(asdict(Schedule()))
_batches, _leases, _shelves = schema.batches.c, schema.leases.c, schema.shelves.c
_SEEN = ("shelf", "name", "last_time", "config_version", "stock_version", "releases")
_VERSIONS = (*(_shelves[name] for name in _SEEN), _shelves.second.isnot(None).label("begun"))
"""Columns that show whether a view is current; if not, the rest is read."""


def _among(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    return column.in_(sa.bindparam(name, expanding=True))


_LOCKED = Prepared(
    sa.select(*_VERSIONS, *(_shelves[name] for name in _OF_SCHEDULE))
    .where(_among(_shelves.name, "names"), _shelves.deleted.is_(None))
    .order_by(_shelves.shelf)
    .with_for_update()
)
_other = schema.batches.alias()
_EITHER_END = [
    sa.select(end_of(_other.c.batch)).where(_other.c.shelf == _batches.shelf).scalar_subquery()
    for end_of in (sa.func.min, sa.func.max)
]
_IN_USE = Prepared(
    sa.select(*(_batches[name] for name in MOVING))
    .where(_among(_batches.shelf, "shelves"), sa.or_(_batches.batch.in_(_EITHER_END), _batches.leased > 0))
    .order_by(_batches.shelf, _batches.batch)
)
_HELD = Prepared(
    sa.select(schema.leases)
    .where(
        sa.or_(
            _among(_leases.shelf, "locked"),
            sa.and_(_among(_leases.shelf, "mine"), _leases.holder == sa.bindparam("holder")),
        )
    )
    .order_by(_leases.shelf, _leases.batch, _leases.first)
    .with_for_update()
)
_DUE = (
    sa.select(_batches.full_at + _batches.window + _batches.lag)
    .where(_batches.shelf == _shelves.shelf)
    .order_by(_batches.batch)
    .limit(1)
    .scalar_subquery()
)
_UNTIL = sa.select(sa.func.min(_leases.until)).where(_leases.shelf == _shelves.shelf).scalar_subquery()
_WITH_LEASES = Prepared(
    sa.select(*_VERSIONS, _DUE.label("due"), _UNTIL.label("ends")).where(
        _among(_shelves.shelf, "shelves"), _shelves.deleted.is_(None)
    )
)
_BATCH, _LEASE = ("shelf", "batch"), ("shelf", "batch", "first")
_KEPT = Keyed(schema.batches, _BATCH, take=("batch",), lock=TO_CHANGE)
_KEEP = Change(schema.batches, _BATCH, to=MOVED)
_USE = Change(schema.leases, _LEASE, to=USED)
_COUNT = Change(schema.shelves, ("shelf",), to=("last_time",), by=("arrivals", "anonymous"))
_SCHEDULE = Change(schema.shelves, ("shelf",), to=_OF_SCHEDULE)
_ENDED = Prepared(sa.delete(schema.leases).where(*(_leases[name] == sa.bindparam(f"of_{name}") for name in _LEASE)))


Found = tuple[Row, Slots]
"""A shelf's row with its versions, and the slots it may give out."""


def read(
    connection: Connection,
    frozen: FrozenBatches,
    holder: str,
    names: Sequence[str],
    mine: Sequence[int],
    now: Callable[[], float],
) -> dict[str, Found]:
    """Read shelves: those in ``names`` locked; of those numbered in ``mine``, only ``holder``'s leases are locked.

    On locked shelves, other processes' leases that ended by ``now`` are returned to their batches. Shelves that do not
    exist, or have no such lease, are left out.
    """
    rows = _LOCKED.rows(connection, {"names": names}) if names else []
    batches = in_use(connection, frozen, [row["shelf"] for row in rows])
    leased = [shelf for shelf, some in batches.items() if any(each.leased for each in some.values())]
    held = _leases_of(connection, holder, leased, mine)
    found = {row["name"]: (_seen(row), _slots(row, batches.get(row["shelf"], {}))) for row in rows}
    for _, slots in found.values():
        for whose, each in held.get(slots.shelf, ()):
            if whose == holder:
                slots.held = each  # the stamps of its own arrivals decide whether it has ended
            elif ended(each.lease, now()):
                slots.finish(each)
    for row in _WITH_LEASES.rows(connection, {"shelves": mine}) if mine else ():
        for _, each in held.get(row["shelf"], ()):
            due = math.inf if row["due"] is None else row["due"]
            found[row["name"]] = _seen(row), Slots(row["shelf"], row["last_time"], due, each, ends=row["ends"])
    return found


def _seen(row: Row) -> Row:
    return {**row, "second": b"" if row["begun"] else None}


def _slots(row: Row, batches: Mapping[int, Batch]) -> Slots:
    schedule = Schedule(*(row[name] for name in _OF_SCHEDULE))
    return Slots(row["shelf"], row["last_time"], batches=dict(batches), before=batches, schedule=schedule)


def _leases_of(
    connection: Connection, holder: str, shelves: Sequence[int], mine: Sequence[int]
) -> dict[int, list[tuple[str, Held]]]:
    """Lock and read leases with their holders: all of ``shelves``, and this holder's of ``mine``."""
    given = {"locked": shelves, "mine": mine, "holder": holder}
    found: dict[int, list[tuple[str, Held]]] = {}
    for row in _HELD.rows(connection, given) if shelves or mine else ():
        held = Held(Lease(*(row[name] for name in Lease._fields)), row["anonymous"])
        found.setdefault(row["shelf"], []).append((row["holder"], held))
    return found


def in_use(connection: Connection, frozen: FrozenBatches, shelves: Sequence[int]) -> dict[int, dict[int, Batch]]:
    """Each shelf's first and last unreleased batch, and those with leases, by number.

    The others are full and waiting: no arrival depends on them, and there may be many.
    """
    found: dict[int, dict[int, Batch]] = {}
    rows = _IN_USE.rows(connection, {"shelves": shelves}) if shelves else []
    for (shelf, number), batch in frozen.batches(connection, rows).items():
        found.setdefault(shelf, {})[number] = batch
    return found


@dataclass
class SlotRows:
    """The rows that one transaction's visitors change, for all shelves."""

    used: list[Row] = field(default_factory=list)
    leased: list[Row] = field(default_factory=list)
    ended: list[Row] = field(default_factory=list)
    kept: list[Row] = field(default_factory=list)
    opened: list[Row] = field(default_factory=list)
    counted: list[Row] = field(default_factory=list)
    schedules: list[Row] = field(default_factory=list)

    def enter(self, slots: Slots, holder: str) -> None:
        """Add what has changed in a shelf's slots. Shelves must come in order of their numbers."""
        shelf = slots.shelf
        if slots.held is not None:
            row = {"shelf": shelf, **slots.held.lease._asdict(), "anonymous": slots.held.anonymous}
            (self.leased if slots.held.new else self.used).append({**row, "holder": holder})
        self.ended += [{"of_shelf": shelf, "of_batch": over.batch, "of_first": over.first} for over in slots.over]
        for number, batch in (slots.batches or {}).items():
            if number in slots.opened_at:
                opened = {"shelf": shelf, "opened_at": slots.opened_at[number]}
                self.opened.append({**to_row(batch_fields(batch)), **opened})
            elif batch is not slots.before[number]:
                self.kept.append({"shelf": shelf, "batch": number, **{name: getattr(batch, name) for name in MOVED}})
        if slots.batches is not None:
            moved = {"arrivals": slots.arrivals, "anonymous": slots.anonymous, "last_time": slots.now}
            self.counted.append({"shelf": shelf, **moved})
        if slots.opened_at:
            self.schedules.append({"shelf": shelf, **asdict(slots.schedule)})

    def write(self, connection: Connection) -> None:
        """Write them, one statement per kind of change; refused if one of this process's leases is gone."""
        if _USE.run(connection, self.used) != len(self.used):
            raise Contended
        if self.ended:
            _ENDED.run_all(connection, self.ended)
        if self.leased:
            insert_rows(connection, schema.leases, self.leased)
        if connection.dialect.name != "sqlite":  # in order, since answers lock them too, without locking the shelf
            _KEPT.rows(connection, [(row["shelf"], row["batch"]) for row in self.kept])
        _KEEP.run(connection, self.kept)
        if self.opened:
            insert_rows(connection, schema.batches, self.opened)
        _COUNT.run(connection, self.counted)
        _SCHEDULE.run(connection, self.schedules)


def first_end(connection: Connection) -> float | None:
    """When the next lease expires; None if there is none."""
    return connection.execute(sa.select(sa.func.min(_leases.until))).scalar()


def shelves_with_ended_leases(connection: Connection, now: float) -> list[str]:
    """Names of living shelves with leases that ended by ``now``."""
    past = sa.or_(_leases.until <= now, _leases.taken >= _leases.size)
    query = (
        sa.select(_shelves.name).distinct().join_from(schema.shelves, schema.leases, _shelves.shelf == _leases.shelf)
    )
    return list(connection.execute(query.where(past, _shelves.deleted.is_(None)).order_by(_shelves.name)).scalars())


def drop_leases(connection: Connection, shelf: int, batch: int) -> int:
    """Delete the leases of a dropped batch; returns their number of visitors, who stay counted as arrivals."""
    mine = (_leases.shelf == shelf, _leases.batch == batch)
    rows = connection.execute(sa.delete(schema.leases).where(*mine).returning(_leases.taken, _leases.anonymous)).all()
    taken, anonymous = (sum(row[place] for row in rows) for place in (0, 1))
    if rows:
        more = {"arrivals": _shelves.arrivals + taken, "anonymous": _shelves.anonymous + anonymous}
        connection.execute(sa.update(schema.shelves).where(_shelves.shelf == shelf).values(more))
    return int(taken)
