"""The writer's operations: give visitors slots, enter answers, and carry out the shop's changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Connection

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.service.catalogue.views import View, not_there, number_of
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.following import Following
from quietshelf.serving.service.problems import NotFound, Problem, Unavailable
from quietshelf.serving.service.releases.schedule import Schedule
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors import answers
from quietshelf.serving.service.visitors.answers import Answered, Choice
from quietshelf.serving.service.visitors.contributed import Contributed
from quietshelf.serving.service.visitors.device import transaction_of
from quietshelf.serving.service.visitors.inbox import Inbox, Step
from quietshelf.serving.service.visitors.leasing import Leasing
from quietshelf.serving.service.visitors.offers import OfferRequest, OfferTransaction
from quietshelf.serving.service.visitors.remembering import NewRows, recall
from quietshelf.serving.service.visitors.slot_rows import SlotRows
from quietshelf.serving.service.visitors.slots import Slots
from quietshelf.serving.service.writer import AGAIN, problem_or


@dataclass(eq=False)
class Writing:
    """The operations of the writer; each takes many requests in one transaction.

    Attributes:
        settings: The table of settings.
        store: The database.
        vault: Its secrets.
        source: Where noise comes from.
        coins: The coins of a shelf, by its number.
        following: The shelves in memory.
        schedule: Which requests wait for a release.
        leasing: The slots that this process holds.
        inbox: The receipts to settle.
        opened: Whether a batch was opened or filled, or a lease ended, so that the epoch file must be updated.
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
    _waiting: dict[str, tuple[Any, float]] = field(default_factory=dict)  # shelves: since which turn, for what
    _found_late: dict[str, tuple[Any, float]] = field(default_factory=dict)  # what joins them with the next commit

    def place(self, connection: Connection, requests: Sequence[OfferRequest]) -> list[Any]:
        """Operation: give each request its slot.

        Each shelf decides from its own rows and requests alone (`offers`). Only reading, locking and writing are done
        for all shelves together, with one set of statements (`slot_rows`, `remembering`).
        """
        turn = self.schedule.turn
        waits = [self._waits_still(request, turn) for request in requests]
        if all(waits):
            return [AGAIN] * len(requests)
        asked: dict[str, list[OfferRequest]] = {}
        for request, must in zip(requests, waits, strict=True):
            if not must:
                asked.setdefault(request.shelf, []).append(request)
        begun, refused = self._begun(connection, asked)
        recall(connection, [each.memory for each in begun.values()])
        new, moved = NewRows(), SlotRows()
        replies = {name: iter([problem] * len(asked[name])) for name, problem in refused.items()}
        for name, each in begun.items():
            replies[name] = iter(each.take(new))
            self.leasing.enter(moved, name, each.slots)
            self._fresh[name] = each.view
            if each.blocked is not None:
                self._found_late[name] = turn, each.blocked
        moved.write(connection)
        new.write(connection)
        if any(each.slots.opened_or_filled for each in begun.values()):  # what is due next has changed
            self.opened = True
            self.schedule.filled()
        if any(each.blocked is not None for each in begun.values()):  # the schedule did not know
            self.schedule.look_soon()
        return [AGAIN if must else next(replies[each.shelf]) for each, must in zip(requests, waits, strict=True)]

    def take_choices(self, connection: Connection, choices: Sequence[Answered]) -> list[Any]:
        """Operation: enter each answer."""
        until = self.schedule.waits_from(connection, {each.shelf for each in choices})
        in_time = [choice.receipt.time < until[choice.shelf] for choice in choices]
        written = [choice for choice, counts in zip(choices, in_time, strict=True) if counts]
        replies = iter(answers.take(connection, self.store, written))
        return [next(replies) if counts else self._again() for counts in in_time]

    def each(self, connection: Connection, steps: Sequence[Step]) -> list[Any]:
        """Operation: carry out independent steps. One that raises a `Problem` must have written nothing."""
        return [self._step(connection, step) for step in steps]

    def settled(self, committed: bool, payloads: Sequence[Any]) -> None:
        """Keep what a committed transaction saw, and settle the receipts of answered requests."""
        if committed:
            self.following.views.update(self._fresh)
            self._waiting = {**self._still_waiting(), **self._found_late}
        self._fresh, self._found_late = {}, {}
        self.leasing.settled(committed)
        self.store.frozen.settled(committed)
        for payload in payloads:
            if isinstance(payload, (OfferRequest, Choice, Contributed, Step)):
                self.inbox.settle(payload.receipt)

    def _waits_still(self, request: OfferRequest, turn: Any) -> bool:
        """Whether others were already found to wait for a release this turn: the database is not asked again."""
        since, due = self._waiting.get(request.shelf, (None, math.inf))
        return since == turn and request.receipt.time >= due

    def _still_waiting(self) -> dict[str, tuple[Any, float]]:
        turn = self.schedule.turn
        return {name: (since, due) for name, (since, due) in self._waiting.items() if since == turn}

    def _begun(
        self, connection: Connection, asked: Mapping[str, Sequence[OfferRequest]]
    ) -> tuple[dict[str, OfferTransaction], dict[str, Problem]]:
        """Transactions for shelves that can take visitors, in order of their numbers; problems for the others."""
        found = self.leasing.slots(connection, asked)
        refused: dict[str, Problem] = {name: not_there(name) for name in asked if name not in found}
        begun: dict[str, OfferTransaction] = {}
        for name, (row, slots) in sorted(found.items(), key=lambda each: each[1][1].shelf):
            try:
                view = self.following.view(connection, name, row)
            except (NotFound, Unavailable) as problem:
                refused[name] = problem
            else:
                begun[name] = self._transaction(connection, view, slots, asked[name])
        return begun, refused

    def _transaction(
        self, connection: Connection, view: View, slots: Slots, requests: Sequence[OfferRequest]
    ) -> OfferTransaction:
        coins, limits = self.coins(slots.shelf), (self.settings.batch_limit, self.settings.release_seconds)
        given = (connection, self.vault, self.source, coins, slots, view, requests, self.schedule.waits, *limits)
        return transaction_of(view)(*given)

    def _step(self, connection: Connection, step: Step) -> Any:
        shelf = None if step.shelf is None else number_of(connection, step.shelf)
        if shelf is not None and step.receipt.time >= self.schedule.waits_from(connection, [shelf])[shelf]:
            return self._again()
        return problem_or(partial(step, connection))

    def _again(self) -> object:
        """The reply to a request that waits for a release, which the chores then look for."""
        self.schedule.look_soon()
        return AGAIN
