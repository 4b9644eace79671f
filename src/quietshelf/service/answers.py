"""Answers: checked against what was shown, turned into a bounded contribution, after which the features are dropped.

Whether an answer counts depends on its own offer and the clock alone: it does until the offer expires, one feedback
window after it was made, and its batch is released no earlier than that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.service import learning, schema
from quietshelf.service.learning import Row
from quietshelf.service.parts import contributions
from quietshelf.service.problems import AnswerConflict, Invalid, OfferErased, OfferExpired, Problem
from quietshelf.service.store import Store
from quietshelf.service.vault import Ticket
from quietshelf.service.writer import in_groups
from quietshelf.types import NOTHING

ERASED = -3
_batches, _offers = schema.batches.c, schema.offers.c
_MINE = sa.and_(_offers.shelf == sa.bindparam("of_shelf"), _offers.batch == sa.bindparam("of_batch"))
_BATCH = sa.select(schema.batches).where(
    _batches.shelf == sa.bindparam("of_shelf"), _batches.batch == sa.bindparam("of_batch")
)
# Shared with other answers, but not with a releaser, who must not sum while an answer is on its way.
_BATCH_SHARED = _BATCH.with_for_update(read=True)
_SLOTS = (
    sa.select(schema.offers)
    .where(_MINE, _offers.slot.in_(sa.bindparam("slots", expanding=True)))
    .order_by(_offers.slot)
    .with_for_update()
)
_ENTER = (
    sa.update(schema.offers)
    .where(_MINE, _offers.slot == sa.bindparam("this"))
    .values(answer=sa.bindparam("chosen"), contribution=sa.bindparam("part"), rows=None)
)


class Answer(NamedTuple):
    """Somebody's answer to an offer."""

    ticket: Ticket
    item: str | None

    @property
    def shelf(self) -> int:
        """Number of the shelf."""
        return self.ticket.shelf


def take(connection: Connection, store: Store, answers: Sequence[Answer]) -> list[Any]:
    """For each answer None if it is taken, or a `Problem`."""
    return in_groups(answers, lambda one: (one.ticket.shelf, one.ticket.batch), partial(_batch, connection, store))


def erase(connection: Connection, shelf: int, person: str) -> int:
    """Let a person's offers that are not released contribute zero; how many there were. Their slots stay taken."""
    table = schema.offers
    where = (table.c.shelf == shelf) & (table.c.person == person)
    order = sa.select(table.c.slot).where(where).order_by(table.c.batch, table.c.slot).with_for_update()
    connection.execute(order).all()  # locked in the order in which answers lock them
    nothing = {"rows": None, "contribution": None, "answer": ERASED, "items": "[]"}
    return int(connection.execute(sa.update(table).where(where).values(nothing)).rowcount)


def _batch(connection: Connection, store: Store, key: tuple[int, int], answers: list[Answer]) -> list[Any]:
    """Answers to offers of one batch."""
    place = {"of_shelf": key[0], "of_batch": key[1]}
    batch = _live(connection, store, place)
    if batch is None:
        return [_expired() for _ in answers]
    slots = sorted({answer.ticket.slot for answer in answers})
    rows = {row["slot"]: dict(row) for row in connection.execute(_SLOTS, {**place, "slots": slots}).mappings()}
    now = store.now(connection)
    replies: list[Problem | None] = []
    new: list[dict[str, Any]] = []
    for answer in answers:
        row = rows.get(answer.ticket.slot)
        try:
            if row is None or row["nonce"] != answer.ticket.nonce:
                raise _expired()
            if _counted(row, answer.item, expires=row["made"] + batch["window"], now=now):
                new.append(row)
            replies.append(None)
        except Problem as problem:
            replies.append(problem)
    if new:
        _enter(connection, batch, new)
    return replies


def _enter(connection: Connection, batch: Row, rows: Sequence[Row]) -> None:
    """Keep answers and contributions; the features are dropped, and a visit that does not count contributes nothing."""
    counted = [row for row in rows if row["rows"] is not None]
    content, chosen = [row["rows"] for row in counted], [row["answer"] for row in counted]
    parts = contributions(content, chosen, learning.frozen(batch), batch["grid"])
    part = {row["slot"]: each.tobytes() for row, each in zip(counted, parts, strict=True)}
    place = {"of_shelf": batch["shelf"], "of_batch": batch["batch"]}
    changed = [{**place, "this": row["slot"], "chosen": row["answer"], "part": part.get(row["slot"])} for row in rows]
    connection.execute(_ENTER, changed)


def _live(connection: Connection, store: Store, place: dict[str, int]) -> Row | None:
    """The batch, locked; None if it is released or due: a late answer must not so much as delay a release."""
    seen = connection.execute(_BATCH, place).mappings().one_or_none()
    if seen is None or (seen["full_at"] is not None and store.now(connection) >= seen["full_at"] + seen["window"]):
        return None
    if store.sqlite:  # one writer at a time: nobody else can change it
        return dict(seen)
    batch = connection.execute(_BATCH_SHARED, place).mappings().one_or_none()
    return None if batch is None else dict(batch)


def _counted(row: dict[str, Any], item: str | None, *, expires: float, now: float) -> bool:
    """Enter an answer in its row; False if it was there before."""
    if now >= expires:
        raise _expired()
    if row["answer"] == ERASED:
        raise OfferErased("the person asked for erasure; no answer is kept")
    shown = json.loads(row["items"])
    if item is not None and item not in shown:
        raise Invalid("item must be null or one of the items shown")
    chosen = NOTHING if item is None else shown.index(item)
    if row["answer"] is not None:
        if row["answer"] != chosen:
            raise AnswerConflict(
                "item must be the one given before, which stands, got another answer to the same offer"
            )
        return False
    row["answer"] = chosen
    return True


def _expired() -> OfferExpired:
    return OfferExpired("offer must be answered before it expires; whatever the answer is, it is no longer kept")
