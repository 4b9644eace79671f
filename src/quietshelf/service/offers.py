"""Offers enter their slots (`slots`): the batch protocol (`quietshelf.curation`) over the visits of one transaction.

Several processes may serve one shelf at the same time, so what is remembered of a person or an Idempotency-Key is
written only if it is still what was read; else the transaction is undone and asked again.

Reference: docs/proofs.md, section 6.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from quietshelf.curation import arms
from quietshelf.curation.batches import Batch, Schedule, open_batch, shelf_time
from quietshelf.curation.coins import Coins
from quietshelf.curation.decisions import decide
from quietshelf.curation.fields import start_fields
from quietshelf.curation.outlook import outlook_of, start
from quietshelf.curation.persons import admit
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.service import schema
from quietshelf.service.inbox import Receipt
from quietshelf.service.learning import Row, packed, to_row
from quietshelf.service.models import OfferBody
from quietshelf.service.prepared import Prepared, insert_rows
from quietshelf.service.problems import Invalid, KeyReused, OfferExpired, Problem
from quietshelf.service.requests import visitor
from quietshelf.service.slots import Slots
from quietshelf.service.timestamps import timestamp
from quietshelf.service.vault import NONCE, Ticket, Vault
from quietshelf.service.views import View
from quietshelf.service.writer import AGAIN, Contended
from quietshelf.types import Context

RELEASE_FIRST: Final = AGAIN
"""In place of a reply: a release is due before this arrival, which is to come again after it (R5)."""
_persons, _retries = schema.persons.c, schema.retries.c
_of_shelf: sa.BindParameter[int] = sa.bindparam("of_shelf")
_KNOWN_PERSONS = Prepared(
    sa.select(schema.persons).where(
        _persons.shelf == _of_shelf, _persons.person.in_(sa.bindparam("names", expanding=True))
    )
)
_KNOWN_RETRIES = Prepared(
    sa.select(schema.retries).where(_retries.shelf == _of_shelf, _retries.key.in_(sa.bindparam("keys", expanding=True)))
)
_PERSON = Prepared(
    sa.update(schema.persons)
    .where(
        _persons.shelf == _of_shelf,
        _persons.person == sa.bindparam("who"),
        _persons.counted == sa.bindparam("was"),
        _persons.last_batch == sa.bindparam("was_last"),
    )
    .values(counted=sa.bindparam("now"), last_batch=sa.bindparam("now_last"))
)
"""A person's count, if it is still what was read."""
_NEW, _OLD = ("shelf", "person", "counted", "last_batch"), ("of_shelf", "who", "was", "was_last", "now", "now_last")
_LIVES = sa.exists().where(
    schema.batches.c.shelf == schema.offers.c.shelf, schema.batches.c.batch == schema.offers.c.batch
)
"""Whether the batch of an offer is not released."""


@dataclass(frozen=True, eq=False)
class OfferRequest:
    """One request for an offer.

    Attributes:
        shelf: Name of the shelf.
        body: What was asked.
        retry: The Idempotency-Key.
        receipt: When it was received.
    """

    shelf: str
    body: OfferBody
    retry: str | None
    receipt: Receipt


class Named(NamedTuple):
    """A request with the keyed hashes of its Idempotency-Key and its person, and the nonce of its offer."""

    request: OfferRequest
    key: str | None
    person: str | None
    nonce: bytes


class Arrival(NamedTuple):
    """A valid request that took a slot: the visitor, what the table of offers will hold, and who serves it."""

    context: Context
    row: dict[str, Any]
    counts: bool
    present: bool


