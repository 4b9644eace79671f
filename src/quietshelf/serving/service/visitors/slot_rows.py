"""Rows of slots: leases, batches that are not released, and how many arrivals a shelf has counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.batches import Batch, Lease, Schedule
from quietshelf.curation.fields import batch_fields, batch_from
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row, from_row, to_row
from quietshelf.serving.service.database.prepared import Prepared, insert_rows

MOVED = ("taken", "full_at", "present", "share", "leased", "unused", "latest")
"""What arrivals and leases change of a batch."""
_batches, _leases, _shelves = schema.batches.c, schema.leases.c, schema.shelves.c
_of_shelf: sa.BindParameter[int] = sa.bindparam("of_shelf")
_THIS = sa.and_(_batches.shelf == _of_shelf, _batches.batch == sa.bindparam("of_batch"))
_KEEP = Prepared(sa.update(schema.batches).where(_THIS).values({name: sa.bindparam(f"now_{name}") for name in MOVED}))
_EITHER_END = [
    sa.select(end_of(_batches.batch)).where(_batches.shelf == _of_shelf).scalar_subquery()
    for end_of in (sa.func.min, sa.func.max)
]
_IN_USE = Prepared(
    sa.select(schema.batches)
    .where(_batches.shelf == _of_shelf, sa.or_(_batches.batch.in_(_EITHER_END), _batches.leased > 0))
    .order_by(_batches.batch)
)
_HELD = Prepared(
    sa.select(schema.leases).where(_leases.shelf == _of_shelf).order_by(_leases.batch, _leases.first).with_for_update()
)
_ONE = sa.and_(
    _leases.shelf == _of_shelf, _leases.batch == sa.bindparam("of_batch"), _leases.first == sa.bindparam("of_first")
)
_ENDED = Prepared(sa.delete(schema.leases).where(_ONE))
_USED = ("taken", "last", "present", "share", "anonymous")
_USE = Prepared(sa.update(schema.leases).where(_ONE).values({name: sa.bindparam(f"now_{name}") for name in _USED}))
_COUNT = Prepared(
    sa.update(schema.shelves)
    .where(_shelves.shelf == _of_shelf)
    .values(
        arrivals=_shelves.arrivals + sa.bindparam("more"),
        anonymous=_shelves.anonymous + sa.bindparam("more_anonymous"),
        last_time=sa.bindparam("now"),
    )
)
_DUE = (
    sa.select(_batches.full_at + _batches.window + _batches.lag)
    .where(_batches.shelf == _shelves.shelf)
    .order_by(_batches.batch)
    .limit(1)
    .scalar_subquery()
)
_other = schema.leases.alias()
_UNTIL = sa.select(sa.func.min(_other.c.until)).where(_other.c.shelf == _shelves.shelf).scalar_subquery()
_MINE = Prepared(
    sa.select(
        *(_shelves[name] for name in ("shelf", "last_time", "config_version", "stock_version", "releases")),
        *(_leases[name] for name in (*Lease._fields, "anonymous")),
        (_shelves.second.isnot(None)).label("begun"),
        _DUE.label("due"),
        _UNTIL.label("ends"),
    )
    .join_from(schema.shelves, schema.leases, _shelves.shelf == _leases.shelf)
    .where(
        _shelves.name == sa.bindparam("wanted"), _shelves.deleted.is_(None), _leases.holder == sa.bindparam("holder")
    )
    .with_for_update(of=schema.leases)
)


def leased_by(connection: Connection, name: str, holder: str) -> Row | None:
    """A process's lease at a shelf with the shelf's versions, and nothing locked but the lease; None if there is none.

    ``due`` and ``ends``: when the shelf's oldest batch is published, and when the first lease of the shelf ends.
    """
    return _MINE.one(connection, {"wanted": name, "holder": holder})


def leases_of(connection: Connection, shelf: int) -> Sequence[Row]:
    """All leases of a shelf, locked."""
    return _HELD.rows(connection, {"of_shelf": shelf})


def lease_of(row: Mapping[str, Any]) -> Lease:
    """What the rules know of such a row."""
    return Lease(*(row[name] for name in Lease._fields))


def add_lease(connection: Connection, shelf: int, mine: Lease, holder: str, anonymous: int) -> None:
    """A new one."""
    row = {"shelf": shelf, **mine._asdict(), "holder": holder, "anonymous": anonymous}
    insert_rows(connection, schema.leases, [row])


def use_lease(connection: Connection, shelf: int, mine: Lease, anonymous: int) -> bool:
    """Write what was used of a lease; false where it is gone."""
    now = {f"now_{name}": getattr(mine, name) for name in _USED[:-1]}
    return bool(_USE.run(connection, {**_key(shelf, mine), **now, "now_anonymous": anonymous}))


def end_lease(connection: Connection, shelf: int, mine: Lease) -> None:
    """Delete one that is entered."""
    _ENDED.run(connection, _key(shelf, mine))


def add_batch(connection: Connection, shelf: int, batch: Batch, opened_at: float) -> None:
    """One that has opened."""
    row = {**to_row(batch_fields(batch)), "shelf": shelf, "opened_at": opened_at}
    connection.execute(sa.insert(schema.batches), row)


def keep_batch(connection: Connection, shelf: int, batch: Batch) -> None:
    """Write what has changed of a batch."""
    now = {f"now_{name}": getattr(batch, name) for name in MOVED}
    _KEEP.run(connection, {"of_shelf": shelf, "of_batch": batch.frozen.number, **now})


def count_arrivals(connection: Connection, shelf: int, arrivals: int, anonymous: int, now: float) -> None:
    """Count more arrivals at a shelf, and keep its time."""
    _COUNT.run(connection, {"of_shelf": shelf, "more": arrivals, "more_anonymous": anonymous, "now": now})


def keep_schedule(connection: Connection, shelf: int, schedule: Schedule) -> None:
    """Write which batch of a shelf comes next."""
    connection.execute(sa.update(schema.shelves).where(_shelves.shelf == shelf).values(asdict(schedule)))


def in_use(connection: Connection, shelf: int) -> dict[int, Batch]:
    """Of a shelf's batches that are not released the first, the last, and those with leases, by number.

    The others are full and wait for their turn: no arrival depends on them, and there may be many.
    """
    rows = _IN_USE.rows(connection, {"of_shelf": shelf})
    return {row["batch"]: batch_from(from_row(row)) for row in rows}


def first_end(connection: Connection) -> float | None:
    """When the next lease ends of itself; None if there is none."""
    return connection.execute(sa.select(sa.func.min(_leases.until))).scalar()


def shelves_with_ended_leases(connection: Connection, now: float) -> list[str]:
    """Names of the living shelves that have leases which ended by ``now``."""
    past = sa.or_(_leases.until <= now, _leases.taken >= _leases.size)
    query = (
        sa.select(_shelves.name).distinct().join_from(schema.shelves, schema.leases, _shelves.shelf == _leases.shelf)
    )
    return list(connection.execute(query.where(past, _shelves.deleted.is_(None)).order_by(_shelves.name)).scalars())


def drop_leases(connection: Connection, shelf: int, batch: int) -> int:
    """Forget the leases of a batch that is dropped; how many visitors came to them. They stay counted."""
    mine = (_leases.shelf == shelf, _leases.batch == batch)
    rows = connection.execute(sa.delete(schema.leases).where(*mine).returning(_leases.taken, _leases.anonymous)).all()
    taken, anonymous = (sum(row[place] for row in rows) for place in (0, 1))
    if rows:
        more = {"arrivals": _shelves.arrivals + taken, "anonymous": _shelves.anonymous + anonymous}
        connection.execute(sa.update(schema.shelves).where(_shelves.shelf == shelf).values(more))
    return int(taken)


def _key(shelf: int, mine: Lease) -> dict[str, int]:
    return {"of_shelf": shelf, "of_batch": mine.batch, "of_first": mine.first}
