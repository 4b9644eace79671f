"""A shelf's state, its visits and its releases: the batch protocol in memory, with arrivals as its clock.

The clock reads the number of the latest arrival. Answers are received at that time, and a batch is due a fixed number
of arrivals after its last slot. Everything that the proofs rely on is a rule in `quietshelf.curation` (docs/proofs.md,
section 6).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from quietshelf.curation.answers import Slot, Verdict, answer
from quietshelf.curation.arms import kept, policies, present, share_of
from quietshelf.curation.batches import Batch, Schedule, arrive, charge, draw, due, open_batch
from quietshelf.curation.coins import Coins
from quietshelf.curation.contributions import at_once, sum_of, total, width
from quietshelf.curation.decisions import decide
from quietshelf.curation.ledger_unit import addressed
from quietshelf.curation.outlook import outlook_of, start
from quietshelf.curation.persons import Persons
from quietshelf.curation.settings import Public, ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.types import NOTHING, Context, FloatArray, Offer, require
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import Total
from quietshelf.serving.shelf.errors import AnswerConflict, OfferExpired, UnknownOffer

AT_ONCE = 128
"""Contributions summed together in one matrix product: one by one they would cost more than the rest of a visit. Very
long ones are summed in smaller groups."""
HISTORY_INCOMPLETE = (
    "Another shelf may have continued from the file this one was loaded from. Its releases are not listed here; each "
    "visit is in one release at most, and persons may have been counted twice."
)


@dataclass
class Slots:
    """The visitors of one unreleased batch.

    Attributes:
        batch: Its public part.
        sum: Sum of contributions of visitors who answered, (width,). Their raw features are deleted.
        shown: What each was shown, by offer id, in order of arrival.
        kept: Features and answer of each, by offer id.
        answered: Choices whose contribution is not summed yet, by offer id.
    """

    batch: Batch
    sum: FloatArray
    shown: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kept: dict[str, Slot] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Batch) -> Slots:
        """Without any visitors yet."""
        return cls(batch, np.zeros(width(batch.frozen.theta.shape[-1], compares=batch.frozen.compares)))

    def choose(self, offer: str, place: int) -> None:
        """Enter an answer. Contributions are summed in groups, and their features deleted."""
        rows = self.kept[offer].rows
        self.kept[offer] = Slot(rows, place)
        self.answered[offer] = place
        if len(self.answered) >= AT_ONCE or (rows is not None and len(self.answered) >= at_once(self.dim, len(rows))):
            self.add_up()

    def add_up(self) -> None:
        """Sum the remaining contributions, and delete their features."""
        found, answered = self.with_added(self.answered), self.answered
        self.answered = {}  # first, so that an interrupt can lose a contribution but never double one
        self.kept |= {offer: Slot(None, place) for offer, place in answered.items()}
        self.sum = found

    def with_added(self, places: dict[str, int]) -> FloatArray:
        """The sum including the contributions of these slots, given each choice by offer id."""
        rows = {offer: rows for offer in places if (rows := self.kept[offer].rows) is not None}
        if not rows:
            return self.sum
        chosen = [places[offer] for offer in rows]
        return self.sum + sum_of(list(rows.values()), chosen, self.batch.frozen, self.batch.grid)

    def finished(self, on_no_answer: str) -> Total:
        """The sum over all slots, treating those without an answer as ``on_no_answer`` says."""
        self.add_up()
        silent = [offer for offer, slot in self.kept.items() if slot.answer is None]
        found = self.with_added(dict.fromkeys(silent, NOTHING)) if on_no_answer == "no-choice" else self.sum
        return total(found, self.dim)

    @property
    def dim(self) -> int:
        """Length of theta."""
        return int(self.batch.frozen.theta.shape[-1])


@dataclass
class State:
    """A shelf between two calls.

    Attributes:
        settings: Its settings.
        public: What was declared about visitors and tastes.
        stock: Its items.
        learner: What the releases taught; None before the first offer, which freezes geometry and prior.
        open: The batch with free slots; None until the next arrival opens one.
        waiting: Full batches that are not due yet, oldest first.
        schedule: What decides the next batch.
        arrivals: Visitors so far.
        anonymous: How many of them came without a person id.
        persons: Who was counted.
        history_incomplete: Whether another shelf may have continued from the same state, with releases and counts that
            this one does not know. Every visit is still in one release at most; for persons that is no longer known.
    """

    settings: ShelfSettings
    public: Public
    stock: Stock
    learner: Learner | None = None
    open: Slots | None = None
    waiting: list[Slots] = field(default_factory=list)
    schedule: Schedule = field(default_factory=Schedule)
    arrivals: int = 0
    anonymous: int = 0
    persons: Persons = field(default_factory=Persons)
    history_incomplete: bool = False

    @property
    def slots(self) -> Iterator[Slots]:
        """Batches whose visitors have not been released, oldest first."""
        yield from self.waiting
        if self.open is not None:
            yield self.open

    def ledger(self, source: NoiseSource) -> Ledger:
        """What was spent, per person or per visit."""
        config = self.settings.learning()
        return addressed(
            config.ledger(source) if self.learner is None else self.learner.ledger,
            arrivals=self.arrivals,
            anonymous=self.anonymous,
            history_incomplete=HISTORY_INCOMPLETE if self.history_incomplete else None,
            rho_per_release=config.rho_per_release,
            log=self.public.log,
        )

    def begin(self, source: NoiseSource) -> Learner:
        """The learner; the first arrival freezes geometry and prior from what is public then."""
        if self.learner is None:
            self.learner = start(self.settings, self.public, self.stock, source)
        return self.learner

    def offer(self, context: Context, person: str | None, source: NoiseSource, coins: Coins) -> Offer:
        """Serve one valid arrival: release what is due, assign a slot, decide, and keep what its contribution needs."""
        self._release_due(source)
        learner = self.begin(source)
        if self.open is None:
            outlook = outlook_of(self.settings, self.public, self.stock)
            self.schedule, batch = open_batch(self.schedule, learner, source, outlook, window=self.settings.window)
            self.open = Slots.of(batch)
        mine, number = self.open, self.open.batch.frozen.number
        own = coins.of([(number, mine.batch.taken)])
        share = share_of(self.settings, learner)
        arms = present(share, own)
        (decision,) = decide(policies(self.settings, arms), [context], learner.release, own)
        decision = kept(self.settings, decision, context, present=arms[0])
        counts = person is None or self.persons.admit(person, batch=number, visits=self.settings.visits)
        name = f"{number}-{mine.batch.taken}-{secrets.token_urlsafe(12)}"
        mine.shown[name] = tuple(decision.items.tolist())
        mine.kept[name] = Slot(decision.rows if counts else None)
        mine.batch = arrive(mine.batch, self.arrivals, present=arms[0], share=share)
        self.arrivals += 1
        self.anonymous += person is None
        if mine.batch.full:
            self.open = None  # first: an interrupt can lose a batch but never leave it in two places
            self.waiting.append(mine)
        return Offer(name, mine.shown[name], len(learner.records))

    def check(self, offer: str, item: int) -> bool:
        """Whether an answer is new; refuses an invalid one."""
        mine = self._slots_of(offer)
        items = mine.shown[offer]
        shown = item == NOTHING or item in items
        if not shown:
            (given,), listed = self.stock.names([item]), list(self.stock.names(items))
            require(False, f"item must be None or one of the items shown, {listed}", item=given)
        place, received = _place(items, item), self.arrivals - 1
        verdict = answer(mine.kept[offer].answer, place, received=received, expires=mine.batch.due_at)
        if verdict is Verdict.CONFLICT:
            rule = "item must be the one given before, which stands"
            raise AnswerConflict(f"{rule}, got another answer to the same offer")
        return verdict is Verdict.COUNTS

    def choose(self, offer: str, item: int) -> None:
        """Enter an answer that `check` found new: an item, or -1 for none."""
        mine = self._slots_of(offer)
        mine.choose(offer, _place(mine.shown[offer], item))

    def drop(self) -> int:
        """Drop the unreleased batches; returns how many visitors they held. They have cost nothing."""
        dropped = list(self.slots)
        self.schedule = self.schedule.dropped(each.batch for each in dropped)
        self.open, self.waiting = None, []
        return sum(each.batch.taken for each in dropped)

    def _release_due(self, source: NoiseSource) -> None:
        """R5 and R7: release what is due. Once off the list, a batch is never drawn again.

        Its cost is entered before its noise is drawn: any failure in between burns the batch.
        """
        while self.waiting and due(self.waiting[0].batch, self.arrivals):
            found = self.waiting[0].finished(self.settings.on_no_answer)
            batch = self.waiting.pop(0).batch
            self.learner = charge(self.begin(source), batch, source)
            self.learner = draw(self.learner, batch, found, source)

    def _slots_of(self, offer: str) -> Slots:
        """The unreleased batch that an offer belongs to."""
        for mine in self.slots:
            if offer in mine.kept:
                return mine
        number = str(offer).partition("-")[0]
        live = {each.batch.frozen.number for each in self.slots}
        if number.isdecimal() and int(number) <= self.schedule.opened and int(number) not in live:
            raise OfferExpired(f"offer must be answered before its batch is released, got offer={offer!r}")
        raise UnknownOffer(f"offer must be the id of an offer of this shelf, got offer={offer!r}")


def _place(items: tuple[int, ...], item: int) -> int:
    return NOTHING if item == NOTHING else items.index(item)
