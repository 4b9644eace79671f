"""Makes offers: runs the batch protocol (`quietshelf.curation`) over the visits of one transaction.

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

from quietshelf.curation import arms
from quietshelf.curation.batches import Batch, Schedule, open_batch, shelf_time
from quietshelf.curation.coins import Coins
from quietshelf.curation.decisions import decide
from quietshelf.curation.fields import start_fields
from quietshelf.curation.outlook import outlook_of, start
from quietshelf.curation.persons import admit
from quietshelf.model.types import Context
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.service.catalogue.views import View
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import packed, to_row
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.database.vault import NONCE, Ticket, Vault
from quietshelf.serving.service.models import OfferBody
from quietshelf.serving.service.problems import Invalid, KeyReused, OfferExpired, Problem
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.remembering import Memory, NewRows
from quietshelf.serving.service.visitors.requests import visitor
from quietshelf.serving.service.visitors.slots import Slots
from quietshelf.serving.service.writer import AGAIN, problem_or

RELEASE_FIRST: Final = AGAIN
"""In place of a reply: a release is due first, and the request must come again after it (R5)."""
_LIVES = sa.exists().where(
    schema.batches.c.shelf == schema.offers.c.shelf,
    schema.batches.c.batch == schema.offers.c.batch,
    schema.batches.c.stage == schema.TAKING,
    sa.or_(
        schema.batches.c.full_at.is_(None),
        schema.batches.c.full_at + schema.batches.c.window > sa.bindparam("received", type_=sa.Double),
    ),
)
"""Whether the batch of an offer was not yet due when a request was received."""


@dataclass(frozen=True, eq=False)
class OfferRequest:
    """One request for an offer.

    Attributes:
        shelf: Name of the shelf.
        body: What was asked.
        retry: The Idempotency-Key.
        receipt: When it was received.
        seen: The view it was checked against before it was queued, and the resulting visitor or `Problem`.
    """

    shelf: str
    body: OfferBody
    retry: str | None
    receipt: Receipt
    seen: tuple[View, Context | Problem] | None = None

    def checked(self, view: View | None) -> OfferRequest:
        """Check the request before it is queued, so that invalid requests do not occupy the writer."""
        if view is None:
            return self
        try:
            return replace(self, seen=(view, problem_or(lambda: visitor(view, self.body))))
        except Exception:  # a bug: the writer will meet and report it again
            return self

    def visitor(self, view: View) -> Context:
        """R1: the visitor, by the transaction's view; reuses an earlier check if nothing has changed."""
        before, found = self.seen or (None, None)
        if found is None or before is None or not view.has_items_of(before):
            return visitor(view, self.body)
        if isinstance(found, Problem):
            raise found
        return found

    def nonce(self, vault: Vault, shelf: int, drawn: bytes) -> bytes:  # noqa: ARG002 - a ticket has one of its own
        """The nonce of its offer."""
        return drawn


class Named(NamedTuple):
    """A request with the keyed hashes of its Idempotency-Key and its person, and the nonce of its offer."""

    request: OfferRequest
    key: str | None
    person: str | None
    nonce: bytes


class Arrival(NamedTuple):
    """A valid request that took a slot: its visitor, its row, whether it counts, its arm, and the items shown."""

    context: Context
    row: dict[str, Any]
    counts: bool
    present: bool
    shown: list[str]


