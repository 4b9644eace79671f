"""The service without HTTP: what handlers call. One thread writes; reads have connections of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection

from quietshelf.curation.coins import Coins
from quietshelf.release.noise import DiscreteGaussian, NoiseSource
from quietshelf.service import answers, health, in_use, items, keys, queries, shelves
from quietshelf.service.answers import Choice
from quietshelf.service.catalogues import Catalogues
from quietshelf.service.cleaning import Cleaning
from quietshelf.service.inbox import Inbox, Receipt, Step
from quietshelf.service.keyring import Keyring
from quietshelf.service.leasing import Leasing
from quietshelf.service.metrics import Metrics
from quietshelf.service.models import ItemBody, OfferBody, ShelfBody
from quietshelf.service.offers import OfferRequest, OfferTransaction
from quietshelf.service.problems import Invalid, NotFound, Problem, Unavailable
from quietshelf.service.releaser import next_due, next_due_of
from quietshelf.service.releasing import Releasing
from quietshelf.service.settings import Settings
from quietshelf.service.store import Clock, Store, made
from quietshelf.service.vault import Vault
from quietshelf.service.views import View, look, number_of, shelf_row
from quietshelf.service.writer import AGAIN, Operation, Writer, in_groups, problem_or

SOON = 0.05
"""Seconds until another look where a release is due and not made: others may wait for this process to note it."""


class Service:
    """One process of the service.

    Args:
        settings: The table of settings.
        source: Where noise comes from; tests pass their own, no setting can.
        coins: Those of a shelf, by its number; tests pass their own, no setting can.
        clock: Time; tests pass their own, no setting can.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source: NoiseSource | None = None,
        coins: Callable[[int], Coins] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings
        self.source: NoiseSource = DiscreteGaussian() if source is None else source
        self.metrics = Metrics()
        self.vault = Vault(settings.secrets, make=not made(settings.url))
        self.store = Store(settings.url, self.vault, clock, application=in_use.SERVICE)
        self._coins = self.vault.coins if coins is None else coins
        self.catalogues = Catalogues(self.store)
        self._views: dict[str, View] = {}
        self.keyring = Keyring(settings.poll_seconds)
        self._keys_at = 0.0
        self._in_trouble = False
        self._due: float | None = None
        self._tried = 0.0
        self._look_at = 0.0
        self._offset = self._ahead = 0.0
        self.inbox = Inbox(lambda: self.store.local_now(self._offset) + self._ahead)
        self._opened = False
        self.cleaning = Cleaning(self.store, pause=settings.poll_seconds)
        self._fresh: dict[str, View] = {}  # views of a transaction that is not committed yet
        self.leasing = Leasing(self.store, self.now)
        self.releasing = Releasing(self.store, self.source, self.inbox, settings)
        self.writer = Writer(self.store, self._chores, group_limit=settings.group_limit, settled=self._settled)

    def prepare(self) -> None:
        """Bring the database up to date, and drop what may have been released already."""
        self.store.held.enter_context(in_use.shared(self.settings))
        self.store.migrate()
        with self.store.read() as connection:
            self._read_clock(connection)
            # a shelf's time never goes back: where a clock was ahead once, stamps and what is due go on from there
            self._ahead = max(0.0, queries.last_time(connection) - self.store.now(connection))
        self.releasing.prepare()

    def start(self) -> None:
        """Prepare and begin."""
        self.prepare()
        self._look_at_keys()
        self.writer.start()

    def stop(self) -> None:
        """Finish what was asked for and let go of the database."""
        self.writer.stop()
        self.catalogues.close()
        self.releasing.leave()
        self.store.close()

    # Visitors

    async def offer(
        self, shelf: str, body: OfferBody, retry: str | None, receipt: Receipt | None = None
    ) -> dict[str, Any]:
        """What to show; durable when it returns."""
        asked = partial(self.offer_request, shelf, body, retry)
        reply: dict[str, Any] = await self._received(self.place, self._stamped(asked, receipt))
        return reply

    async def choose(self, offer: str, item: str | None, key: keys.Key, receipt: Receipt | None = None) -> None:
        """Take an answer; durable when it returns."""
        await self._received(self.take_choices, self._stamped(partial(self.choice, offer, item, key), receipt))

    def _stamped(self, asked: Callable[[Receipt], Any], receipt: Receipt | None) -> Any:
        """What is asked of the writer; a stamp on what is refused is settled, for it would hold releases up."""
        received = receipt or self.inbox.stamp()
        try:
            return asked(received)
        except Problem:
            self.let_go(received)
            raise

    def offer_request(self, shelf: str, body: OfferBody, retry: str | None, receipt: Receipt) -> OfferRequest:
        """What is asked of the writer."""
        for named in (body.candidates, body.required, body.exclude, body.ranking):
            self._check_length(named)
        return OfferRequest(shelf, body, retry, receipt)

    def choice(self, offer: str, item: str | None, key: keys.Key, receipt: Receipt) -> Choice:
        """The same, of an answer."""
        ticket = self.vault.ticket(offer)
        if ticket is None:
            raise NotFound("offer must be one that was made here")
        return Choice(ticket, item, receipt, key.shelf)

    async def _received(self, operation: Operation, payload: OfferRequest | Choice | Step) -> Any:
        """The answer to a request that was stamped; the stamp is settled if the writer does not take it."""
        try:
            return await self.writer.submit(operation, payload)
        finally:
            self.let_go(payload.receipt)

    def let_go(self, receipt: Receipt) -> None:
        """Settle a receipt that never came to the writer."""
        if not receipt.queued:
            self.inbox.settle(receipt)

    def place(self, connection: Connection, requests: Sequence[OfferRequest]) -> list[Any]:
        """Operation: give each request its slot."""
        return in_groups(requests, lambda request: request.shelf, partial(self._take, connection))

    def take_choices(self, connection: Connection, choices: Sequence[Choice]) -> list[Any]:
        """Operation: enter each answer."""
        return in_groups(choices, lambda choice: choice.shelf, partial(self._enter, connection))

    def _enter(self, connection: Connection, shelf: int, choices: Sequence[Choice]) -> list[Any]:
        until = self._waits_from(connection, shelf)
        written = [choice for choice in choices if choice.receipt.time < until]
        replies = iter(answers.take(connection, self.store, written))
        return [next(replies) if choice.receipt.time < until else self._again() for choice in choices]

    def _take(self, connection: Connection, name: str, requests: Sequence[OfferRequest]) -> list[Any]:
        try:
            row, slots = self.leasing.slots(connection, name, requests)
            view = self._views.get(name)
            if view is None or not view.is_of(row):
                full = row if "config" in row else shelf_row(connection, name)
                view = look(connection, full, view, self.catalogues.follow)
        except (NotFound, Unavailable) as problem:
            return [problem] * len(requests)
        coins, most = self._coins(slots.shelf), self.settings.batch_limit
        transaction = OfferTransaction(connection, self.vault, self.source, coins, slots, view, self._waits, most)
        replies = transaction.take(requests)
        self.leasing.write(name, slots)
        self._fresh[name] = transaction.view
        if slots.opened_or_filled:  # the epoch file has to know
            self._opened = True
        if slots.opened_or_filled or transaction.blocked:  # what is due next has changed, or was not known here
            self._look_at = 0.0
        return replies

    def _waits(self, due: float) -> bool:
        """R5: what is received waits for a release that was due, unless another machine makes it, or it failed."""
        return not self.releasing.elsewhere and due > self._tried

    def _waits_from(self, connection: Connection, shelf: int) -> float:
        """From when on what is received for a shelf waits for its next release; infinity if no batch is full."""
        due = next_due_of(connection, shelf, after=self._tried)
        return math.inf if due is None or not self._waits(due) else due

    def _again(self) -> object:
        """The reply to a request that waits for a release; the chores look for it, for it may not be known here."""
        self._look_at = 0.0
        return AGAIN

    def _settled(self, committed: bool, payloads: Sequence[Any]) -> None:
        """Keep what a transaction saw, if it was committed; what is answered was received and dealt with."""
        if committed:
            self._views |= self._fresh
        self._fresh = {}
        self.leasing.settled(committed)
        for payload in payloads:
            if isinstance(payload, (OfferRequest, Choice, Step)):
                self.inbox.settle(payload.receipt)

    # The shop

    async def put_shelf(self, name: str, body: ShelfBody) -> bool:
        """Create or change a shelf; whether it is new."""
        return bool(await self.write(lambda c: shelves.put(c, name, body, self.store.now(c)), name))

    async def delete_shelf(self, name: str) -> None:
        """Delete a shelf; its ledger stays."""

        def step(connection: Connection) -> None:
            shelves.delete(connection, name, self.store.now(connection))
            self.cleaning.soon()

        await self.write(step, name)
        self._views.pop(name, None)

    def catch_up(self, name: str) -> None:
        """Read the items of a shelf now, on this thread, so that the next visitor sees them."""
        try:
            with self.store.read() as connection:
                row = shelf_row(connection, name)
        except NotFound:
            return
        self.catalogues.read(row, ShelfBody.model_validate_json(row["config"]).limits)

    async def put_items(self, name: str, bodies: Sequence[ItemBody]) -> dict[str, int]:
        """Add and change items, few enough for one transaction (`uploading` takes more)."""
        return dict(await self.write(lambda c: items.put_items(c, name, bodies), name))

    async def retire(self, name: str, ids: Sequence[str]) -> dict[str, int]:
        """Retire items."""
        return dict(await self.write(lambda c: items.retire(c, name, ids), name))

    async def erase(self, name: str, person: str, receipt: Receipt | None = None) -> int:
        """Let a person's pending visits contribute nothing."""
        received = receipt or self.inbox.stamp()

        def step(connection: Connection) -> int:
            number = shelf_row(connection, name, lock=True)["shelf"]
            self.cleaning.soon()
            person_hash = self.vault.person(number, person)
            return answers.erase(connection, number, person_hash, received=received.time)

        return int(await self._received(self.each, Step(step, received, name)))

    async def ready(self) -> dict[str, Any]:
        """Raise `Unavailable` unless the store can be written; else what an operator should know."""
        this, late = await self.write(lambda c: (health.written(c), queries.late(c, self.now(c))))
        moved, here = round(self.store.clock_drift, 1), not self.releasing.elsewhere
        return {
            "epoch": this.epoch,
            "visitors_left_out": this.dropped,
            "clock_moved_seconds": moved,
            "clock_ahead_seconds": round(self._ahead, 1),
            "chores_fail": self._in_trouble,
            "late_seconds": round(max(late.values(), default=0.0), 1),
            "releases_here": here,
        }

    def _check_length(self, items: Sequence[str] | None) -> None:
        most = self.settings.candidates_limit
        if items is not None and len(items) > most:
            raise Invalid(f"a list must name at most {most} items (the setting candidates_limit), got {len(items)}")

    async def write(self, step: Callable[[Connection], Any], shelf: str | None = None) -> Any:
        """What a step answers, once it is durable; a `Problem` is raised. ``shelf``: the one it changes."""
        return await self._received(self.each, Step(step, self.inbox.stamp(), shelf))

    def each(self, connection: Connection, steps: Sequence[Step]) -> list[Any]:
        """Operation: steps that stand alone; one that raises a `Problem` has written nothing."""
        return [self._step(connection, step) for step in steps]

    def _step(self, connection: Connection, step: Step) -> Any:
        shelf = None if step.shelf is None else number_of(connection, step.shelf)
        if shelf is not None and step.receipt.time >= self._waits_from(connection, shelf):
            return self._again()
        return problem_or(partial(step, connection))

    # Time

    def _chores(self) -> float:
        """What is to be done beside requests; `ready` tells whether it fails, though visitors are served.

        R5: nobody waits for releases that fail. Whatever was due by then has been tried, of all shelves.
        """
        now = self.inbox.time()
        try:
            wait, self._in_trouble = self._do_chores(), False
        except Exception:
            self._in_trouble, self._tried = True, max(self._tried, now)
            raise
        return wait

    def _do_chores(self) -> float:
        """Release what is due, note how far the shelves are, look at what others changed; seconds until the next."""
        self._look_at_keys()  # first: whatever else fails keeps no revoked key alive
        if self.leasing.end(self.inbox.time()):
            self._opened, self._look_at = True, 0.0
        if self._opened:
            self.releasing.check_memory()
            self._opened = False
        if time.monotonic() >= self._look_at:
            self._look()
        while self._due is not None and (now := self.inbox.time()) >= self._due:
            self._tried = max(self._tried, self._due)
            self.cleaning.released()
            if not self.releasing.release():
                self._tried = max(self._tried, now)
                self._due, self._look_at = None, time.monotonic() + min(self.settings.poll_seconds, SOON)
                break
            self._look()
        wait = min(self._look_at, self.cleaning.run(), self._keys_at) - time.monotonic()
        return min(wait, min(self._due or math.inf, self.leasing.next_end) - self.inbox.time())

    def _look(self) -> None:
        """What changes by itself or elsewhere: batches fill, keys are revoked, releases come."""
        with self.store.read() as connection:
            self._due = next_due(connection)
            self.leasing.look(connection)
            self._read_clock(connection)
            for name in list(self._views):
                self._refresh(connection, name)
        self.releasing.stay()
        self._look_at = time.monotonic() + self.settings.poll_seconds

    def _look_at_keys(self) -> None:
        if time.monotonic() >= self._keys_at:
            with self.store.read() as connection:
                self.keyring.update(keys.valid(connection))
            self._keys_at = time.monotonic() + self.settings.poll_seconds

    def _refresh(self, connection: Connection, name: str) -> None:
        try:
            row = shelf_row(connection, name)
        except NotFound:
            self._views.pop(name, None)
            return
        if not self._views[name].is_of(row):
            with suppress(Unavailable):  # many items are being read: the next look finds them
                self._views[name] = look(connection, row, self._views[name], self.catalogues.follow)

    def now(self, connection: Connection) -> float:
        """The time of this service: the clock's, never behind that of a shelf, so that what is due comes in time."""
        return self.store.now(connection) + self._ahead

    def _read_clock(self, connection: Connection) -> None:
        self._offset = self.store.now(connection) - time.monotonic()
