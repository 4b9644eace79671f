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
from quietshelf.privacy.release.noise import DiscreteGaussian, NoiseSource
from quietshelf.serving.service import health, queries
from quietshelf.serving.service.access import admin_log, keys
from quietshelf.serving.service.access.admin_log import Act
from quietshelf.serving.service.access.keyring import Keyring
from quietshelf.serving.service.access.tickets import Visitor
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.catalogue.catalogues import Catalogues
from quietshelf.serving.service.catalogue.documents import Documents
from quietshelf.serving.service.catalogue.preloading import Preloading
from quietshelf.serving.service.catalogue.views import View, look, number_of, shelf_row, versions_of
from quietshelf.serving.service.database.cleaning import Cleaning
from quietshelf.serving.service.database.store import Clock, Store, made
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.metrics import Metrics
from quietshelf.serving.service.models import ItemBody, OfferBody, ShelfBody
from quietshelf.serving.service.problems import Invalid, NotFound, Problem, Unavailable
from quietshelf.serving.service.releases import in_use
from quietshelf.serving.service.releases.releaser import due_batches, next_publication, next_publication_of
from quietshelf.serving.service.releases.releasing import Releasing
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors import answers
from quietshelf.serving.service.visitors.answers import Answered, Choice
from quietshelf.serving.service.visitors.contributed import Contributed, ContributionBody
from quietshelf.serving.service.visitors.device import contribution, slot_request, transaction_of
from quietshelf.serving.service.visitors.inbox import Inbox, Receipt, Step
from quietshelf.serving.service.visitors.leasing import Leasing
from quietshelf.serving.service.visitors.offers import OfferRequest
from quietshelf.serving.service.visitors.remembering import NewRows
from quietshelf.serving.service.work import Beside
from quietshelf.serving.service.writer import AGAIN, Operation, Writer, in_groups, problem_or

SOON = 0.05
"""Seconds until another look where a release is due and not made: others may wait for this process to note it."""

