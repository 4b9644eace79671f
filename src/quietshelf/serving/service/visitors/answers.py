"""Enters answers in their slots, replacing features by the contributions computed from them.

Whether an answer counts depends only on its offer and on when it was received (R4, `quietshelf.curation.answers`): it
counts until the offer expires, one window after it was made. Its batch is never released before that (docs/proofs.md,
section 6).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation.answers import ERASURE, Verdict, answer
from quietshelf.curation.batches import Batch, due
from quietshelf.curation.contributions import contributions, row_width
from quietshelf.model.types import NOTHING
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.frozen import MOVING
from quietshelf.serving.service.database.learning import Row, packed, unpacked
from quietshelf.serving.service.database.lookup import SHARED, TO_CHANGE, Keyed
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Ticket
from quietshelf.serving.service.problems import AnswerConflict, Invalid, NotFound, OfferErased, OfferExpired, Problem
from quietshelf.serving.service.visitors.contributed import Contributed
from quietshelf.serving.service.visitors.inbox import Receipt

_offers = schema.offers.c
_PLACE = ("shelf", "batch")
_BATCHES = Keyed(schema.batches, _PLACE, take=MOVING)
# Shared with other answers, but not with a releaser, which must not sum while an answer is under way.
_SHARED = Keyed(schema.batches, _PLACE, take=_PLACE, only=f"t.stage = {schema.TAKING}", lock=SHARED)
_SLOT = ("slot", "nonce", "made", "items", "rows", "answer")
_SLOTS = Keyed(schema.offers, (*_PLACE, "slot"), take=(*_PLACE, *_SLOT), lock=TO_CHANGE)
_ENTER = Prepared(
    sa.update(schema.offers)
    .where(*(_offers[name] == sa.bindparam(f"of_{name}") for name in (*_PLACE, "slot")))
    .values(answer=sa.bindparam("chosen"), contribution=sa.bindparam("part"), rows=None)
)
_NAMES = Prepared(
    sa.select(schema.shelves.c.shelf, schema.shelves.c.name).where(
        schema.shelves.c.shelf.in_(sa.bindparam("shelves", expanding=True)), schema.shelves.c.deleted.is_(None)
    )
)
Place = tuple[int, int]
"""Number of a shelf, and of its batch."""


class Choice(NamedTuple):
    """A visitor's answer to an offer.

    Attributes:
        ticket: The offer.
        item: The item chosen; None for none.
        receipt: When it was received.
        only: The only shelf that the caller's key covers, by name; None for all.
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
        """What the slot will hold as its answer, and the rule that this answer breaks, if any."""
        shown = json.loads(row["items"])
        if shown is None:
            return NOTHING, "offers made on a device must be answered by a contribution, got a choice"
        unshown = self.item is not None and self.item not in shown
        place = NOTHING if self.item is None or unshown else shown.index(self.item)
        return place, "item must be null or one of the items shown" if unshown else None


Answered = Choice | Contributed


class Entry(NamedTuple):
    """An answer that counts: the row of its slot, with the answer, and its batch."""

    row: Row
    batch: Batch


def take(connection: Connection, store: Store, choices: Sequence[Answered]) -> list[Any]:
    """Take answers, with one set of statements for all shelves; replies None, or a `Problem`, to each."""
    hidden = _hidden(connection, choices)
    batches = _live(connection, store, choices)
    wanted = sorted({_slot_of(each.ticket) for each in choices if _slot_of(each.ticket)[:2] in batches})
    rows = {(row["shelf"], row["batch"], row["slot"]): row for row in _SLOTS.rows(connection, wanted)}
    entries: list[Entry] = []
    replies: list[Problem | None] = []
    for choice, none_of_theirs in zip(choices, hidden, strict=True):
        row = rows.get(_slot_of(choice.ticket))
        try:
            if none_of_theirs:
                raise NotFound("this shelf does not exist for this key")
            if row is None or row["nonce"] != choice.ticket.nonce:
                raise _expired()
            batch = batches[row["shelf"], row["batch"]]
            if _counts(row, choice, batch):
                entries.append(Entry(row, batch))
            replies.append(None)
        except Problem as problem:
            replies.append(problem)
    if entries:
        _enter(connection, entries)
    return replies


def erase(connection: Connection, shelf: int, person: str, *, received: float) -> int:
    """Make a person's offers contribute zero, unless their batch was due; returns how many. Their slots stay taken.

    Like answers, it goes by the time of receipt: whether it precedes a release must not depend on other requests.
    """
    table, batches = schema.offers, schema.batches
    due = sa.func.coalesce(batches.c.full_at + batches.c.window <= received, sa.false())
    taking = batches.c.stage == schema.TAKING  # a released batch may still have rows
    in_time = sa.select(batches.c.batch).where(batches.c.shelf == shelf, ~due, taking)
    where = (table.c.shelf == shelf) & (table.c.person == person) & table.c.batch.in_(in_time)
    order = sa.select(table.c.slot).where(where).order_by(table.c.batch, table.c.slot).with_for_update()
    connection.execute(order).all()  # locked in the order in which answers lock them
    erased = connection.execute(sa.update(table).where(where).values({**ERASURE, "items": "[]"}))
    return int(erased.rowcount)


def _slot_of(ticket: Ticket) -> tuple[int, int, int]:
    return ticket.shelf, ticket.batch, ticket.slot


def _enter(connection: Connection, entries: Sequence[Entry]) -> None:
    """Store answers and contributions, and delete the features. Visits that do not count contribute nothing.

    Contributions to several batches are computed together, each with the same bits as alone (R6).
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
        for (row, _), part in zip(some, parts, strict=True):
            place = {f"of_{name}": row[name] for name in (*_PLACE, "slot")}
            changed.append({**place, "chosen": row["answer"], "part": part})
    _ENTER.run_all(connection, changed)


def _hidden(connection: Connection, choices: Sequence[Answered]) -> list[bool]:
    """Which answers are to offers of a shelf that their key does not cover."""
    some = {choice.shelf for choice in choices if choice.only is not None}
    names = {row["shelf"]: row["name"] for row in _NAMES.rows(connection, {"shelves": sorted(some)})} if some else {}
    return [choice.only is not None and names.get(choice.shelf) != choice.only for choice in choices]


def _live(connection: Connection, store: Store, choices: Sequence[Answered]) -> dict[Place, Batch]:
    """Lock and return the batches that take answers: not sealed or released, nor due at the first of these receipts.

    The others are not locked, so that a late answer cannot even delay a release.
    """
    first: dict[Place, float] = {}
    for choice in choices:
        place = _slot_of(choice.ticket)[:2]
        first[place] = min(choice.receipt.time, first.get(place, math.inf))
    seen = [row for row in _BATCHES.rows(connection, sorted(first)) if row["stage"] == schema.TAKING]
    found = store.frozen.batches(connection, seen)
    live = {place: batch for place, batch in found.items() if not due(batch, first[place])}
    if store.sqlite:  # it has one writer, so nobody can seal them meanwhile
        return live
    # on PostgreSQL they may be sealed meanwhile, but what answers use of them is frozen
    taking = {(row["shelf"], row["batch"]) for row in _SHARED.rows(connection, list(live))}
    return {place: batch for place, batch in live.items() if place in taking}


def _counts(row: dict[str, Any], given: Answered, batch: Batch) -> bool:
    """Enter an answer in its row; False if the row already has it."""
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


def _expired() -> OfferExpired:
    return OfferExpired("offer must be answered before it expires, got an offer that has expired")
