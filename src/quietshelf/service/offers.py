"""Offers enter their slots: the batch protocol (`quietshelf.curation`) over the visits of one transaction.

Reference: docs/proofs.md, section 6.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.curation import arms
from quietshelf.curation.batches import Batch, Schedule, arrive, due, open_batch, shelf_time
from quietshelf.curation.coins import Coins
from quietshelf.curation.decisions import decide
from quietshelf.curation.fields import batch_fields, start_fields
from quietshelf.curation.outlook import outlook_of, start
from quietshelf.curation.persons import admit
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.service import learning, schema
from quietshelf.service.inbox import Receipt
from quietshelf.service.learning import Row, packed, to_row
from quietshelf.service.models import OfferBody
from quietshelf.service.problems import Invalid, KeyReused, OfferExpired, Problem
from quietshelf.service.requests import visitor
from quietshelf.service.timestamps import timestamp
from quietshelf.service.vault import NONCE, Ticket, Vault
from quietshelf.service.views import View
from quietshelf.service.writer import AGAIN
from quietshelf.types import Context

RELEASE_FIRST: Final = AGAIN
"""In place of a reply: a release is due before this arrival, which is to come again after it (R5)."""
_batches, _shelves = schema.batches.c, schema.shelves.c
_THIS = sa.and_(_batches.shelf == sa.bindparam("of_shelf"), _batches.batch == sa.bindparam("of_batch"))
_ENTER = sa.insert(schema.offers)
_MOVED = ("taken", "full_at", "present", "share")
"""What arrivals change of a batch."""
_KEEP = sa.update(schema.batches).where(_THIS).values({name: sa.bindparam(f"now_{name}") for name in _MOVED})
_COUNT = (
    sa.update(schema.shelves)
    .where(_shelves.shelf == sa.bindparam("of_shelf"))
    .values(
        arrivals=_shelves.arrivals + sa.bindparam("more"),
        anonymous=_shelves.anonymous + sa.bindparam("more_anonymous"),
        last_time=sa.bindparam("now"),
    )
)


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
        waits: Whether an arrival waits for the release that was due at that time; if not, the last one serves it.
    """

    connection: Connection
    vault: Vault
    source: NoiseSource
    coins: Coins
    row: Row
    view: View
    waits: Callable[[float], bool]
    blocked: bool = False
    arrivals: list[Arrival] = field(default_factory=list)
    opened_at: dict[int, float] = field(default_factory=dict)
    retries: dict[str, dict[str, Any]] = field(default_factory=dict)
    new_retries: list[dict[str, Any]] = field(default_factory=list)
    persons: dict[str, tuple[int, int]] = field(default_factory=dict)
    known_persons: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now = self.row["last_time"]
        self.batches = learning.oldest_and_newest(self.connection, self.row["shelf"])
        self.schedule = Schedule(self.row["opened"], self.row["last_size"], self.row["next_size"])

    @property
    def opened_or_filled(self) -> bool:
        """Whether a batch opened or filled."""
        touched = {each.row["batch"] for each in self.arrivals}
        return bool(self.opened_at) or any(batch.full and batch.frozen.number in touched for batch in self.batches)

    def take(self, requests: Sequence[OfferRequest]) -> list[Any]:
        """A reply to each request: the offer, a `Problem`, or `RELEASE_FIRST`; then everything is written."""
        self._recall(requests)
        found = [self._one(request) for request in requests]
        if self.arrivals:
            self._decide()
            self._write()
        return [self._reply(each.row) if isinstance(each, Arrival) else each for each in found]

    def _one(self, request: OfferRequest) -> Any:
        """R5: a release that was due when the request was received comes first."""
        oldest = self.batches[0] if self.batches else None
        if oldest is not None and due(oldest, request.receipt.time) and self.waits(oldest.due_at):
            self.blocked = True
            return RELEASE_FIRST
        try:
            again = self._stored(request)
            return self._arrive(request, visitor(self.view, request.body)) if again is None else again
        except Problem as problem:
            return problem

    def _arrive(self, request: OfferRequest, context: Context) -> Any:
        """R2: the next slot, at the time of receipt."""
        now = shelf_time(request.receipt.time, self.now)
        learner = self._learner()
        if not self.batches or self.batches[-1].full:
            window = self.view.body.window
            outlook = outlook_of(self.view.settings, self.view.public, self.view.stock)
            self.schedule, batch = open_batch(self.schedule, learner, self.source, outlook, window=window)
            self.batches.append(batch)
            self.opened_at[batch.frozen.number] = now
        batch, self.now = self.batches[-1], now
        share, slot = arms.share_of(self.view.settings, learner), (batch.frozen.number, batch.taken)
        present = share < 1.0 and arms.present(share, self.coins.of([slot]))[0]  # else coins wait for all in one step
        self.batches[-1] = arrive(batch, now, present=present, share=share)
        shelf, number = self.row["shelf"], batch.frozen.number
        person = None if request.body.person is None else self.vault.person(shelf, request.body.person)
        visits = self.view.body.visits
        row = {"shelf": shelf, "batch": number, "slot": batch.taken, "nonce": secrets.token_bytes(NONCE), "made": now}
        row |= {"person": person, "release": len(learner.records)}
        counts = person is None or admit(self.persons, person, batch=number, visits=visits)
        arrival = Arrival(context, row, counts, present)
        self.arrivals.append(arrival)
        if request.retry is not None:
            self._remember(request, arrival)
        return arrival

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

    def _recall(self, requests: Sequence[OfferRequest]) -> None:
        """What is remembered about the keys and persons of these requests."""
        shelf, table = self.row["shelf"], schema.retries
        keys = {self._key(request) for request in requests if request.retry is not None}
        if keys:
            query = sa.select(table).where(table.c.shelf == shelf, table.c.key.in_(keys))
            self.retries = {row["key"]: dict(row) for row in self.connection.execute(query).mappings()}
        names = {self.vault.person(shelf, each.body.person) for each in requests if each.body.person is not None}
        if names:
            who = schema.persons
            query = sa.select(who).where(who.c.shelf == shelf, who.c.person.in_(names))
            found = self.connection.execute(query).mappings()
            self.known_persons = {row["person"]: (row["counted"], row["last_batch"]) for row in found}
            self.persons = dict(self.known_persons)

    def _stored(self, request: OfferRequest) -> Any:
        """The offer that this Idempotency-Key got before; None if there is none."""
        kept = None if request.retry is None else self.retries.get(self._key(request))
        if kept is None:
            return None
        if kept["fingerprint"] is None:
            raise OfferExpired("the offer made for this Idempotency-Key has been released; use a new key")
        if kept["fingerprint"] != self._fingerprint(request):
            raise KeyReused("an Idempotency-Key must come with the same request, got another one")
        place = (kept["batch"], kept["slot"])
        mine = [each for each in self.arrivals if (each.row["batch"], each.row["slot"]) == place]
        if mine:
            return mine[0]
        table = schema.offers
        where = (table.c.shelf == kept["shelf"], table.c.batch == kept["batch"], table.c.slot == kept["slot"])
        return self._reply(dict(self.connection.execute(sa.select(table).where(*where)).mappings().one()))

    def _remember(self, request: OfferRequest, arrival: Arrival) -> None:
        key = self._key(request)
        where = {name: arrival.row[name] for name in ("shelf", "batch", "slot", "made")}
        self.retries[key] = {"key": key, "fingerprint": self._fingerprint(request), **where}
        self.new_retries.append(self.retries[key])

    def _key(self, request: OfferRequest) -> str:
        return self.vault.retry(self.row["shelf"], request.retry or "")

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

    def _write(self) -> None:
        write, shelf, rows = self.connection.execute, self.row["shelf"], [each.row for each in self.arrivals]
        write(_ENTER, rows)
        if self.new_retries:
            write(sa.insert(schema.retries), self.new_retries)
        self._write_persons()
        for batch in self.batches:
            self._write_batch(batch, {row["batch"] for row in rows})
        anonymous = sum(row["person"] is None for row in rows)
        write(_COUNT, {"of_shelf": shelf, "more": len(rows), "more_anonymous": anonymous, "now": self.now})
        changes = asdict(self.schedule) if self.opened_at else {}
        if self.row["second"] is None:
            assert self.view.learner is not None  # noqa: S101 - somebody arrived
            changes |= to_row(start_fields(self.view.learner)) | {"prior_capacity": self.view.learner.capacity}
        if changes:
            write(sa.update(schema.shelves).where(_shelves.shelf == shelf).values(changes))

    def _write_batch(self, batch: Batch, touched: set[int]) -> None:
        number = batch.frozen.number
        place = {"shelf": self.row["shelf"], "batch": number}
        if number in self.opened_at:
            row = {**to_row(batch_fields(batch)), **place, "opened_at": self.opened_at[number]}
            self.connection.execute(sa.insert(schema.batches), row)
        elif number in touched:
            of = {f"of_{name}": value for name, value in place.items()}
            now = {f"now_{name}": getattr(batch, name) for name in _MOVED}
            self.connection.execute(_KEEP, {**of, **now})

    def _write_persons(self) -> None:
        table, shelf, known = schema.persons, self.row["shelf"], self.known_persons
        moved = {who: seen for who, seen in self.persons.items() if known.get(who) != seen}
        seen = {who: {"counted": counted, "last_batch": last} for who, (counted, last) in moved.items()}
        new = [{"shelf": shelf, "person": who, **each} for who, each in seen.items() if who not in known]
        if new:
            self.connection.execute(sa.insert(table), new)
        old = [{"who": who, **each} for who, each in seen.items() if who in known]
        if old:
            where = (table.c.shelf == shelf) & (table.c.person == sa.bindparam("who"))
            self.connection.execute(sa.update(table).where(where), old)
