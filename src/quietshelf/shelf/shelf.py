"""The embeddable object: one shelf, in one process.

What visitors see depends on others only through releases (docs/proofs.md, section 2); slots, closing times, frozen
coordinates and the single resumption of an open batch are kept as a running system must (section 6).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from threading import RLock
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.accounting import Promise
from quietshelf.policies import POLICIES
from quietshelf.release.noise import DiscreteGaussian, NoiseSource
from quietshelf.shelf import saved
from quietshelf.shelf.errors import OpenBatchDropped, ShelfError
from quietshelf.shelf.requests import check_person, visitor_context
from quietshelf.shelf.saved import Claim
from quietshelf.shelf.settings import Public, Settings
from quietshelf.shelf.state import State
from quietshelf.shelf.stock import Stock
from quietshelf.shelf.tastes import Tastes
from quietshelf.types import NOTHING, Offer, Random, finite, require, whole


class Shelf:
    """Chooses what to show, learns privately from the answers, and says what that costs whom.

    >>> import numpy as np
    >>> shelf = Shelf(items=4, dim=2, capacity=2, rho=1.0)
    >>> offer = shelf.offer(np.eye(4, 2))
    >>> len(offer.items), offer.release
    (2, 0)
    >>> shelf.observe(offer.id, choice=offer.items[0])
    >>> shelf.privacy(delta=1e-6).rho  # nothing has been released yet
    0.0

    Args:
        items: N, where each offer brings the features of every item, (N, dim).
        dim: d, likewise.
        catalogue: Item features (N, d2), where the shelf knows the items and an offer brings the visitor's features.
        feature_map: How visitor and item features make x: item, concat, outer or full.
        intercept: Whether the map keeps its 1.
        visitor_scale: Declared (not measured) standard deviation of visitor features, one number or one each; None
            declares nothing.
        visitor_dim: Length of visitor features; by default that of ``visitor_scale`` or of the first offer.
        capacity: K, the most items shown.
        rho: The promise to one person for the shelf's lifetime, in zCDP.
        policy: "quiet", or "uniform" for random offers.
        groups: Group of each item, -1 for none.
        limits: The most items shown of each group.
        visits: How many visits of one person count.
        patience: How many visitors are served between a batch's last one and its release; with 0 the next offer
            releases it. Counted in arrivals, never in answers.
        silence: "no-choice" if an unanswered offer means that nothing was chosen, "zero" if it means nothing.
        prior: Public (theta, precision) to start from.
        curvature: Public guess of one visitor's curvature (d, d), where each offer brings x; I/d by default.
        ceiling: The most visitors in a batch, where tastes drift.
        forgetting: How much each release makes older ones count less; 1 forgets nothing.
    """

    def __init__(
        self,
        *,
        items: int | None = None,
        dim: int | None = None,
        catalogue: ArrayLike | None = None,
        feature_map: str = "full",
        intercept: bool = True,
        visitor_scale: ArrayLike | None = 1.0,
        visitor_dim: int | None = None,
        capacity: int,
        rho: float,
        policy: str = "quiet",
        groups: ArrayLike | None = None,
        limits: ArrayLike | None = None,
        visits: int = 1,
        patience: int = 0,
        silence: Literal["no-choice", "zero"] = "no-choice",
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        curvature: ArrayLike | None = None,
        ceiling: int | None = None,
        forgetting: float = 1.0,
    ) -> None:
        dense = catalogue is None
        require(dense == (items is not None) == (dim is not None), "give either items and dim, or a catalogue")
        known = None if catalogue is None else np.asfortranarray(finite("catalogue", catalogue, shape=(None, None)))
        count = whole("items", len(known) if known is not None else items or 0)
        whole("capacity", capacity, high=count, high_name="items")
        settings = Settings(
            rho=rho,
            visits=visits,
            patience=patience,
            silence=silence,
            capacity=capacity,
            policy=policy,
            feature_map=None if dense else feature_map,
            intercept=intercept,
            dim=dim,
            visitor_dim=visitor_dim,
            ceiling=ceiling,
            forgetting=forgetting,
        )
        public = Public.of(visitor_scale=visitor_scale, curvature=curvature, prior=prior)
        if dim is not None:  # all sizes are known: refuse now what the first visitor would stumble over
            public.check(settings, dim)
        self._start(State(settings, public, Stock.of(count, known, groups, limits)))

    def _start(self, state: State, source: NoiseSource | None = None, rng: Random | None = None) -> None:
        self._state = state
        self._source: NoiseSource = DiscreteGaussian() if source is None else source
        self._rng: Random = np.random.default_rng() if rng is None else rng
        self._lock = RLock()
        self._claim: Claim | None = None
        self._process = os.getpid()
        if any(batch.grid != self._source.grid for batch in state.batches):
            self._drop("they were rounded to another grid than the noise is drawn on")

    # What visitors do

    def offer(
        self,
        features: ArrayLike | None = None,
        revenue: ArrayLike | None = None,
        available: Any = None,
        required: Any = None,
        exclude: Any = None,
        capacity: int | None = None,
        person: str | None = None,
    ) -> Offer:
        """What to show one visitor. A refused request is not a visitor: it raises and changes nothing.

        Args:
            features: The visitor's features (d1,), or with no catalogue those of every item, (N, d).
            revenue: What each item earns, for this offer only, (N,).
            available: Items that may be shown, as mask or indices; all that the shelf has by default.
            required: Items that must be shown, likewise.
            exclude: Items that must not be shown, likewise.
            capacity: The most items shown, at most the shelf's own.
            person: Who it is, where the caller knows; at most ``visits`` visits of a person count.
        """
        with self._lock:
            state = self._state
            context = visitor_context(
                state.settings,
                state.stock,
                features=features,
                revenue=revenue,
                available=available,
                required=required,
                exclude=exclude,
                capacity=capacity,
            )
            check_person(state.settings, person)
            state.begin(context.features, 0 if features is None else np.shape(features)[-1], self._source)
            self._own()
            state.release_due(self._source)
            learner = state.begin(context.features, state.visitor_dim, self._source)
            batch = state.take_slot(learner, self._source)
            assortment = POLICIES[state.settings.policy].offer(context, learner.release, self._rng)
            items = tuple(assortment[assortment != NOTHING].tolist())
            return Offer(state.arrive(batch, items, context.features, person), items, len(learner.records))

    def observe(self, offer: str, choice: int | None) -> None:
        """Take the answer to an offer: the item chosen, or None. The same answer again is fine.

        Raises:
            UnknownOffer: No offer has that id.
            OfferExpired: Its batch is released, or was dropped.
            AnswerConflict: It was answered before, differently.
            ValueError: The item was not shown.
        """
        with self._lock:
            item = NOTHING if choice is None else whole("choice", choice, low=0)
            self._state.batch_of(offer).check(offer, item)
            self._own()
            self._state.batch_of(offer).answer(offer, item)

    # What the shop does

    def add(self, features: ArrayLike, *, revenue: ArrayLike = 1.0, group: ArrayLike | None = None) -> list[int]:
        """Put new items in the catalogue, (n, d2); their indices. The geometry frozen at the first offer stays."""
        with self._lock:
            before = len(self._state.stock)
            self._state.stock = self._state.stock.with_more(features, revenue, group)
            return list(range(before, len(self._state.stock)))

    def change(
        self,
        item: int,
        *,
        features: ArrayLike | None = None,
        revenue: float | None = None,
        available: bool | None = None,
    ) -> None:
        """Alter an item from the next offer on; offers already made keep the features they used."""
        with self._lock:
            stock = self._state.stock
            self._state.stock = stock.changed(item, features=features, revenue=revenue, available=available)

    def retire(self, item: int) -> None:
        """Never show an item again; its index is not given to another."""
        with self._lock:
            self._state.stock = self._state.stock.without(item)

    # What anybody may know

    def privacy(self, delta: float = 1e-6) -> Promise:
        """What is promised, in figures and in words; to each person if every visitor so far came with a person id."""
        with self._lock:
            return self._state.ledger(self._source).promise(delta=delta)

    def estimate(self) -> Tastes:
        """Tastes and their uncertainty, from releases alone."""
        with self._lock:
            learner = self._state.learner
            if learner is None:
                raise ShelfError("there is nothing to estimate before the first offer")
            return Tastes.of(learner)

    @property
    def arrivals(self) -> int:
        """How many visitors came; public under this guarantee."""
        return self._state.arrivals

    # Keeping it

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically, with the person key in another beside it. The shelf may go on.

        The files are readable by their owner alone: until a batch is released, they hold its visitors' raw features and
        the exact sums of their answers. Treat them, and every backup of them, as you treat those data.
        """
        with self._lock:
            self._own()
            self._claim = saved.write(Path(path), self._state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Shelf:
        """A shelf from a file. Its open batches are resumed by whoever loads it first, once.

        A second load, a copy, a moved file, or a save that the shelf has gone on from drops them with a warning
        (`OpenBatchDropped`): the same visitors could otherwise be released twice. Dropping costs no privacy. Such a
        shelf does not know what was released and who was counted after the save, and its promise says so: it is to
        each visit from then on. A snapshot of the whole disk cannot be told from the original: never load from one
        while, or after, the original goes on.
        """
        return cls._loaded(path)

    def __repr__(self) -> str:
        settings, count = self._state.settings, len(self._state.stock)
        return f"<Shelf: {settings.capacity} of {count} items, rho = {settings.rho:g}, {self.arrivals} visitors so far>"

    @classmethod
    def _loaded(
        cls, path: str | os.PathLike[str], source: NoiseSource | None = None, rng: Random | None = None
    ) -> Shelf:
        state, resumed = saved.read(Path(path))
        shelf = cls.__new__(cls)
        shelf._start(state, source, rng)
        if not resumed:
            state.estranged = True
            shelf._drop("this file is a copy, was loaded before, or the shelf went on after saving it")
        return shelf

    def _own(self) -> None:
        """Before anything changes: make sure that nobody else has, or may resume, the batches that are not released."""
        if self._process != os.getpid():  # a forked copy: the parent goes on with the same visitors
            self._process, self._claim, self._state.estranged = os.getpid(), None, True
            self._drop("they belong to the process that this one was forked from")
        if self._claim is not None and not self._claim.take():
            self._state.estranged = True
            self._drop("they were resumed from the last save")
        self._claim = None

    def _drop(self, why: str) -> None:
        dropped = self._state.drop()
        if dropped:
            warnings.warn(
                f"{dropped} visitors who were not released yet are left out: {why}", OpenBatchDropped, stacklevel=4
            )
