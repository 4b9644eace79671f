"""The simulation as a user of the protocol: `QuietCurator` over parallel replicates, with every policy.

Replicate 0 is the schedule's; in the others the same visitors come in another order, so that no replicate may see what
the target brings to the first.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from tests.protocol.places import COINS
from tests.protocol.shelf_user import options
from tests.protocol.steps import Arrive, Change, Look, Step, Visit
from tests.protocol.worlds import Seen, World

from quietshelf import Shelf
from quietshelf.curation.outlook import outlook_of, start
from quietshelf.curation.persons import Persons
from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.curation.requests import visitor_context
from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.types import (
    NOTHING,
    BoolArray,
    Context,
    Features,
    FloatArray,
    IntArray,
    Random,
    Release,
    Round,
    Streams,
)
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.outlook import Moments
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.records import Estimate
from quietshelf.privacy.statistics import ObservedChoice
from quietshelf.serving.shelf.testing import state_of

SHOWN_BY = ("quiet", "greedy", "ts-mnl", "uniform")
"""Policies, by the seed of a schedule; a schedule that is compared with other users has its shop's own."""


class SimulatedUser:
    """Replicates side by side; ``alone`` for one of them, by the shop's policy and the coins that others use."""

    def __init__(self, world: World, *, alone: bool = False) -> None:
        self._world, self._replicates = world, 1 if alone else 2
        state = state_of(Shelf(**options(world)))
        self._settings, self._public, self._stock = state.settings, state.public, state.stock
        learner = start(state.settings, state.public, state.stock, world.tape)
        self.curator = QuietCurator(_replicated(learner, self._replicates), world.tape, self)
        self._persons = [Persons(bytes(32)) for _ in range(self._replicates)]
        seed = world.schedule.seed
        self._policy = world.schedule.shop.policy if alone else SHOWN_BY[seed % len(SHOWN_BY)]
        seeds = [np.random.SeedSequence([seed, place]) for place in range(self._replicates)]
        self._streams = None if alone or seed % 3 == 0 else Streams(seeds)
        self._came: set[int] = set()

    @property
    def moments(self) -> Moments:
        """Of what made-up visitors of the shop would see."""
        return outlook_of(self._settings, self._public, self._stock).moments

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        """An outlook: what they would be shown, by the items that there are when the batch opens."""
        return outlook_of(self._settings, self._public, self._stock).shown(release, factor)

    def close(self) -> None:
        """Nothing is kept."""

    def kept(self) -> dict[int, Any]:
        """Nothing is kept."""
        return {}

    def take(self, step: Step) -> list[Seen]:
        """What is received when that happens, warnings included."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            seen = self._take(step)
        return seen + [Seen(None, "warning", str(each.message)) for each in caught]

    def _take(self, step: Step) -> list[Seen]:
        match step:
            case Arrive(visit=visit) if visit not in self._came:
                self._came.add(visit)
                return self._arrive(visit)
            case Change():
                self._change(step)
                self._open_again()
            case Look():
                return self._look()
        return []

    def _arrive(self, number: int) -> list[Seen]:
        """One visitor in each replicate: in the second, somebody who is not the target."""
        visits = [self._world.visit(number)]
        if self._replicates > 1:
            visits.append(self._other(number))
        batch = self.curator.batch
        contexts = [self._context(visit) for visit in visits]
        context, release = together(contexts), self.curator.release
        items = POLICIES[self._policy].offer(context, release, self._coins(batch.frozen.number, batch.taken))
        chosen = np.array([_chosen(row, visit.chooses) for row, visit in zip(items, visits, strict=True)])
        counts = np.array([self._counts(place, visit) for place, visit in enumerate(visits)])
        after = self.curator.observe(Round(context, items, chosen, counts))
        owners: list[int | None] = [number, None]
        offers = [Seen(owner, "offer", row.tolist()) for owner, row in zip(owners, items, strict=False)]
        return [*offers, *_told(after)]

    def _other(self, number: int) -> Visit:
        """Whoever comes to the second replicate: the next visitor who is not the target, as in the first world."""
        visits, target = self._world.schedule.visits, self._world.schedule.target
        others = [first for place, (first, _) in enumerate(visits) if place not in target]
        nobody = Visit((0.25,) * self._world.schedule.shop.feature_count, "nobody")
        return others[number % len(others)] if others else nobody

    def _context(self, visit: Visit) -> Context:
        shop, count = self._world.schedule.shop, len(self._stock)
        shape = -1 if shop.feature_map is not None else (len(shop.items), -1)
        added = (1.0,) * (count - len(shop.items))
        return visitor_context(
            self._settings,
            self._stock,
            features=np.array(visit.features).reshape(shape),
            revenue=None if visit.revenue is None else (*visit.revenue, *added),
            candidates=None if visit.candidates is None else list(visit.candidates),
            required=list(visit.required) or None,
            exclude=list(visit.exclude) or None,
            capacity=visit.capacity if self._replicates == 1 else None,
        )

    def _coins(self, batch: int, slot: int) -> Random:
        if self._streams is not None:
            return self._streams
        return COINS.of([(batch, slot + place * 10_000) for place in range(self._replicates)])

    def _counts(self, place: int, visit: Visit) -> bool:
        batch, visits = self.curator.batch.frozen.number, self._settings.visits
        return visit.person is None or self._persons[place].admit(visit.person, batch=batch, visits=visits)

    def _change(self, step: Change) -> None:
        stock = self._stock
        if stock.retired[step.item] or stock.catalogue is None:
            return
        match step.kind:
            case "add":
                self._stock = stock.with_more([step.features], step.revenue, None)
            case "retire":
                self._stock = stock.without(step.item)
            case _:
                self._stock = stock.changed(
                    step.item,
                    features=step.features if step.kind == "features" else None,
                    revenue=step.revenue if step.kind == "revenue" else None,
                    available={"available": True, "unavailable": False}.get(step.kind),
                )

    def _open_again(self) -> None:
        """A batch opens at once here, elsewhere with its first arrival: one that nobody is in sees the change."""
        batch, learner = self.curator.batch, self.curator.learner
        if batch.taken == 0:
            frozen = learner.open(batch.frozen.number, batch.frozen.size, self)
            self.curator._batch = batch._replace(frozen=frozen)

    def _look(self) -> list[Seen]:
        return [Seen(None, "ledger", [self.curator.ledger.to_dict()]), *_told(self.curator.release)]


def _replicated(learner: Learner, count: int) -> Learner:
    """The same learner in so many replicates."""
    mean, second = (np.stack([field] * count, axis=1) for field in learner.moments[:2])
    moments = Moments(mean, second, np.full(count, learner.moments.alike))
    given = None if learner.given is None else Estimate(*(np.stack([field] * count) for field in learner.given))
    return Learner.resumed(learner.config, learner.capacity, moments, given, learner.ledger)


def together(contexts: list[Context]) -> Context:
    """One visitor of each replicate as one context; whoever asks for nothing special is spared the masks."""
    first = contexts[0]
    return Context(
        features=_stacked([each.features for each in contexts]),
        revenue=np.stack([each.revenue for each in contexts]),
        capacity=min(each.capacity for each in contexts),
        groups=first.groups,
        limits=first.limits,
        available=_masks([each.available for each in contexts], np.ones(first.revenue.size, dtype=bool)),
        required=_masks([each.required for each in contexts], np.zeros(first.revenue.size, dtype=bool)),
    )


def _masks(masks: list[BoolArray | None], default: BoolArray) -> BoolArray | None:
    return None if all(mask is None for mask in masks) else np.stack([default if m is None else m for m in masks])


def _stacked(features: list[Features]) -> Features:
    first = features[0]
    if isinstance(first, Catalogued):
        visitors = np.stack([each.visitor for each in features if isinstance(each, Catalogued)])
        return Catalogued(visitors, first.catalogue, first.feature_map)
    return Dense(np.stack([each.x for each in features if isinstance(each, Dense)]))


def _chosen(items: IntArray, place: int) -> int:
    held = items[items != NOTHING]
    return NOTHING if place < 0 or not held.size else int(held[place % held.size])


def _told(release: Release) -> list[Seen]:
    return [Seen(None, name, (getattr(release, name) + 0).tobytes()) for name in Release.arrays]