@dataclass
class OfferTransaction:
    """Takes the requests of one shelf in one transaction, in order.

    Attributes:
        slots: Those that it may give out.
        waits: Whether an arrival waits for the release that was due at that time; if not, the last one serves it.
        batch_limit: The most visitors in a batch of any shelf.
    """

    connection: Connection
    vault: Vault
    source: NoiseSource
    coins: Coins
    slots: Slots
    view: View
    waits: Callable[[float], bool]
    batch_limit: int | None = None
    blocked: bool = False
    arrivals: list[Arrival] = field(default_factory=list)
    retries: dict[str, dict[str, Any]] = field(default_factory=dict)
    new_retries: list[dict[str, Any]] = field(default_factory=list)
    persons: dict[str, tuple[int, int]] = field(default_factory=dict)
    known_persons: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, requests: Sequence[OfferRequest]) -> list[Any]:
        """A reply to each request: the offer, a `Problem`, or `RELEASE_FIRST`; then everything is written."""
        named = self._named(requests)
        self._recall(named)
        begins = self.view.learner is None
        found = [self._one(each) for each in named]
        if self.arrivals:
            self._decide()
            self._write(begins=begins)
        return [self._reply(each.row) if isinstance(each, Arrival) else each for each in found]

    def _named(self, requests: Sequence[OfferRequest]) -> list[Named]:
        shelf, vault, nonces = self.slots.shelf, self.vault, secrets.token_bytes(NONCE * len(requests))
        return [
            Named(
                each,
                None if each.retry is None else vault.retry(shelf, each.retry),
                None if each.body.person is None else vault.person(shelf, each.body.person),
                nonces[NONCE * place : NONCE * (place + 1)],
            )
            for place, each in enumerate(requests)
        ]

    def _one(self, named: Named) -> Any:
        """R5: a release that was due when the request was received comes first."""
        request = named.request
        now = shelf_time(request.receipt.time, self.slots.now)
        due = self.slots.due(now)
        if request.receipt.time >= due and self.waits(due):
            self.blocked = True
            return RELEASE_FIRST
        try:
            again = self._stored(named)
            return self._arrive(named, visitor(self.view, request.body), now) if again is None else again
        except Problem as problem:
            return problem

    def _arrive(self, named: Named, context: Context, now: float) -> Any:
        """R2: the next slot, at the time of receipt."""
        learner, shelf = self._learner(), self.slots.shelf
        place = self.slots.next(now, partial(self._open, learner))
        share = arms.share_of(self.view.settings, learner)
        present = share < 1.0 and arms.present(share, self.coins.of([place]))[0]  # else coins wait for all in one step
        person = named.person
        self.slots.take(present=present, share=share, anonymous=person is None)
        row = {"shelf": shelf, "batch": place[0], "slot": place[1], "nonce": named.nonce, "made": now}
        row |= {"person": person, "release": len(learner.records)}
        counts = person is None or admit(self.persons, person, batch=place[0], visits=self.view.body.visits)
        arrival = Arrival(context, row, counts, present)
        self.arrivals.append(arrival)
        if named.key is not None:
            self._remember(named.key, named.request, arrival)
        return arrival

    def _open(self, learner: Learner, schedule: Schedule) -> tuple[Schedule, Batch]:
        outlook = outlook_of(self.view.settings, self.view.public, self.view.stock)
        window, most = self.view.body.window, self.batch_limit
        return open_batch(schedule, learner, self.source, outlook, window=window, most=most)

    def _learner(self) -> Learner:
        """The learner; the first arrival freezes geometry and prior from what is public by then."""
        view = self.view
        if view.learner is None:
            try:
                learner = start(view.settings, view.public, view.stock, self.source)
            except (ValueError, np.linalg.LinAlgError) as error:
                raise Invalid(str(error)) from None
            view = self.view = replace(view, learner=learner, versions=(*view.versions[:3], True))
        assert view.learner is not None  # noqa: S101 - set above
        return view.learner

    def _decide(self) -> None:
        """R3, for all arrivals in one step; R6 needs the features of what was shown, of those who count."""
        coins = self.coins.of([(each.row["batch"], each.row["slot"]) for each in self.arrivals])
        contexts, release = [each.context for each in self.arrivals], self.view.release
        assert release is not None  # noqa: S101 - there is a learner
        settings = self.view.settings
        policies = arms.policies(settings, [each.present for each in self.arrivals])
        for each, decided in zip(self.arrivals, decide(policies, contexts, release, coins), strict=True):
            decision = arms.kept(settings, decided, each.context, present=each.present)
            each.row["items"] = json.dumps([self.view.ids[item] for item in decision.items.tolist()])
            each.row["rows"] = packed(decision.rows) if each.counts else None

    def _recall(self, named: Sequence[Named]) -> None:
        """What is remembered about the keys and persons of these requests."""
        shelf = {"of_shelf": self.slots.shelf}
        keys = [each.key for each in named if each.key is not None]
        if keys:
            self.retries = {row["key"]: row for row in _KNOWN_RETRIES.rows(self.connection, {**shelf, "keys": keys})}
        names = [each.person for each in named if each.person is not None]
        if names:
            found = _KNOWN_PERSONS.rows(self.connection, {**shelf, "names": names})
            self.known_persons = {row["person"]: (row["counted"], row["last_batch"]) for row in found}
            self.persons = dict(self.known_persons)

    def _stored(self, named: Named) -> Any:
        """The offer that this Idempotency-Key got before; None if there is none."""
        kept = None if named.key is None else self.retries.get(named.key)
        if kept is None:
            return None
        if kept["fingerprint"] is None:
            raise _forgotten()
        if kept["fingerprint"] != self._fingerprint(named.request):
            raise KeyReused("an Idempotency-Key must come with the same request, got another one")
        place = (kept["batch"], kept["slot"])
        mine = [each for each in self.arrivals if (each.row["batch"], each.row["slot"]) == place]
        if mine:
            return mine[0]
        table = schema.offers
        where = (table.c.shelf == kept["shelf"], table.c.batch == kept["batch"], table.c.slot == kept["slot"], _LIVES)
        row = self.connection.execute(sa.select(table).where(*where)).mappings().one_or_none()
        if row is None:  # released: the rows of a large batch are forgotten piece by piece
            raise _forgotten()
        return self._reply(dict(row))

    def _remember(self, key: str, request: OfferRequest, arrival: Arrival) -> None:
        where = {name: arrival.row[name] for name in ("shelf", "batch", "slot", "made")}
        self.retries[key] = {"key": key, "fingerprint": self._fingerprint(request), **where}
        self.new_retries.append(self.retries[key])

    def _fingerprint(self, request: OfferRequest) -> str:
        new = {name for name in ("ranking", "attributes") if getattr(request.body, name) is None}
        return self.vault.fingerprint(request.body.model_dump_json(exclude=new).encode())  # as before there were those

    def _reply(self, row: Row) -> dict[str, Any]:
        ticket = Ticket(row["shelf"], row["batch"], row["slot"], row["nonce"])
        return {
            "offer": self.vault.offer_id(ticket),
            "items": json.loads(row["items"]),
            "release": row["release"],
            "expires": timestamp(row["made"] + self.view.body.window),
        }

    def _write(self, *, begins: bool) -> None:
        """What belongs to these visitors alone, in an order that two transactions share: so they never deadlock."""
        self._write_persons()
        insert_rows(self.connection, schema.offers, [each.row for each in self.arrivals])
        self._add(schema.retries, sorted(self.new_retries, key=lambda row: str(row["key"])))
        if begins:
            assert self.view.learner is not None  # noqa: S101 - somebody arrived
            start = to_row(start_fields(self.view.learner)) | {"prior_capacity": self.view.learner.capacity}
            where = schema.shelves.c.shelf == self.slots.shelf
            self.connection.execute(sa.update(schema.shelves).where(where).values(start))

    def _write_persons(self) -> None:
        """Counts that moved, each if it is still what was read: a person may come to two processes at once."""
        known, shelf = self.known_persons, self.slots.shelf
        moved = sorted(who for who, seen in self.persons.items() if known.get(who) != seen)
        new = [(shelf, who, *self.persons[who]) for who in moved if who not in known]
        self._add(schema.persons, [dict(zip(_NEW, each, strict=True)) for each in new])
        old = [(shelf, who, *known[who], *self.persons[who]) for who in moved if who in known]
        given = [dict(zip(_OLD, each, strict=True)) for each in old]
        if given and _PERSON.run_all(self.connection, given) != len(given):
            raise Contended

    def _add(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Add what was not there when it was looked for; the same person or key may come to another process."""
        try:
            if rows:
                insert_rows(self.connection, table, rows)
        except IntegrityError:
            raise Contended from None


def _forgotten() -> OfferExpired:
    return OfferExpired("the offer made for this Idempotency-Key has been released; use a new key")
