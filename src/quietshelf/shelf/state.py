"""All that a shelf remembers, and how it changes: one arrival, one answer, one release at a time."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from quietshelf.accounting import Assumption, Event, Ledger
from quietshelf.choice.maps import feature_map
from quietshelf.release.geometry import catalogue_curvature, unknown_curvature
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner, OpenBatch
from quietshelf.shelf.errors import OfferExpired, UnknownOffer
from quietshelf.shelf.persons import Persons
from quietshelf.shelf.settings import Public, Settings
from quietshelf.shelf.slots import Batch, Slot
from quietshelf.shelf.stock import Stock
from quietshelf.types import Features, FloatArray, require

ESTRANGED = (
    "Another shelf may have gone on from the file this one was loaded from. What it released is not listed here; each "
    "visit is in one release at most, and persons may have been counted twice."
)


@dataclass
class State:
    """A shelf between two calls.

    Attributes:
        settings: What it was told once.
        public: What was declared about visitors and tastes.
        stock: Its items.
        learner: What the releases taught; None before the first offer, which freezes geometry and prior.
        visitor_dim: Length of visitor features, fixed by the first offer.
        open: The batch that takes slots; None until the next arrival opens one.
        waiting: Full batches that are not due yet, oldest first.
        last_batch: The batch opened last, whatever became of it.
        next_size: Size of the next batch, where one was dropped; else the schedule's.
        arrivals: Visitors so far.
        anonymous: How many of them came without a person id.
        persons: Who was counted.
        estranged: Whether another shelf may have gone on from the same state: releases and counts that this one does
            not know may exist. Every visit is still in one release at most; of persons nothing more can be said.
    """

    settings: Settings
    public: Public
    stock: Stock
    learner: Learner | None = None
    visitor_dim: int = 0
    open: Batch | None = None
    waiting: list[Batch] = field(default_factory=list)
    last_batch: OpenBatch | None = None
    next_size: int | None = None
    arrivals: int = 0
    anonymous: int = 0
    persons: Persons = field(default_factory=Persons)
    estranged: bool = False

    @property
    def batches(self) -> Iterator[Batch]:
        """Batches whose visitors have not been released."""
        yield from self.waiting
        if self.open is not None:
            yield self.open

    def ledger(self, source: NoiseSource) -> Ledger:
        """What was spent, and for whom it is counted."""
        config = self.settings.learning(declared=True)
        ledger = config.ledger(source) if self.learner is None else self.learner.ledger
        why, rho = ESTRANGED if self.estranged else None, config.rho_per_release
        return addressed(ledger, arrivals=self.arrivals, anonymous=self.anonymous, estranged=why, rho_per_release=rho)

    def begin(self, features: Features, visitor_dim: int, source: NoiseSource) -> Learner:
        """The learner; the first visitor's arrival freezes geometry and prior from what is public by then."""
        if self.learner is not None:
            wanted = self.visitor_dim
            require(visitor_dim == wanted, f"features must have length {wanted}, as before", length=visitor_dim)
            return self.learner
        curvature = self.public.curvature
        if curvature is None:
            curvature = self._catalogue_curvature(visitor_dim)
        declared = curvature is not None
        guess = unknown_curvature(features.dim) if curvature is None else curvature
        wanted = features.dim
        require(guess.shape == (wanted, wanted), f"curvature must have shape ({wanted}, {wanted})", shape=guess.shape)
        learning = self.settings.learning(declared=declared)
        learner = Learner.start(learning, guess, source=source, prior=self.public.prior)
        self.learner, self.visitor_dim = learner, visitor_dim
        return learner

    def release_due(self, source: NoiseSource) -> None:
        """Release the batches whose answers have been waited for; called by arrivals, never by answers."""
        while self.waiting and self.arrivals > self.waiting[0].last_arrival + self.settings.patience:
            due, learner = self.waiting[0], self.learner
            assert learner is not None  # noqa: S101 - a batch has a learner
            self.learner = learner.close(due.frozen, due.finish(self.settings.silence), source)
            self.waiting.pop(0)

    def take_slot(self, learner: Learner, source: NoiseSource) -> Batch:
        """The batch in which the present arrival has its slot."""
        if self.open is None:
            self.last_batch = learner.open(self.last_batch, source, size=self.next_size)
            self.next_size = None
            self.open = Batch.of(self.last_batch, source.grid)
        return self.open

    def arrive(self, batch: Batch, items: tuple[int, ...], features: Features, person: str | None) -> str:
        """Enter an arrival in its slot; the id of its offer."""
        number = batch.frozen.number
        counts = person is None or self.persons.admit(person, batch=number, visits=self.settings.visits)
        rows = features.rows(np.array(items, dtype=np.int64)) if counts else None
        name = f"{number}-{len(batch.slots)}-{secrets.token_urlsafe(12)}"
        batch.slots[name] = Slot(items, rows)
        batch.last_arrival = self.arrivals
        self.arrivals += 1
        self.anonymous += person is None
        if batch.full:
            self.waiting.append(batch)
            self.open = None
        return name

    def batch_of(self, offer: str) -> Batch:
        """The batch in which an offer still waits for its answer."""
        for batch in self.batches:
            if offer in batch.slots:
                return batch
        number = str(offer).partition("-")[0]
        opened = -1 if self.last_batch is None else self.last_batch.number
        live = {batch.frozen.number for batch in self.batches}
        if number.isdecimal() and int(number) <= opened and int(number) not in live:
            raise OfferExpired(f"offer must be answered before its batch is released, got offer={offer!r}")
        raise UnknownOffer(f"offer must be the id of an offer of this shelf, got offer={offer!r}")

    def drop(self) -> int:
        """Forget the batches that are not released; how many visitors they held. It has cost nothing to hold them."""
        dropped = list(self.batches)
        if dropped:
            self.next_size = dropped[0].frozen.size
        self.open, self.waiting = None, []
        return sum(len(batch.slots) for batch in dropped)

    def _catalogue_curvature(self, visitor_dim: int) -> FloatArray | None:
        catalogue, scale, name = self.stock.catalogue, self.public.visitor_scale, self.settings.feature_map
        if catalogue is None or scale is None or name is None:
            return None
        each = np.broadcast_to(scale, (visitor_dim,)) if scale.ndim == 0 else scale
        require(each.shape == (visitor_dim,), f"visitor_scale must have length {visitor_dim}", shape=each.shape)
        return catalogue_curvature(
            catalogue[self.stock.offerable],
            feature_map(name, intercept=self.settings.intercept),
            visitor_scale=each,
            capacity=self.settings.capacity,
        )


def addressed(
    ledger: Ledger, *, arrivals: int, anonymous: int, estranged: str | None, rho_per_release: float
) -> Ledger:
    """A ledger to persons if every visitor so far was named, else to visits; never less than what may have been spent.

    ``estranged`` says why releases and counts may be missing, if they may. The same rule for `Shelf` and the service.
    """
    if estranged is not None:
        return _estranged(ledger, rho_per_release, estranged)
    everybody_named = arrivals > 0 and anonymous == 0
    return replace(ledger, unit="person") if everybody_named else ledger


def _estranged(ledger: Ledger, rho: float, detail: str) -> Ledger:
    """A ledger that may lack releases and counts: to visits, with one event that stands for what it may lack.

    Every visit is in one release at most, of cost rho at most, whoever made it; of persons nothing more can be said.
    """
    unknown = Event(
        name="releases not in this ledger",
        visitors=1 + max((int(event.visitors) for event in ledger.events), default=-1),
        sensitivity=math.inf,
        noise=0.0,
        rho=rho,
        assumption=Assumption.EXACT_GRID,
        detail=detail,
    )
    return replace(ledger, unit="visit", visits=1).spend(unknown)
