"""What the writer does with requests: it gives visitors slots, enters answers, and takes steps of the shop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Connection

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.service.catalogue.views import View, number_of
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.following import Following
from quietshelf.serving.service.problems import NotFound, Unavailable
from quietshelf.serving.service.releases.schedule import Schedule
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors import answers
from quietshelf.serving.service.visitors.answers import Answered, Choice
from quietshelf.serving.service.visitors.contributed import Contributed
from quietshelf.serving.service.visitors.device import transaction_of
from quietshelf.serving.service.visitors.inbox import Inbox, Step
from quietshelf.serving.service.visitors.leasing import Leasing
from quietshelf.serving.service.visitors.offers import OfferRequest
from quietshelf.serving.service.visitors.remembering import NewRows
from quietshelf.serving.service.writer import AGAIN, in_groups, problem_or


@dataclass(eq=False)
class Writing:
    """The operations of the writer; each takes many requests in one transaction.

    Attributes:
        settings: The table of settings.
        store: The database.
        vault: The key that signs tickets.
        source: Where noise comes from.
        coins: Those of a shelf, by its number.
        following: The shelves in memory.
        schedule: Who waits for a release.
        leasing: The slots that this process holds.
        inbox: Where stamps are settled.
        opened: A batch was opened or filled, or a lease ended: the epoch file has to know.
    """

    settings: ServiceSettings
    store: Store
    vault: Vault
    source: NoiseSource
    coins: Callable[[int], Coins]
    following: Following
    schedule: Schedule
    leasing: Leasing
    inbox: Inbox
    opened: bool = False
    _fresh: dict[str, View] = field(default_factory=dict)  # views of a transaction that is not committed yet

    def place(self, connection: Connection, requests: Sequence[OfferRequest]) -> list[Any]:
        """Operation: give each request its slot."""
        rows = NewRows()
        replies = in_groups(requests, lambda request: self._order(request.shelf), partial(self._take, connection, rows))
        rows.write(connection)
        return replies

    def take_choices(self, connection: Connection, choices: Sequence[Answered]) -> list[Any]:
        """Operation: enter each answer."""
        shelves = sorted({each.shelf for each in choices})
        until = {shelf: self.schedule.waits_from(connection, shelf) for shelf in shelves}
        in_time = [choice.receipt.time < until[choice.shelf] for choice in choices]
        written = [choice for choice, counts in zip(choices, in_time, strict=True) if counts]
        replies = iter(answers.take(connection, self.store, written))
        return [next(replies) if counts else self._again() for counts in in_time]

    def each(self, connection: Connection, steps: Sequence[Step]) -> list[Any]:
        """Operation: steps that stand alone; one that raises a `Problem` has written nothing."""
        return [self._step(connection, step) for step in steps]

    def settled(self, committed: bool, payloads: Sequence[Any]) -> None:
        """Keep what a transaction saw, if it was committed; what is answered was received and dealt with."""
        if committed:
            self.following.views.update(self._fresh)
        self._fresh = {}
        self.leasing.settled(committed)
        for payload in payloads:
            if isinstance(payload, (OfferRequest, Choice, Contributed, Step)):
                self.inbox.settle(payload.receipt)

    def _order(self, name: str) -> tuple[int, str]:
        """Shelves are locked in the order of their numbers, as by answers; one that is not known yet before others."""
        view = self.following.views.get(name)
        return -1 if view is None else view.shelf, name

    def _take(
        self, connection: Connection, rows: NewRows, place: tuple[int, str], requests: Sequence[OfferRequest]
    ) -> list[Any]:
        name = place[1]
        try:
            row, slots = self.leasing.slots(connection, name, requests)
            view = self.following.view(connection, name, row)
        except (NotFound, Unavailable) as problem:
            return [problem] * len(requests)
        coins, waits = self.coins(slots.shelf), self.schedule.waits
        limits = self.settings.batch_limit, self.settings.release_seconds
        kind = transaction_of(view)
        transaction = kind(connection, self.vault, self.source, coins, slots, view, waits, *limits)
        replies = transaction.take(requests, rows)
        self.leasing.write(name, slots)
        self._fresh[name] = transaction.view
        self.opened |= slots.opened_or_filled
        if slots.opened_or_filled or transaction.blocked:  # what is due next has changed, or was not known here
            self.schedule.look_soon()
        return replies

    def _step(self, connection: Connection, step: Step) -> Any:
        shelf = None if step.shelf is None else number_of(connection, step.shelf)
        if shelf is not None and step.receipt.time >= self.schedule.waits_from(connection, shelf):
            return self._again()
        return problem_or(partial(step, connection))

    def _again(self) -> object:
        """The reply to a request that waits for a release; the chores look for it, for it may not be known here."""
        self.schedule.look_soon()
        return AGAIN
