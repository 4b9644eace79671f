"""All that a shelf remembers: the batch protocol in memory, with arrivals for a clock.

The clock reads the number of the latest arrival. An answer is received at that reading, and a batch is due a fixed
number of arrivals after its last one. Everything a proof speaks of is a rule of `quietshelf.curation` (docs/proofs.md,
section 6).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from quietshelf.curation.answers import Slot, Verdict, answer
from quietshelf.curation.arms import kept, policies, present, share_of
from quietshelf.curation.batches import Batch, Schedule, announce, arrive, close, due, open_batch
from quietshelf.curation.coins import Coins
from quietshelf.curation.contributions import at_once, sum_of, total, width
from quietshelf.curation.decisions import decide
from quietshelf.curation.ledgers import addressed
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
"""Contributions that are summed together, in one matrix product: one by one they would cost more than all the rest of a
visit. Fewer where each is very long."""
HISTORY_INCOMPLETE = (
    "Another shelf may have gone on from the file this one was loaded from. What it released is not listed here; each "
    "visit is in one release at most, and persons may have been counted twice."
)


@dataclass
class Slots:
    """The arrivals of one batch that is not released.

    Attributes:
        batch: What is public of it.
        sum: Contributions of those who answered, (width,). Their raw features are dropped.
        shown: What each was shown, by offer id, in order of arrival.
        kept: What else is kept of each.
        answered: The place that each chose whose contribution is not summed yet, by offer id.
    """

    batch: Batch
    sum: FloatArray
    shown: dict[str, tuple[int, ...]] = field(default_factory=dict)
    kept: dict[str, Slot] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, batch: Batch) -> Slots:
        """Without arrivals yet."""
        return cls(batch, np.zeros(width(batch.frozen.theta.shape[-1], compares=batch.frozen.compares)))

    def choose(self, offer: str, place: int) -> None:
        """Enter an answer; contributions are summed some at a time, and the features behind them dropped."""
        rows = self.kept[offer].rows
        self.kept[offer] = Slot(rows, place)
        self.answered[offer] = place
        if len(self.answered) >= AT_ONCE or (rows is not None and len(self.answered) >= at_once(self.dim, len(rows))):
            self.add_up()

    def add_up(self) -> None:
        """Sum what is not summed yet, and drop the features behind it."""
        found, answered = self.with_added(self.answered), self.answered
        self.answered = {}  # first, so that an interrupt may lose a contribution and never double one
        self.kept |= {offer: Slot(None, place) for offer, place in answered.items()}
        self.sum = found

    def with_added(self, places: dict[str, int]) -> FloatArray:
        """The sum with the contributions of some slots, by offer id, given the place that each chose."""
        rows = {offer: rows for offer in places if (rows := self.kept[offer].rows) is not None}
        if not rows:
            return self.sum
        chosen = [places[offer] for offer in rows]
        return self.sum + sum_of(list(rows.values()), chosen, self.batch.frozen, self.batch.grid)

    def finished(self, on_no_answer: str) -> Total:
        """The sum over all slots, those without an answer by rule."""
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
        settings: What it was told once.
        public: What was declared about visitors and tastes.
        stock: Its items.
        learner: What the releases taught; None before the first offer, which freezes geometry and prior.
        open: The batch that takes slots; None until the next arrival opens one.
        waiting: Full batches that are not due yet, oldest first.
        schedule: What the next batch needs to know.
        arrivals: Visitors so far.
        anonymous: How many of them came without a person id.
        persons: Who was counted.
        history_incomplete: Whether another shelf may have gone on from the same state: releases and counts that this
            one does not know may exist. Every visit is still in one release at most; of persons nothing more is known.
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
        """What was spent, and for whom it is counted."""
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
        """The learner; the first arrival freezes geometry and prior from what is public by then."""
        if self.learner is None:
            self.learner = start(self.settings, self.public, self.stock, source)
        return self.learner

    def offer(self, context: Context, person: str | None, source: NoiseSource, coins: Coins) -> Offer:
        """One valid arrival: release what is due, give it a slot, decide, and keep what its contribution needs."""
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
            self.open = None  # first: an interrupt may lose a batch and never leave it in two places
            self.waiting.append(mine)
        return Offer(name, mine.shown[name], len(learner.records))

    def check(self, offer: str, item: int) -> bool:
        """Whether an answer is new; one that cannot be taken is refused."""
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
        """Take an answer that was found new: an item, or -1 for none."""
        mine = self._slots_of(offer)
        mine.choose(offer, _place(mine.shown[offer], item))

    def drop(self) -> int:
        """Forget the batches that are not released; how many visitors they held. It has cost nothing to hold them."""
        dropped = list(self.slots)
        self.schedule = self.schedule.dropped(each.batch for each in dropped)
        self.open, self.waiting = None, []
        return sum(each.batch.taken for each in dropped)

    def _release_due(self, source: NoiseSource) -> None:
        """R5 and R7: an arrival releases what is due. Once taken off the list a batch is never drawn again.

        Its cost is entered before its noise is drawn: whatever fails in between has burnt it.
        """
        while self.waiting and due(self.waiting[0].batch, self.arrivals):
            found = self.waiting[0].finished(self.settings.on_no_answer)
            batch = self.waiting.pop(0).batch
            self.learner = announce(self.begin(source), batch, source)
            self.learner = close(self.learner, batch, found, source)

    def _slots_of(self, offer: str) -> Slots:
        """The batch in which an offer still waits for its answer."""
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