PATIENCE = 10.0
"""Seconds that offers wait for a release which is late and being made; then they go on from the last one."""


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
        self.store = Store(settings.url, self.vault, clock, application=in_use.SERVICE)
        self._coins = self.vault.coins if coins is None else coins
        self.catalogues = Catalogues(self.store)
        self.documents = Documents(self.store)
        self._views: dict[str, View] = {}
        self.preloading = Preloading(self.store, self._views)
        self.keyring = Keyring(settings.poll_seconds)
        self._keys_at = 0.0
        self._in_trouble = False
        self._due: float | None = None
        self._publication: float | None = None
        self._asks = True
        self._late_since: float | None = None
        self._tried = 0.0
        self._release_at = 0.0
        self._look_at = 0.0
        self._offset = self._ahead = 0.0
        self.inbox = Inbox(lambda: self.store.local_now(self._offset) + self._ahead)
        self._opened = False
        self.cleaning = Cleaning(self.store, pause=settings.poll_seconds)
        self._fresh: dict[str, View] = {}  # views of a transaction that is not committed yet
        self.leasing = Leasing(self.store, self.now)
        self.releasing = Releasing(self.store, self.source, self.inbox, settings, self._made)
        self.beside = Beside(lambda: self.writer.wake(), self.inbox.time)
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
        self.releasing.work.start()
        self.beside.start()
        with self.store.read() as connection:
            self.preloading.start(versions_of(connection))
        self.writer.start()

    def stop(self) -> None:
        """Finish what was asked for and let go of the database."""
        self.writer.stop()
        self.beside.stop()
        self.preloading.close()
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

    async def slot(self, visitor: Visitor, receipt: Receipt | None = None) -> dict[str, Any]:
        """A slot for a visitor whose device decides what to show; durable when it returns."""
        asked = self._stamped(partial(slot_request, visitor), receipt)
        reply: dict[str, Any] = await self._received(self.place, asked)
        return reply

    async def contribute(
        self, offer: str, body: ContributionBody, visitor: Visitor, receipt: Receipt | None = None
    ) -> None:
        """Take what a visitor's device computed from the answer; durable when it returns."""
        asked = self._stamped(partial(contribution, self.vault, offer, body, visitor), receipt)
        await self._received(self.take_choices, asked)

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
        return OfferRequest(shelf, body, retry, receipt).checked(self._views.get(shelf))

    def choice(self, offer: str, item: str | None, key: keys.Key, receipt: Receipt) -> Choice:
        """The same, of an answer."""
        ticket = self.vault.ticket(offer)
        if ticket is None:
            raise NotFound("offer must be one that was made here")
        return Choice(ticket, item, receipt, key.shelf)

    async def _received(self, operation: Operation, payload: OfferRequest | Answered | Step) -> Any:
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
        rows = NewRows()
        replies = in_groups(requests, lambda request: self._order(request.shelf), partial(self._take, connection, rows))
        rows.write(connection)
        return replies

    def take_choices(self, connection: Connection, choices: Sequence[Answered]) -> list[Any]:
        """Operation: enter each answer."""
        until = {shelf: self._waits_from(connection, shelf) for shelf in sorted({each.shelf for each in choices})}
        in_time = [choice.receipt.time < until[choice.shelf] for choice in choices]
        written = [choice for choice, counts in zip(choices, in_time, strict=True) if counts]
        replies = iter(answers.take(connection, self.store, written))
        return [next(replies) if counts else self._again() for counts in in_time]

    def _order(self, name: str) -> tuple[int, str]:
        """Shelves are locked in the order of their numbers, as by answers; one that is not known yet before others."""
        view = self._views.get(name)
        return -1 if view is None else view.shelf, name

    def _take(
        self, connection: Connection, rows: NewRows, place: tuple[int, str], requests: Sequence[OfferRequest]
    ) -> list[Any]:
        name = place[1]
        try:
            row, slots = self.leasing.slots(connection, name, requests)
            view = self._views.get(name)
            if view is None or not view.is_of(row):
                full = row if "config" in row else shelf_row(connection, name)
                view = look(connection, full, view, self.catalogues.follow)
        except (NotFound, Unavailable) as problem:
            return [problem] * len(requests)
        coins, limits = self._coins(slots.shelf), (self.settings.batch_limit, self.settings.release_seconds)
        kind = transaction_of(view)
        transaction = kind(connection, self.vault, self.source, coins, slots, view, self._waits, *limits)
        replies = transaction.take(requests, rows)
        self.leasing.write(name, slots)
        self._fresh[name] = transaction.view
        if slots.opened_or_filled:  # the epoch file has to know
            self._opened = True
        if slots.opened_or_filled or transaction.blocked:  # what is due next has changed, or was not known here
            self._look_soon()
        return replies

    def _waits(self, due: float) -> bool:
        """R5: what is received waits for a release that was due, unless another machine makes it, or it failed."""
        return not self.releasing.elsewhere and due > self._tried

    def _waits_from(self, connection: Connection, shelf: int) -> float:
        """From when on what is received for a shelf waits for its next release; infinity if no batch is full."""
        due = next_publication_of(connection, shelf, after=self._tried)
        return math.inf if due is None or not self._waits(due) else due

    def _again(self) -> object:
        """The reply to a request that waits for a release; the chores look for it, for it may not be known here."""
        self._look_soon()
        return AGAIN

    def _look_soon(self) -> None:
        """Look at what is due with the next chores, or a little later while work is done: who waits asks often."""
        self._look_at = min(self._look_at, time.monotonic() + SOON * self._at_work())

    def _settled(self, committed: bool, payloads: Sequence[Any]) -> None:
        """Keep what a transaction saw, if it was committed; what is answered was received and dealt with."""
        if committed:
            self._views.update(self._fresh)
        self._fresh = {}
        self.leasing.settled(committed)
        for payload in payloads:
            if isinstance(payload, (OfferRequest, Choice, Contributed, Step)):
                self.inbox.settle(payload.receipt)

    # The shop

    async def put_shelf(self, name: str, body: ShelfBody, by: str = "") -> bool:
        """Create or change a shelf; whether it is new. ``by``, here and below: the id of the key that asks for it."""
        act = Act(by, "shelf put", name, admin_log.given(body.model_dump(mode="json", exclude_unset=True)))
        made = await self.write(lambda c: {"created": shelves.put(c, name, body, self.store.now(c))}, name, act)
        return bool(made["created"])

    async def delete_shelf(self, name: str, by: str = "") -> None:
        """Delete a shelf; its ledger stays."""

        def step(connection: Connection) -> None:
            shelves.delete(connection, name, self.store.now(connection))
            self.cleaning.soon()

        await self.write(step, name, Act(by, "shelf deleted", name))
        self._views.pop(name, None)

    def catch_up(self, name: str) -> None:
        """Read the items of a shelf now, on this thread, so that the next visitor sees them."""
        try:
            with self.store.read() as connection:
                row = shelf_row(connection, name)
        except NotFound:
            return
        self.catalogues.read(row, ShelfBody.model_validate_json(row["config"]).limits)

    async def put_items(self, name: str, bodies: Sequence[ItemBody], by: str = "") -> dict[str, int]:
        """Add and change items, few enough for one transaction (`uploading` takes more)."""
        return dict(await self.write(lambda c: items.put_items(c, name, bodies), name, Act(by, "items put", name)))

    async def retire(self, name: str, ids: Sequence[str], by: str = "") -> dict[str, int]:
        """Retire items."""
        return dict(await self.write(lambda c: items.retire(c, name, ids), name, Act(by, "items retired", name)))

    async def erase(self, name: str, person: str, receipt: Receipt | None = None, by: str = "") -> int:
        """Let a person's pending visits contribute nothing; that somebody was erased is entered, not who."""
        received = receipt or self.inbox.stamp()

        def step(connection: Connection) -> int:
            number = shelf_row(connection, name, lock=True)["shelf"]
            self.cleaning.soon()
            person_hash = self.vault.person(number, person)
            return answers.erase(connection, number, person_hash, received=received.time)

        both = admin_log.entering(Act(by, "erasure", name), step, self.store.now)
        return int(await self._received(self.each, Step(both, received, name)))

    async def ready(self) -> dict[str, Any]:
        """Raise `Unavailable` unless shelves are read and the store can be written; else what operators should know."""
        if not self.preloading.ready:
            raise Unavailable("the items of the shelves are being read; try again in some seconds")
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

    async def write(self, step: Callable[[Connection], Any], shelf: str | None = None, act: Act | None = None) -> Any:
        """What a step answers, once it is durable; a `Problem` is raised.

        Args:
            step: One transaction, or a part of one.
            shelf: The one it changes.
            act: What it is in the log of admins, if they did it.
        """
        step = step if act is None else admin_log.entering(act, step, self.store.now)
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
        now, self.beside.tried = self.inbox.time(), math.inf
        try:
            wait, self._in_trouble = self._do_chores(), bool(self.beside.failing)
        except Exception:
            self._in_trouble, self._tried = True, max(self._tried, min(now, self.beside.tried))
            raise
        return wait

    def _do_chores(self) -> float:
        """Release what is due, note how far the shelves are, look at what others changed; seconds until the next.

        Whatever a release, or a check of memory, writes or compares is done beside the writer, in the order of asking.
        """
        self._look_at_keys()  # first: whatever else fails keeps no revoked key alive
        self.beside.settle()
        if self.leasing.end(self.inbox.time()):
            self._opened, self._look_at = True, 0.0
        if self._opened and not self.beside.busy("check"):
            self._opened = False
            self.beside.ask("check", self._check, lambda _: self.cleaning.released())  # what was burnt
        if time.monotonic() >= self._look_at:
            self._look()
        self._release()
        if time.monotonic() >= self.cleaning.at():
            self.beside.ask("clean", self.cleaning.run)
        return self._until_next()

    def _until_next(self) -> float:
        """Seconds until there is something to do; whatever is done beside wakes the writer when it is done."""
        cleaning = math.inf if self.beside.busy("clean") else self.cleaning.at()
        again = self._release_at if self.releasing.finished else math.inf
        wait = min(self._look_at, cleaning, self._keys_at, again) - time.monotonic()
        now = self.inbox.time()
        due = None if self.beside.busy("release") else self._due
        later = [each for each in (self._publication,) if each is not None and each > now]
        return min(wait, min(due or math.inf, self.leasing.next_end, *later) - now)

    def _check(self) -> None:
        """R8: compare database and epoch file; where that fails it is done again."""
        try:
            self.releasing.check_memory()
        except Exception:
            self._opened = True
            raise

    def _release(self) -> None:
        """Go on with releases that are due, and publish those whose time has come (R5)."""
        while not self.beside.busy("release") and self._to_release():
            self.cleaning.released()
            self.beside.ask("release", self._go_on, self._released)
        now = self.inbox.time()
        while self._asks and self._publication is not None and now >= self._publication:
            if self.releasing.publish():
                self._look_at_due()
            elif (self.beside.busy("release") or self.releasing.late(now)) and self._patient():
                break  # whoever waits for it waits until it is done
            else:
                self._tried, self._asks = max(self._tried, now), False

    def _to_release(self) -> bool:
        """Whether something is due, or was finished: again soon, where it has to wait for something else."""
        due = self._due is not None and self.inbox.time() >= self._due
        return due or (self.releasing.finished and time.monotonic() >= self._release_at)

    def _go_on(self) -> tuple[bool, bool]:
        """Whether a batch was released, or refused; and whether something is finished and waits for something else."""
        done = self.releasing.release()
        return done, not done and self.releasing.finished

    def _released(self, found: tuple[bool, bool]) -> None:
        """Look what is next."""
        done, waits = found
        self._release_at = time.monotonic() + SOON * waits
        self._look_at_due()
        if not done and self._due is not None:  # witnesses are waited for, or another process is at it
            self._due, self._look_at = None, time.monotonic() + min(self.settings.poll_seconds, SOON)

    def _made(self) -> None:
        """Go on at once: something was added up or drawn."""
        self._release_at = 0.0
        self.writer.wake()

    def _at_work(self) -> bool:
        return bool(self.releasing.busy) or self.beside.busy("release")

    def _patient(self) -> bool:
        """Whether a release that is late is still waited for; by this machine's own clock, which is the schedule's."""
        now = time.monotonic()
        self._late_since = now if self._late_since is None else self._late_since
        return now < self._late_since + PATIENCE

    def _look(self) -> None:
        """What changes by itself or elsewhere: batches fill, keys are revoked, releases come."""
        self._look_at_due()
        with self.store.read() as connection:
            self.leasing.look(connection)
            self._read_clock(connection)
            living = versions_of(connection)
            self.preloading.follow(living)
            for name, view in list(self._views.items()):
                if living.get(name) != (view.shelf, view.versions):
                    self._refresh(connection, name)
        self.beside.ask("stay", self.releasing.stay)
        self._look_at = time.monotonic() + self.settings.poll_seconds

    def _look_at_due(self) -> None:
        """What is to be released next, apart from what is at work, and when something is published next."""
        with self.store.read() as connection:
            due, publication = due_batches(connection), next_publication(connection)
        before, self._publication, self._asks = self._publication, publication, True
        self._late_since = self._late_since if before == publication else None
        gone = before is not None and (publication is None or before < publication)
        if before is not None and gone and before <= self.inbox.time():
            self._tried = max(self._tried, before)  # it is published, or gone: if it comes back, nobody waits for it
        self._due = min((at for place, at in due.items() if place not in self.releasing.busy), default=None)

    def _look_at_keys(self) -> None:
        if time.monotonic() >= self._keys_at:
            with self.store.read() as connection:
                now = self.store.now(connection)
                self.keyring.update(keys.valid(connection, now), now)
            self._keys_at = time.monotonic() + self.settings.poll_seconds

    def _refresh(self, connection: Connection, name: str) -> None:
        try:
            row = shelf_row(connection, name)
        except NotFound:
            self._views.pop(name, None)
            return
        with suppress(Unavailable):  # many items are being read: the next look finds them
            self._views[name] = look(connection, row, self._views[name], self.catalogues.follow)

    def keys_changed(self) -> None:
        """Look at the keys with the next chores: one was made here."""
        self._keys_at = 0.0

    def now(self, connection: Connection) -> float:
        """The time of this service: the clock's, never behind that of a shelf, so that what is due comes in time."""
        return self.store.now(connection) + self._ahead

    def _read_clock(self, connection: Connection) -> None:
        self._offset = self.store.now(connection) - time.monotonic()
