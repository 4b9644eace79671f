"""The service without HTTP: what handlers call. One thread writes; reads use separate connections."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import DiscreteGaussian, NoiseSource
from quietshelf.serving.service import health, queries
from quietshelf.serving.service.access import admin_log, keys
from quietshelf.serving.service.access.admin_log import Act
from quietshelf.serving.service.access.tickets import Visitor
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.catalogue.documents import Documents
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database.cleaning import Cleaning
from quietshelf.serving.service.database.store import Clock, Store, made
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.following import Following, ShelfTime
from quietshelf.serving.service.metrics import Metrics
from quietshelf.serving.service.models import ItemBody, OfferBody, ShelfBody
from quietshelf.serving.service.problems import Invalid, NotFound, Problem, Unavailable
from quietshelf.serving.service.releases import in_use
from quietshelf.serving.service.releases.releasing import Releasing
from quietshelf.serving.service.releases.schedule import Schedule
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors import answers
from quietshelf.serving.service.visitors.answers import Answered, Choice
from quietshelf.serving.service.visitors.contributed import ContributionBody
from quietshelf.serving.service.visitors.device import contribution, slot_request
from quietshelf.serving.service.visitors.inbox import Inbox, Receipt, Step
from quietshelf.serving.service.visitors.leasing import Leasing
from quietshelf.serving.service.visitors.offers import OfferRequest
from quietshelf.serving.service.work import Beside
from quietshelf.serving.service.writer import Operation, Writer
from quietshelf.serving.service.writing import Writing

CHECK_REST = 0.25
"""Seconds between two checks for lost commits (R8) when many batches open; each release checks before it draws."""


class Service:
    """One process of the service.

    Args:
        settings: The table of settings.
        source: The source of noise; only tests pass one, no setting can.
        coins: The coins of a shelf, by its number; only tests pass them, no setting can.
        clock: The clock; `quietshelf serve` passes one on SQLite, and tests their own.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        source: NoiseSource | None = None,
        coins: Callable[[int], Coins] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.source: NoiseSource = DiscreteGaussian() if source is None else source
        self.metrics = Metrics()
        self.vault = Vault(settings.secrets, make=not made(settings.url))
        store = self.store = Store(settings.url, self.vault, clock, application=in_use.SERVICE)
        self.time = ShelfTime(store)
        self.following = Following(store, settings.poll_seconds)
        self.documents = Documents(store, self.following.views)
        self.inbox = Inbox(self.time.stamp)
        self.cleaning = Cleaning(store, pause=settings.poll_seconds)
        self.leasing = Leasing(store, self.time.now)
        self.releasing = Releasing(store, self.source, self.inbox, settings, self._made)
        self.beside = Beside(lambda: self.writer.wake(), self.inbox.time)
        beside, cleaning, now = self.beside, self.cleaning, self.inbox.time
        self.schedule = Schedule(store, self.releasing, beside, cleaning, now, settings.poll_seconds, self.time.stamp)
        given = (settings, store, self.vault, self.source, coins or self.vault.coins)
        self.writing = Writing(*given, self.following, self.schedule, self.leasing, self.inbox)
        self.writer = Writer(store, self._chores, group_limit=settings.group_limit, settled=self.writing.settled)
        self._in_trouble, self._check_at, self.check_rest = False, 0.0, CHECK_REST

    def prepare(self) -> None:
        """Migrate the database, and drop what may already have been released."""
        self.store.held.enter_context(in_use.shared(self.settings))
        self.store.migrate()
        with self.store.read() as connection:
            self.time.start(connection)
        self.releasing.prepare()

    def start(self) -> None:
        """Prepare, and start the threads."""
        self.prepare()
        self.following.start()
        self.releasing.work.start()
        self.beside.start()
        self.writer.start()

    def stop(self) -> None:
        """Finish what is queued, and close the database."""
        self.writer.stop()
        self.beside.stop()
        self.following.close()
        self.releasing.leave()
        self.store.close()

    # Visitors

    async def offer(
        self, shelf: str, body: OfferBody, retry: str | None, receipt: Receipt | None = None
    ) -> dict[str, Any]:
        """Make an offer; durable when it returns."""
        asked = partial(self.offer_request, shelf, body, retry)
        reply: dict[str, Any] = await self._received(self.writing.place, self._stamped(asked, receipt))
        return reply

    async def choose(self, offer: str, item: str | None, key: keys.Key, receipt: Receipt | None = None) -> None:
        """Take an answer; durable when it returns."""
        await self._received(self.writing.take_choices, self._stamped(partial(self.choice, offer, item, key), receipt))

    async def slot(self, visitor: Visitor, receipt: Receipt | None = None) -> dict[str, Any]:
        """Give a slot to a visitor whose device decides what to show; durable when it returns."""
        asked = self._stamped(partial(slot_request, visitor), receipt)
        reply: dict[str, Any] = await self._received(self.writing.place, asked)
        return reply

    async def contribute(
        self, offer: str, body: ContributionBody, visitor: Visitor, receipt: Receipt | None = None
    ) -> None:
        """Take a contribution that a visitor's device computed; durable when it returns."""
        asked = self._stamped(partial(contribution, self.vault, offer, body, visitor), receipt)
        await self._received(self.writing.take_choices, asked)

    def _stamped(self, asked: Callable[[Receipt], Any], receipt: Receipt | None) -> Any:
        """Build the writer's request. If it is refused, its stamp is settled, or it would hold up releases."""
        received = receipt or self.inbox.stamp()
        try:
            return asked(received)
        except Problem:
            self.let_go(received)
            raise

    def offer_request(self, shelf: str, body: OfferBody, retry: str | None, receipt: Receipt) -> OfferRequest:
        """Build the writer's request for an offer."""
        longest = max(len(each or ()) for each in (body.candidates, body.required, body.exclude, body.ranking))
        if longest > (most := self.settings.candidates_limit):
            raise Invalid(f"a list must name at most {most} items (the setting candidates_limit), got {longest}")
        return OfferRequest(shelf, body, retry, receipt).checked(self.following.views.get(shelf))

    def choice(self, offer: str, item: str | None, key: keys.Key, receipt: Receipt) -> Choice:
        """Build the writer's request for an answer."""
        ticket = self.vault.ticket(offer)
        if ticket is None:
            raise NotFound("offer must be one that was made here")
        return Choice(ticket, item, receipt, key.shelf)

    async def _received(self, operation: Operation, payload: OfferRequest | Answered | Step) -> Any:
        """The writer's answer to a stamped request. The stamp is settled if the writer does not take it."""
        try:
            return await self.writer.submit(operation, payload)
        finally:
            self.let_go(payload.receipt)

    def let_go(self, receipt: Receipt) -> None:
        """Settle a receipt that never reached the writer."""
        if not receipt.queued:
            self.inbox.settle(receipt)

    # The shop

    async def put_shelf(self, name: str, body: ShelfBody, by: str = "") -> bool:
        """Create or change a shelf; whether it is new. ``by``, here and below, is the id of the caller's key."""
        act = Act(by, "shelf put", name, admin_log.given(body.model_dump(mode="json", exclude_unset=True)))
        made = await self.write(lambda c: {"created": shelves.put(c, name, body, self.store.now(c))}, name, act)
        return bool(made["created"])

    async def delete_shelf(self, name: str, by: str = "") -> None:
        """Delete a shelf; its ledger stays."""

        def step(connection: Connection) -> None:
            shelves.delete(connection, name, self.store.now(connection))
            self.cleaning.soon()

        await self.write(step, name, Act(by, "shelf deleted", name))
        self.following.views.pop(name, None)

    async def put_items(self, name: str, bodies: Sequence[ItemBody], by: str = "") -> dict[str, int]:
        """Add and change items, few enough for one transaction (`uploading` takes more)."""
        return dict(await self.write(lambda c: items.put_items(c, name, bodies), name, Act(by, "items put", name)))

    async def retire(self, name: str, ids: Sequence[str], by: str = "") -> dict[str, int]:
        """Retire items."""
        return dict(await self.write(lambda c: items.retire(c, name, ids), name, Act(by, "items retired", name)))

    async def erase(self, name: str, person: str, receipt: Receipt | None = None, by: str = "") -> int:
        """Make a person's pending visits contribute nothing. The log records that somebody was erased, not who."""
        received = receipt or self.inbox.stamp()

        def step(connection: Connection) -> int:
            number = shelf_row(connection, name, lock=True)["shelf"]
            self.cleaning.soon()
            person_hash = self.vault.person(number, person)
            return answers.erase(connection, number, person_hash, received=received.time)

        both = admin_log.entering(Act(by, "erasure", name), step, self.store.now)
        return int(await self._received(self.writing.each, Step(both, received, name)))

    async def ready(self) -> dict[str, Any]:
        """What operators should know; raises `Unavailable` unless shelves are read and the store can be written."""
        if not self.following.preloading.ready:
            raise Unavailable("the items of the shelves are being read; try again in a few seconds")
        this, late = await self.write(lambda c: (health.written(c), queries.late(c, self.time.now(c))))
        return {
            "epoch": this.epoch,
            "visitors_left_out": this.dropped,
            "clock_moved_seconds": round(self.store.clock_drift, 1),
            "clock_ahead_seconds": round(self.time.ahead, 1),
            "chores_fail": self._in_trouble,
            "late_seconds": round(max(late.values(), default=0.0), 1),
            "releases_here": not self.releasing.elsewhere,
        }

    async def write(self, step: Callable[[Connection], Any], shelf: str | None = None, act: Act | None = None) -> Any:
        """Carry out a step; returns its answer once it is durable, or raises a `Problem`.

        Args:
            step: A transaction, or a part of one.
            shelf: The shelf it changes.
            act: Its entry in the admin log, if an admin did it.
        """
        step = step if act is None else admin_log.entering(act, step, self.store.now)
        return await self._received(self.writing.each, Step(step, self.inbox.stamp(), shelf))

    # Time

    def _chores(self) -> float:
        """Run the chores; `ready` reports whether they fail, while visitors are still served.

        R5: nobody waits for releases that fail. After a failure, everything due by then counts as tried.
        """
        now, self.beside.tried = self.inbox.time(), math.inf
        try:
            wait, self._in_trouble = self._do_chores(), bool(self.beside.failing)
        except Exception:
            self._in_trouble = True
            self.schedule.failed(min(now, self.beside.tried))
            raise
        return wait

    def _do_chores(self) -> float:
        """Release what is due, update the epoch file, check for others' changes; returns seconds until the next.

        Each chore is tried even if one before it fails: while a row is locked, a revoked key must still be refused,
        others must hear that this process is alive, and other shelves' releases go on.
        """
        failed: list[Exception] = []
        for chore in (self.following.look_at_keys, self._end_leases, self._look, self._go_on):
            try:
                chore()
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return self._until_next()

    def _end_leases(self) -> None:
        """R2: return leases that have ended; what that filled is looked at next."""
        if self.leasing.end(self.inbox.time()):
            self.writing.opened, self.schedule.look_at = True, 0.0

    def _go_on(self) -> None:
        """Database work of releases and checks runs beside the writer, in the order it was asked for.

        What failed there is raised here first, so that it is tried again at the next turn, not at once.
        """
        self.beside.settle()
        if self.writing.opened and time.monotonic() >= self._check_at and not self.beside.busy("check"):
            self.writing.opened, self._check_at = False, time.monotonic() + self.check_rest
            self.beside.ask("check", self._check, lambda _: self.cleaning.released())  # what was burnt
        self.schedule.go_on()
        if time.monotonic() >= self.cleaning.at():
            self.beside.ask("clean", self.cleaning.run)

    def _until_next(self) -> float:
        """Seconds until there is something to do. Work done beside wakes the writer when it finishes."""
        cleaning = math.inf if self.beside.busy("clean") else self.cleaning.at()
        check = self._check_at if self.writing.opened and not self.beside.busy("check") else math.inf
        wait = min(cleaning, check, self.following.keys_at) - time.monotonic()
        return min(wait, self.schedule.until_next(), self.leasing.next_end - self.inbox.time())

    def _check(self) -> None:
        """R8: compare database and epoch file; on failure, try again later."""
        try:
            self.releasing.check_memory()
        except Exception:
            self.writing.opened = True
            raise

    def _look(self) -> None:
        """At every poll, report to other processes, and check for their filled batches, leases and releases."""
        if time.monotonic() < self.schedule.look_at:
            return
        self.schedule.look_at = time.monotonic() + self.settings.poll_seconds
        self.beside.ask("stay", self.releasing.stay)  # first, so that they hear of this process if a read fails
        self.schedule.look()
        with self.store.read() as connection:
            self.leasing.look(connection)
            self.time.read(connection)
            self.following.look(connection)

    def _made(self) -> None:
        """Continue at once, because something was summed or drawn."""
        self.schedule.at_once()
        self.writer.wake()
