"""Offers enter their slots: each arrival takes the next one of the open batch (docs/proofs.md, section 6)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import OpenBatch
from quietshelf.service import learning, schema
from quietshelf.service.deciding import Decision, decide, decide_together, plain
from quietshelf.service.learning import Row
from quietshelf.service.models import OfferBody
from quietshelf.service.moments import moment
from quietshelf.service.problems import KeyReused, OfferExpired, Problem
from quietshelf.service.vault import NONCE, Ticket, Vault
from quietshelf.service.views import View
from quietshelf.shelf.persons import admit
from quietshelf.types import Random

_batches, _shelves = schema.batches.c, schema.shelves.c
_THIS = sa.and_(_batches.shelf == sa.bindparam("of_shelf"), _batches.batch == sa.bindparam("of_batch"))
_BATCH = sa.select(schema.batches).where(_THIS)
_KEEP = sa.update(schema.batches).where(_THIS).values(taken=sa.bindparam("now_taken"), full_at=sa.bindparam("now_full"))
_COUNT = (
    sa.update(schema.shelves)
    .where(_shelves.shelf == sa.bindparam("of_shelf"))
    .values(
        arrivals=_shelves.arrivals + sa.bindparam("more"),
        anonymous=_shelves.anonymous + sa.bindparam("more_anonymous"),
        moment=sa.bindparam("now"),
    )
)


@dataclass(frozen=True, eq=False)
class Visit:
    """One valid request on its way to a slot.

    Attributes:
        shelf: Name of the shelf.
        body: What was asked.
        retry: The Idempotency-Key.
    """

    shelf: str
    body: OfferBody
    retry: str | None = None


@dataclass
class Desk:
    """Takes the visits of one shelf in one transaction, in order."""

    connection: Connection
    vault: Vault
    source: NoiseSource
    rng: Random
    row: Row
    view: View
    now: float
    decided: dict[Visit, Decision] = field(default_factory=dict)
    batch: dict[str, Any] | None = None
    offers: list[dict[str, Any]] = field(default_factory=list)
    retries: dict[str, dict[str, Any]] = field(default_factory=dict)
    new_retries: list[dict[str, Any]] = field(default_factory=list)
    persons: dict[str, tuple[int, int]] = field(default_factory=dict)
    known_persons: dict[str, tuple[int, int]] = field(default_factory=dict)
    arrived: list[str | None] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)

    def take(self, visits: Sequence[Visit]) -> list[Any]:
        """An answer to each visit: the offer, or a `Problem`; then everything is written."""
        self._recall(visits)
        self._decide(visits)
        answers = [self._one(visit) for visit in visits]
        self._write()
        return answers

    def _one(self, visit: Visit) -> Any:
        try:
            again = self._stored(visit)
            return again if again is not None else self._new(visit)
        except Problem as problem:
            return problem

    def _new(self, visit: Visit) -> dict[str, Any]:
        decision = self.decided.get(visit) or decide(self.view, visit.body, self.rng, self.source)
        if self.view.state.learner is None:
            self._begin(decision)
        batch = self._open(decision)
        person = None if visit.body.person is None else self.vault.person(self.row["shelf"], visit.body.person)
        offer = {
            "shelf": self.row["shelf"],
            "batch": batch["batch"],
            "slot": batch["taken"],
            "nonce": secrets.token_bytes(NONCE),
            "made": self.now,
            "release": decision.release,
            "items": json.dumps(decision.ids),
            "rows": learning.packed(decision.rows) if self._counts(person, batch["batch"]) else None,
            "person": person,
        }
        self.offers.append(offer)
        self.arrived.append(person)
        if visit.retry is not None:
            self._remember(visit, offer)
        batch["taken"] += 1
        if batch["taken"] == batch["size"]:
            batch["full_at"] = self.now
            self._keep_batch()
        return self._reply(offer)

    def _decide(self, visits: Sequence[Visit]) -> None:
        """Decide what can be decided together; a visitor alone is decided as `Shelf` does it, to the last bit."""
        new = [visit for visit in visits if visit.retry is None or self._key(visit) not in self.retries]
        alike = [visit for visit in new if plain(self.view, visit.body)]
        if len(alike) > 1:
            found = decide_together(self.view, [visit.body for visit in alike], self.rng)
            self.decided = dict(zip(alike, found, strict=True))

    def _begin(self, decision: Decision) -> None:
        """The first offer freezes geometry and prior."""
        state = replace(self.view.state, learner=decision.learner, visitor_dim=decision.visitor_dim)
        self.view = replace(self.view, state=state, versions=(*self.view.versions[:3], True))
        self.changes |= learning.start_row(decision.learner, decision.visitor_dim)

    def _open(self, decision: Decision) -> dict[str, Any]:
        """The batch that takes slots, opened by this arrival if there is none."""
        if self.batch is None and self.row["open"] and "open" not in self.changes:
            place = {"of_shelf": self.row["shelf"], "of_batch": self.row["opened"]}
            self.batch = dict(self.connection.execute(_BATCH, place).mappings().one())
        if self.batch is None:
            seen = {**self.row, **self.changes}
            last = None if seen["last_size"] is None else _after(seen["opened"], seen["last_size"])
            opened = decision.learner.open(last, self.source, size=seen["next_size"])
            opened = opened._replace(number=seen["opened"] + 1)
            window = self.view.body.window
            self.batch = learning.frozen_row(
                opened, shelf=self.row["shelf"], grid=self.source.grid, window=window, now=self.now
            )
            self.connection.execute(sa.insert(schema.batches), self.batch)
            self.changes |= {"opened": opened.number, "last_size": opened.size, "next_size": None, "open": True}
        return self.batch

    def _keep_batch(self) -> None:
        batch = self.batch
        if batch is not None:
            place = {"of_shelf": batch["shelf"], "of_batch": batch["batch"]}
            self.connection.execute(_KEEP, {**place, "now_taken": batch["taken"], "now_full": batch["full_at"]})
            if batch["full_at"] is not None:
                self.changes["open"], self.batch = False, None

    def _counts(self, person: str | None, batch: int) -> bool:
        return person is None or admit(self.persons, person, batch=batch, visits=self.view.body.visits)

    def _recall(self, visits: Sequence[Visit]) -> None:
        """What is remembered about the keys and persons of these visits."""
        shelf, table = self.row["shelf"], schema.retries
        keys = {self._key(visit) for visit in visits if visit.retry is not None}
        if keys:
            query = sa.select(table).where(table.c.shelf == shelf, table.c.key.in_(keys))
            self.retries = {row["key"]: dict(row) for row in self.connection.execute(query).mappings()}
        names = {self.vault.person(shelf, visit.body.person) for visit in visits if visit.body.person is not None}
        if names:
            who = schema.persons
            query = sa.select(who).where(who.c.shelf == shelf, who.c.person.in_(names))
            found = self.connection.execute(query).mappings()
            self.known_persons = {row["person"]: (row["counted"], row["last_batch"]) for row in found}
            self.persons = dict(self.known_persons)

    def _stored(self, visit: Visit) -> dict[str, Any] | None:
        """The offer that this Idempotency-Key got before."""
        if visit.retry is None:
            return None
        kept = self.retries.get(self._key(visit))
        if kept is None:
            return None
        if kept["fingerprint"] is None:
            raise OfferExpired("the offer made for this Idempotency-Key has been released; use a new key")
        if kept["fingerprint"] != self._fingerprint(visit):
            raise KeyReused("an Idempotency-Key must come with the same request, got another one")
        mine = [offer for offer in self.offers if (offer["batch"], offer["slot"]) == (kept["batch"], kept["slot"])]
        if mine:
            return self._reply(mine[0])
        table = schema.offers
        where = (table.c.shelf == kept["shelf"], table.c.batch == kept["batch"], table.c.slot == kept["slot"])
        return self._reply(dict(self.connection.execute(sa.select(table).where(*where)).mappings().one()))

    def _remember(self, visit: Visit, offer: dict[str, Any]) -> None:
        key = self._key(visit)
        where = {name: offer[name] for name in ("shelf", "batch", "slot", "made")}
        self.retries[key] = {"key": key, "fingerprint": self._fingerprint(visit), **where}
        self.new_retries.append(self.retries[key])

    def _key(self, visit: Visit) -> str:
        return self.vault.retry(self.row["shelf"], visit.retry or "")

    def _fingerprint(self, visit: Visit) -> str:
        return self.vault.fingerprint(visit.body.model_dump_json().encode())

    def _reply(self, offer: dict[str, Any]) -> dict[str, Any]:
        ticket = Ticket(offer["shelf"], offer["batch"], offer["slot"], offer["nonce"])
        return {
            "offer": self.vault.offer_id(ticket),
            "items": json.loads(offer["items"]),
            "release": offer["release"],
            "expires": moment(offer["made"] + self.view.body.window),
        }

    def _write(self) -> None:
        if not self.offers:
            return
        write = self.connection.execute
        write(sa.insert(schema.offers), self.offers)
        if self.new_retries:
            write(sa.insert(schema.retries), self.new_retries)
        self._write_persons()
        self._keep_batch()
        count = {
            "of_shelf": self.row["shelf"],
            "more": len(self.arrived),
            "more_anonymous": self.arrived.count(None),
            "now": self.now,
        }
        write(_COUNT, count)
        if self.changes:
            table = schema.shelves
            write(sa.update(table).where(table.c.shelf == self.row["shelf"]).values(self.changes))

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


def _after(number: int, size: int) -> OpenBatch:
    """A batch of which only number and size are still known, which is all that its successor needs."""
    empty: Any = ()
    return OpenBatch(max(number, 0), size, empty, empty, empty)