@dataclass
class OfferTransaction:
    """Takes the requests of one shelf in one transaction, in order. Its `memory` must be recalled first.

    Attributes:
        requests: The requests.
        slots: The slots it may give out.
        waits: Whether arrivals wait for a release due at a given time; if not, they use the previous one.
        batch_limit: The most visitors in a batch of any shelf.
        release_seconds: How long a release may take before visitors wait for it (`lag`).
        blocked: When the release is due that some of them wait for.
    """

    connection: Connection
    vault: Vault
    source: NoiseSource
    coins: Coins
    slots: Slots
    view: View
    requests: Sequence[OfferRequest]
    waits: Callable[[float], bool]
    batch_limit: int | None = None
    release_seconds: float = 0.0
    blocked: float | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self._named = self._all_named()
        keys = [each.key for each in self._named if each.key is not None]
        persons = [each.person for each in self._named if each.person is not None]
        self.memory = Memory(self.slots.shelf, keys, persons)

    def take(self, rows: NewRows) -> list[Any]:
        """Reply to each request: an offer, a `Problem`, or `RELEASE_FIRST`. Adds to ``rows`` what is to be written."""
        begins = self.view.learner is None
        found = [self._one(each) for each in self._named]
        if self.arrivals:
            self._decide()
            self.memory.enter(rows, (each.row for each in self.arrivals))
            if begins:
                self._write_start()
        return [self._reply(each.row, each.shown) if isinstance(each, Arrival) else each for each in found]

    def _all_named(self) -> list[Named]:
        shelf, vault, nonces = self.slots.shelf, self.vault, secrets.token_bytes(NONCE * len(self.requests))
        return [
            Named(
                each,
                None if each.retry is None else vault.retry(shelf, each.retry),
                None if each.body.person is None else vault.person(shelf, each.body.person),
                each.nonce(vault, shelf, nonces[NONCE * place : NONCE * (place + 1)]),
            )
            for place, each in enumerate(self.requests)
        ]

    def _one(self, named: Named) -> Any:
        """Serve one request. R5: a release that was due when it was received comes first."""
        request = named.request
        now = shelf_time(request.receipt.time, self.slots.now)
        due = self.slots.due(now)
        if request.receipt.time >= due and self.waits(due):
            self.blocked = due
            return RELEASE_FIRST
        try:
            again = self._stored(named)
            return self._arrive(named, request.visitor(self.view), now) if again is None else again
        except Problem as problem:
            return problem

    def _arrive(self, named: Named, context: Context, now: float) -> Any:
        """R2: assign the next slot, at the time of receipt."""
        learner, shelf = self._learner(), self.slots.shelf
        place = self.slots.next(now, partial(self._open, learner))
        share = arms.share_of(self.view.settings, learner)
        present = share < 1.0 and arms.present(share, self.coins.of([place]))[0]  # else all coins are drawn in one step
        person = named.person
        self.slots.take(present=present, share=share, anonymous=person is None)
        row = {"shelf": shelf, "batch": place[0], "slot": place[1], "nonce": named.nonce, "made": now}
        row |= {"person": person, "release": len(learner.records)}
        counts = person is None or admit(self.memory.persons, person, batch=place[0], visits=self.view.body.visits)
        arrival = Arrival(context, row, counts, present, [])
        self.arrivals.append(arrival)
        if named.key is not None:
            self.memory.remember(named.key, self._fingerprint(named.request), row)
        return arrival

    def _open(self, learner: Learner, schedule: Schedule) -> tuple[Schedule, Batch]:
        outlook = outlook_of(self.view.settings, self.view.public, self.view.stock)
        window, most, seconds = self.view.body.window, self.batch_limit, self.release_seconds
        return open_batch(schedule, learner, self.source, outlook, window=window, most=most, release_seconds=seconds)

    def _learner(self) -> Learner:
        """The learner; the first arrival freezes geometry and prior from what is public then."""
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
        """R3: decide for all arrivals in one step. R6: keep the features of what was shown, if the visit counts."""
        coins = self.coins.of([(each.row["batch"], each.row["slot"]) for each in self.arrivals])
        contexts, release = [each.context for each in self.arrivals], self.view.release
        assert release is not None  # noqa: S101 - there is a learner
        settings = self.view.settings
        policies = arms.policies(settings, [each.present for each in self.arrivals])
        for each, decided in zip(self.arrivals, decide(policies, contexts, release, coins), strict=True):
            decision = arms.kept(settings, decided, each.context, present=each.present)
            each.shown.extend(self.view.ids[item] for item in decision.items.tolist())
            each.row["items"] = json.dumps(each.shown)
            each.row["rows"] = packed(decision.rows) if each.counts else None

    def _stored(self, named: Named) -> Any:
        """The offer that this Idempotency-Key got before; None if it is new."""
        kept = None if named.key is None else self.memory.retries.get(named.key)
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
        when = {"received": named.request.receipt.time}
        row = self.connection.execute(sa.select(table).where(*where), when).mappings().one_or_none()
        if row is None:  # released: the rows of a large batch are deleted piece by piece
            raise _forgotten()
        return self._reply(row, json.loads(row["items"]))

    def _fingerprint(self, request: OfferRequest) -> str:
        new = {name for name in ("ranking", "attributes") if getattr(request.body, name) is None}
        return self.vault.fingerprint(request.body.model_dump_json(exclude=new).encode())  # as in earlier versions

    def _reply(self, row: Any, shown: list[str]) -> dict[str, Any]:
        ticket = Ticket(row["shelf"], row["batch"], row["slot"], row["nonce"])
        return {
            "offer": self.vault.offer_id(ticket),
            "items": shown,
            "release": row["release"],
            "expires": timestamp(row["made"] + self.view.body.window),
        }

    def _write_start(self) -> None:
        """Store what the first arrival froze."""
        assert self.view.learner is not None  # noqa: S101 - somebody arrived
        start = to_row(start_fields(self.view.learner)) | {"prior_capacity": self.view.learner.capacity}
        where = schema.shelves.c.shelf == self.slots.shelf
        self.connection.execute(sa.update(schema.shelves).where(where).values(start))


def _forgotten() -> OfferExpired:
    return OfferExpired("the offer made for this Idempotency-Key has been released; use a new key")
