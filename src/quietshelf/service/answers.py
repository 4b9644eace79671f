"""Answers, entered in their slots: a contribution takes the place of the features it was computed from.

Whether an answer counts depends on its own offer and on when it was received (R4, `quietshelf.curation.answers`): it
does until the offer expires, one window after it was made, and its batch is released no earlier than that
(docs/proofs.md, section 6).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.answers import ERASURE, Verdict, answer
from quietshelf.curation.batches import Batch, due
from quietshelf.curation.contributions import contributions, row_width
from quietshelf.curation.fields import batch_from
from quietshelf.service import schema
from quietshelf.service.inbox import Receipt
from quietshelf.service.learning import Row, from_row, packed, unpacked
from quietshelf.service.prepared import Prepared
from quietshelf.service.problems import AnswerConflict, Invalid, NotFound, OfferErased, OfferExpired, Problem
from quietshelf.service.store import Store
from quietshelf.service.vault import Ticket
from quietshelf.service.writer import in_groups
from quietshelf.types import NOTHING, FloatArray

_batches, _offers = schema.batches.c, schema.offers.c
_MINE = sa.and_(_offers.shelf == sa.bindparam("of_shelf"), _offers.batch == sa.bindparam("of_batch"))
_SAME = sa.select(schema.batches).where(
    _batches.shelf == sa.bindparam("of_shelf"), _batches.batch == sa.bindparam("of_batch")
)
_BATCH = Prepared(_SAME)
# Shared with other answers, but not with a releaser, who must not sum while an answer is on its way.
_BATCH_SHARED = Prepared(_SAME.with_only_columns(_batches.batch).with_for_update(read=True))
_SLOTS = Prepared(
    sa.select(*(_offers[name] for name in ("slot", "nonce", "made", "items", "rows", "answer")))
    .where(_MINE, _offers.slot.in_(sa.bindparam("slots", expanding=True)))
    .order_by(_offers.slot)
    .with_for_update()
)
_ENTER = Prepared(
    sa.update(schema.offers)
    .where(_MINE, _offers.slot == sa.bindparam("this"))
    .values(answer=sa.bindparam("chosen"), contribution=sa.bindparam("part"), rows=None)
)


class Choice(NamedTuple):
    """Somebody's answer to an offer.

    Attributes:
        ticket: Which offer.
        item: What was chosen; None for nothing.
        receipt: When it was received.
        only: The only shelf that the caller's key may touch, by name; None for all.
    """

    ticket: Ticket
    item: str | None
    receipt: Receipt
    only: str | None = None

    @property
    def shelf(self) -> int:
        """Number of the shelf."""
        return self.ticket.shelf


def take(connection: Connection, store: Store, choices: Sequence[Choice]) -> list[Any]:
    """For each answer None if it is taken, or a `Problem`."""
    return in_groups(choices, lambda one: (one.ticket.shelf, one.ticket.batch), partial(_of_batch, connection, store))


def erase(connection: Connection, shelf: int, person: str, *, received: float) -> int:
    """Let a person's offers contribute zero, unless their batch was due by then; how many. Their slots stay taken.

    By the time of receipt, as with answers: whether it comes before a release must not depend on others' work.
    """
    table, batches = schema.offers, schema.batches
    due = sa.func.coalesce(batches.c.full_at + batches.c.window <= received, sa.false())
    in_time = sa.select(batches.c.batch).where(batches.c.shelf == shelf, ~due)  # of a released batch rows may be left
    where = (table.c.shelf == shelf) & (table.c.person == person) & table.c.batch.in_(in_time)
    order = sa.select(table.c.slot).where(where).order_by(table.c.batch, table.c.slot).with_for_update()
    connection.execute(order).all()  # locked in the order in which answers lock them
    erased = connection.execute(sa.update(table).where(where).values({**ERASURE, "items": "[]"}))
    return int(erased.rowcount)


def _of_batch(connection: Connection, store: Store, key: tuple[int, int], choices: list[Choice]) -> list[Any]:
    """Answers to offers of one batch."""
    names = _names(connection, key[0]) if any(choice.only is not None for choice in choices) else []
    hidden = [choice.only is not None and choice.only not in names for choice in choices]
    place = {"of_shelf": key[0], "of_batch": key[1]}
    batch = _live(connection, store, place, min(choice.receipt.time for choice in choices))
    if batch is None:
        return [_hidden() if each else _expired() for each in hidden]
    slots = sorted({choice.ticket.slot for choice in choices})
    rows = {row["slot"]: row for row in _SLOTS.rows(connection, {**place, "slots": slots})}
    replies: list[Problem | None] = []
    new: dict[int, Row] = {}
    for choice, none_of_theirs in zip(choices, hidden, strict=True):
        row = rows.get(choice.ticket.slot)
        try:
            if none_of_theirs:
                raise _hidden()
            if row is None or row["nonce"] != choice.ticket.nonce:
                raise _expired()
            if _counts(row, choice, expires=row["made"] + batch.window):
                new[row["slot"]] = row
            replies.append(None)
        except Problem as problem:
            replies.append(problem)
    if new:
        _enter(connection, place, batch, list(new.values()))
    return replies


def _enter(connection: Connection, place: dict[str, int], batch: Batch, rows: Sequence[Row]) -> None:
    """Keep answers and contributions; the features are dropped, and a visit that does not count contributes nothing."""
    counted = [row for row in rows if row["rows"] is not None]
    parts = of_rows([row["rows"] for row in counted], [row["answer"] for row in counted], batch)
    part = {row["slot"]: packed(each) for row, each in zip(counted, parts, strict=True)}
    changed = [{**place, "this": row["slot"], "chosen": row["answer"], "part": part.get(row["slot"])} for row in rows]
    _ENTER.run_all(connection, changed)


def of_rows(rows: Sequence[bytes], chosen: Sequence[int], batch: Batch) -> list[FloatArray]:
    """R6: contributions of visitors to a batch, from the bytes of what each was shown."""
    numbers = row_width(batch.frozen)
    return contributions([unpacked(each, -1, numbers) for each in rows], chosen, batch.frozen, batch.grid)


def _names(connection: Connection, shelf: int) -> list[str]:
    """The name of a shelf, if it lives."""
    table = schema.shelves
    living = sa.select(table.c.name).where(table.c.shelf == shelf, table.c.deleted.is_(None))
    return list(connection.execute(living).scalars())


def _live(connection: Connection, store: Store, place: dict[str, int], received: float) -> Batch | None:
    """The batch, locked; None if it is released, or was due when the first of these answers was received.

    Without a lock in that case: a late answer must not so much as delay a release.
    """
    seen = _BATCH.one(connection, place)
    batch = None if seen is None else batch_from(from_row(seen))
    if batch is None or due(batch, received):
        return None
    # SQLite has one writer, so nobody takes it away; elsewhere it may be gone, but what answers use of it is frozen.
    return batch if store.sqlite or _BATCH_SHARED.one(connection, place) is not None else None


def _counts(row: dict[str, Any], choice: Choice, *, expires: float) -> bool:
    """Enter an answer in its row; False if it was there before."""
    shown = json.loads(row["items"])
    unshown = choice.item is not None and choice.item not in shown
    place = NOTHING if choice.item is None or unshown else shown.index(choice.item)
    verdict = answer(row["answer"], place, received=choice.receipt.time, expires=expires)
    if verdict is Verdict.EXPIRED:
        raise _expired()
    if verdict is Verdict.ERASED:
        raise OfferErased("the person asked for erasure; no answer is kept")
    if unshown:
        raise Invalid("item must be null or one of the items shown")
    if verdict is Verdict.CONFLICT:
        rule = "item must be the one given before, which stands"
        raise AnswerConflict(f"{rule}, got another answer to the same offer")
    row["answer"] = place
    return verdict is Verdict.COUNTS


def _hidden() -> NotFound:
    return NotFound("this shelf does not exist for this key")


def _expired() -> OfferExpired:
    return OfferExpired("offer must be answered before it expires, got an offer that has expired")
