"""The embeddable object: one shelf, in one process.

What visitors see depends on others only through releases (docs/proofs.md, section 2). It runs the batch protocol of
`quietshelf.curation` in memory, and may be saved to a file that is resumed once (section 6).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from threading import RLock
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.accounting import Promise
from quietshelf.curation.batches import Batch
from quietshelf.curation.coins import Coins
from quietshelf.curation.outlook import start
from quietshelf.curation.requests import check_person, visitor_context
from quietshelf.curation.settings import OnNoAnswer, Public, Settings, check_size, declared_dim, reserved_effects
from quietshelf.curation.stock import Stock
from quietshelf.release.noise import DiscreteGaussian, NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.shelf import saved
from quietshelf.shelf.errors import OpenBatchDropped, ShelfError
from quietshelf.shelf.saved import OwnerChanged, ResumeToken
from quietshelf.shelf.state import State
from quietshelf.shelf.tastes import Tastes
from quietshelf.types import NOTHING, Offer, finite, require, whole


class Shelf:
    """Chooses what to show, learns privately from the answers, and says what that costs whom.

    >>> import numpy as np
    >>> shelf = Shelf(items=4, dim=2, capacity=2, rho=1.0)
    >>> offer = shelf.offer(np.eye(4, 2))
    >>> len(offer.items), offer.release
    (2, 0)
    >>> shelf.choose(offer.id, offer.items[0])
    >>> shelf.privacy(delta=1e-6).rho  # nothing has been released yet
    0.0

    Args:
        items: N, where each offer brings the features of every item, (N, dim).
        dim: d, the length of each of those vectors.
        catalogue: Item features (N, d2), where the shelf knows the items and an offer brings the visitor's features.
        feature_map: How visitor and item features make x: item, concat, outer or full.
        intercept: Whether the map keeps its 1.
        visitor_scale: Declared (not measured) standard deviation of visitor features, one number or one each; None
            declares nothing.
        visitor_dim: Length of visitor features; may be left out if ``visitor_scale`` lists one each, or the map uses
            none.
        item_effects: Whether each item has a utility of its own beside what its features say. It starts at 0, where
            features put the item, and is learned; a number reserves places for items that come later (True: none).
        capacity: K, the most items shown.
        rho: The promise to one person for the shelf's lifetime, in zCDP.
        policy: "quiet", or "uniform" for random offers.
        groups: Group of each item, -1 for none.
        limits: The most items shown of each group.
        visits: How many visits of one person count.
        wait_arrivals: How many visitors are served between a batch's last one and its release; with 0 the next offer
            releases it. Counted in arrivals, never in answers.
        on_no_answer: "no-choice" if an unanswered offer means that nothing was chosen, "zero" if it means nothing.
        prior: Public (theta, precision) to start from.
        curvature: Public guess of the second moment of x, (d, d), where each offer brings x; I/d by default. If it is
            ten times too large or too small, the releases tell, and it costs one or two of them.
        max_batch: The most visitors in a batch, where tastes drift.
        forgetting: How much each release makes older ones count less; 1 forgets nothing.
        conversion: Share of visitors who choose something, as you know it from your shop: 0.03 if three in a hundred
            do; 0.2 is assumed if it is not given. It sizes the first batch. What offers that nobody has tuned would
            sell is meant; today's figure is near enough. A wrong one costs time, never privacy.
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
        item_effects: int | bool = False,
        capacity: int,
        rho: float,
        policy: str = "quiet",
        groups: ArrayLike | None = None,
        limits: ArrayLike | None = None,
        visits: int = 1,
        wait_arrivals: int = 0,
        on_no_answer: OnNoAnswer = "no-choice",
        prior: tuple[ArrayLike, ArrayLike] | None = None,
        curvature: ArrayLike | None = None,
        max_batch: int | None = None,
        forgetting: float = 1.0,
        conversion: float | None = None,
    ) -> None:
        dense = catalogue is None
        require(dense == (items is not None) == (dim is not None), "give either items and dim, or a catalogue")
        known = None if catalogue is None else np.array(finite("catalogue", catalogue, shape=(None, None)), order="F")
        count = whole("items", len(known) if known is not None else items or 0)
        whole("capacity", capacity, high=count, high_name="items")
        settings = Settings(
            rho=rho,
            visits=visits,
            window=1 + whole("wait_arrivals", wait_arrivals, low=0),
            on_no_answer=on_no_answer,
            capacity=capacity,
            policy=policy,
            feature_map=None if dense else feature_map,
            intercept=intercept,
            dim=dim,
            item_effects=reserved_effects(item_effects, count),
            visitor_dim=0 if dense else declared_dim(feature_map, visitor_dim, visitor_scale),
            max_batch=max_batch,
            forgetting=forgetting,
            conversion=conversion,
        )
        public = Public.of(visitor_scale=visitor_scale, curvature=curvature, prior=prior)
        stock = Stock.of(count, known, groups, limits)
        start(settings, public, stock, DiscreteGaussian())  # refuse now what the first visitor would stumble over
        self._start(State(settings, public, stock))

    def _start(self, state: State, source: NoiseSource | None = None, coins: Coins | None = None) -> None:
        self._state = state
        self._source: NoiseSource = DiscreteGaussian() if source is None else source
        self._coins = coins or Coins.derived(state.persons.key)
        self._lock = RLock()
        self._token: ResumeToken | None = None
        self._process = os.getpid()
        if any(slots.batch.grid != self._source.grid for slots in state.slots):
            self._drop("they were rounded to another grid than the noise is drawn on")

    # What visitors do

    def offer(
        self,
        features: ArrayLike | None = None,
        revenue: ArrayLike | None = None,
        candidates: Any = None,
        required: Any = None,
        exclude: Any = None,
        capacity: int | None = None,
        person: str | None = None,
    ) -> Offer:
        """What to show one visitor. A refused request is not a visitor: it raises and changes nothing.

        Args:
            features: The visitor's features (d1,), or with no catalogue those of every item, (N, d).
            revenue: What each item earns, for this offer only, (N,).
            candidates: Items that may be shown, as a mask or as indices; all that the shelf has by default.
            required: Items that must be shown, in the same form.
            exclude: Items that must not be shown, in the same form.
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
                candidates=candidates,
                required=required,
                exclude=exclude,
                capacity=capacity,
            )
            check_person(state.settings, person)
            self._own()
            return state.offer(context, person, self._source, self._coins)

    def choose(self, offer: str, item: int | None) -> None:
        """Take the answer to an offer: the item chosen, or None. The same answer again is fine.

        Raises:
            UnknownOffer: No offer has that id.
            OfferExpired: Its batch is released, or was dropped.
            AnswerConflict: It was answered before, differently.
            ValueError: The item was not shown.
        """
        with self._lock:
            chosen = NOTHING if item is None else whole("item", item, low=0)
            if self._state.check(offer, chosen):  # it moves nothing public, so the last save stays as good as it was
                self._state.choose(offer, chosen)

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
                settings = self._state.settings
                first = settings.learning().batch_size(check_size(settings, self._state.stock), None)
                rule = "there is nothing to estimate before the first offer"
                raise ShelfError(f"{rule}; the first release will come after {first:,} visitors")
            return Tastes.of(learner)

    @property
    def arrivals(self) -> int:
        """How many visitors came; public under this guarantee."""
        return self._state.arrivals

    @property
    def learner(self) -> Learner | None:
        """Every release and what it taught: all of it is public. None before the first offer."""
        return self._state.learner

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What is public of the batches that are not released, oldest first: how large, how full, when due."""
        return tuple(slots.batch for slots in self._state.slots)

    # Keeping it

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically, with the person key in another beside it. The shelf may go on.

        The files are readable by their owner alone: until a batch is released, they hold its visitors' raw features and
        the exact sums of their answers. Treat them, and every backup of them, as you treat those data.
        """
        with self._lock:
            try:
                self._token = saved.write(Path(path), self._state, own=self._still_own)
            except OwnerChanged:  # what was written held batches that are another's
                self._token = saved.write(Path(path), self._state, own=self._still_own)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a shelf cannot be copied: two copies would release the same visitors twice; save and load it")

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
    def _loaded(cls, path: str | os.PathLike[str], source: NoiseSource | None = None) -> Shelf:
        state, resumed, left_out = saved.read(Path(path))
        shelf = cls.__new__(cls)
        shelf._start(state, source)
        if not resumed:
            state.history_incomplete = True
            shelf._drop("this file is a copy, was loaded before, or the shelf went on after saving it", left_out)
        elif left_out:
            shelf._drop("the version that saved them bounded what a visitor contributes in another way", left_out)
        return shelf

    def _still_own(self) -> None:
        if not self._own():
            raise OwnerChanged

    def _own(self) -> bool:
        """Before anything public changes: make sure that nobody else has, or may resume, the batches not yet released.

        False if somebody may, and they were dropped.
        """
        before = self._state.history_incomplete
        if self._process != os.getpid():  # a forked copy: the parent goes on with the same visitors
            self._process, self._token, self._state.history_incomplete = os.getpid(), None, True
            self._drop("they belong to the process that this one was forked from")
        if self._token is not None and not self._token.take():
            self._state.history_incomplete = True
            self._drop("they were resumed from the last save")
        self._token = None
        return self._state.history_incomplete == before

    def _drop(self, why: str, before: int = 0) -> None:
        dropped = before + self._state.drop()
        if dropped:
            warnings.warn(
                f"{dropped} visitors who were not released yet are left out: {why}", OpenBatchDropped, stacklevel=4
            )
