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
from quietshelf.model.types import NOTHING
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row, from_row, packed, unpacked
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Ticket
from quietshelf.serving.service.problems import AnswerConflict, Invalid, NotFound, OfferErased, OfferExpired, Problem
from quietshelf.serving.service.visitors.contributed import Contributed
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.writer import in_groups

_batches, _offers = schema.batches.c, schema.offers.c
_MINE = sa.and_(_offers.shelf == sa.bindparam("of_shelf"), _offers.batch == sa.bindparam("of_batch"))
_SAME = sa.select(schema.batches).where(
    _batches.shelf == sa.bindparam("of_shelf"), _batches.batch == sa.bindparam("of_batch")
)
_BATCH = Prepared(_SAME)
# Shared with other answers, but not with a releaser, who must not sum while an answer is on its way.
_BATCH_SHARED = Prepared(
    _SAME.with_only_columns(_batches.batch).where(_batches.stage == schema.TAKING).with_for_update(read=True)
)
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

    def read(self, row: dict[str, Any], batch: Batch) -> tuple[int, str | None]:  # noqa: ARG002 - as `Contributed` has it
        """What the slot will hold as its answer, and the rule that this answer breaks."""
        shown = json.loads(row["items"])
        if shown is None:
            return NOTHING, "offers made on a device must be answered by a contribution, got a choice"
        unshown = self.item is not None and self.item not in shown
        place = NOTHING if self.item is None or unshown else shown.index(self.item)
        return place, "item must be null or one of the items shown" if unshown else None


Answered = Choice | Contributed


class Entry(NamedTuple):
    """An answer that counts: the row of its slot, with the answer, and its batch."""

    place: dict[str, int]
    row: Row
    batch: Batch


def take(connection: Connection, store: Store, choices: Sequence[Answered]) -> list[Any]:
    """For each answer None if it is taken, or a `Problem`."""
    entries: list[Entry] = []
    judge = partial(_of_batch, connection, store, entries)
    replies = in_groups(choices, lambda one: (one.ticket.shelf, one.ticket.batch), judge)
    if entries:
        _enter(connection, entries)
    return replies


def erase(connection: Connection, shelf: int, person: str, *, received: float) -> int:
    """Let a person's offers contribute zero, unless their batch was due by then; how many. Their slots stay taken.

    By the time of receipt, as with answers: whether it comes before a release must not depend on others' work.
    """
    table, batches = schema.offers, schema.batches
    due = sa.func.coalesce(batches.c.full_at + batches.c.window <= received, sa.false())
    taking = batches.c.stage == schema.TAKING  # of a released batch rows may be left
    in_time = sa.select(batches.c.batch).where(batches.c.shelf == shelf, ~due, taking)
    where = (table.c.shelf == shelf) & (table.c.person == person) & table.c.batch.in_(in_time)
    order = sa.select(table.c.slot).where(where).order_by(table.c.batch, table.c.slot).with_for_update()
    connection.execute(order).all()  # locked in the order in which answers lock them
    erased = connection.execute(sa.update(table).where(where).values({**ERASURE, "items": "[]"}))
    return int(erased.rowcount)


def _of_batch(
    connection: Connection, store: Store, entries: list[Entry], key: tuple[int, int], choices: list[Answered]
) -> list[Any]:
    """Answers to offers of one batch; those that count go to ``entries``."""
    names = _names(connection, key[0]) if any(choice.only is not None for choice in choices) else []
    hidden = [choice.only is not None and choice.only not in names for choice in choices]
    place = {"of_shelf": key[0], "of_batch": key[1]}
    batch = _live(connection, store, place, min(choice.receipt.time for choice in choices))
    if batch is None:
        return [_hidden() if each else _expired() for each in hidden]
    slots = sorted({choice.ticket.slot for choice in choices})
    rows = {row["slot"]: row for row in _SLOTS.rows(connection, {**place, "slots": slots})}
    replies: list[Problem | None] = []
    for choice, none_of_theirs in zip(choices, hidden, strict=True):
        row = rows.get(choice.ticket.slot)
        try:
            if none_of_theirs:
                raise _hidden()
            if row is None or row["nonce"] != choice.ticket.nonce:
                raise _expired()
            if _counts(row, choice, batch):
                entries.append(Entry(place, row, batch))
            replies.append(None)
        except Problem as problem:
            replies.append(problem)
    return replies


def _enter(connection: Connection, entries: Sequence[Entry]) -> None:
    """Keep answers and contributions; the features are dropped, and a visit that does not count contributes nothing.

    Visitors of several batches are bounded together, each to the same bits as alone (R6).
    """
    alike: dict[Any, list[Entry]] = {}
    for each in entries:
        frozen = each.batch.frozen
        here = each.row["rows"] is not None and "part" not in each.row  # else computed on a device, or not counted
        alike.setdefault((len(frozen.theta), row_width(frozen), each.batch.grid) if here else None, []).append(each)
    changed = []
    for kind, some in alike.items():
        parts: Sequence[bytes | None] = [each.row.get("part") for each in some]
        if kind is not None:
            rows = [unpacked(each.row["rows"], -1, kind[1]) for each in some]
            found = contributions(rows, [e.row["answer"] for e in some], [e.batch.frozen for e in some], kind[2])
            parts = [packed(each) for each in found]
        for (place, row, _), part in zip(some, parts, strict=True):
            changed.append({**place, "this": row["slot"], "chosen": row["answer"], "part": part})
    _ENTER.run_all(connection, changed)


def _names(connection: Connection, shelf: int) -> list[str]:
    """The name of a shelf, if it lives."""
    table = schema.shelves
    living = sa.select(table.c.name).where(table.c.shelf == shelf, table.c.deleted.is_(None))
    return list(connection.execute(living).scalars())


def _live(connection: Connection, store: Store, place: dict[str, int], received: float) -> Batch | None:
    """The batch, locked; None if it is sealed or released, or was due when the first of these answers was received.

    Without a lock in that case: a late answer must not so much as delay a release.
    """
    seen = _BATCH.one(connection, place)
    batch = None if seen is None else batch_from(from_row(seen))
    if seen is None or batch is None or seen["stage"] != schema.TAKING or due(batch, received):
        return None
    # SQLite has one writer, so nobody takes it away; elsewhere it may be sealed, but what answers use of it is frozen.
    return batch if store.sqlite or _BATCH_SHARED.one(connection, place) is not None else None


def _counts(row: dict[str, Any], given: Answered, batch: Batch) -> bool:
    """Enter an answer in its row; False if it was there before."""
    kept = dict(row)
    place, broken = given.read(kept, batch)
    verdict = answer(row["answer"], place, received=given.receipt.time, expires=row["made"] + batch.window)
    if verdict is Verdict.EXPIRED:
        raise _expired()
    if verdict is Verdict.ERASED:
        raise OfferErased("the person asked for erasure; no answer is kept")
    if broken is not None:
        raise Invalid(broken)
    if verdict is Verdict.CONFLICT:
        rule = "an answer must be the one given before, which stands"
        raise AnswerConflict(f"{rule}, got another answer to the same offer")
    if verdict is Verdict.COUNTS:
        row |= {**kept, "answer": place}
    return verdict is Verdict.COUNTS


def _hidden() -> NotFound:
    return NotFound("this shelf does not exist for this key")


def _expired() -> OfferExpired:
    return OfferExpired("offer must be answered before it expires, got an offer that has expired")
