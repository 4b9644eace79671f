"""Faults, one or more against each rule, as somebody might write them: the machine must catch every one.

Each is a handful of patches, made anew for every run so that no fault remembers another world. ``user`` is the machine
that catches it; `test_faults` prints the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
from tests.protocol.schedules import LOSSES, Kind
from tests.protocol.users import USERS

from quietshelf.curation import arms, contributions, requests
from quietshelf.curation.answers import Verdict, answer
from quietshelf.curation.batches import charge, draw, due
from quietshelf.curation.coins import Coins
from quietshelf.curation.persons import Persons
from quietshelf.model.types import FloatArray
from quietshelf.policies import chance
from quietshelf.privacy.statistics import Factors, factors, outcomes
from quietshelf.serving.service.database import learning
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.releases import epochs
from quietshelf.serving.service.releases.releasing import Releasing
from quietshelf.serving.service.releases.schedule import Schedule
from quietshelf.serving.service.visitors import answers
from quietshelf.serving.shelf import state
from quietshelf.serving.shelf.shelf import Shelf
from quietshelf.serving.shelf.state import State

Patches = Callable[[], list[Any]]


@dataclass(frozen=True)
class Fault:
    """A rule broken: how, and by which machine, in which schedules (from ``first`` on), it is caught."""

    rule: str
    says: str
    user: str
    patches: Patches
    kind: Kind
    first: int = 0


FAULTS: list[Fault] = []


def fault(rule: str, says: str, *users: str, kind: Kind | None = None, first: int = 0) -> Callable[[Patches], Patches]:
    """Enter a fault in the table."""

    def enter(patches: Patches) -> Patches:
        FAULTS.extend(Fault(rule, says, user, patches, kind or USERS[user].kind, first) for user in users)
        return patches

    return enter


# R1 and R2: who is a visitor, and which slot is theirs


@fault("R1", "the first request decides how long features are", "shelf", "service-sqlite")
def _first_length() -> list[Any]:
    real, lengths = requests._features, dict[str, int]()

    def features(settings: Any, stock: Any, given: Any) -> Any:
        length = lengths.setdefault("first", int(np.size(given)))
        return real(settings if settings.map is None else replace(settings, visitor_dim=length), stock, given)

    return [mock.patch.object(requests, "_features", features)]


@fault("R1", "features larger than those seen so far are refused", "shelf")
def _outliers() -> list[Any]:
    real, largest = requests._features, [1.0]

    def features(settings: Any, stock: Any, given: Any) -> Any:
        size = float(np.abs(np.nan_to_num(given, nan=0.0)).max(initial=0.0))
        if size > 1e100 * largest[0]:
            raise ValueError("features must look like those of others")
        largest[0] = max(largest[0], size)
        return real(settings, stock, given)

    return [mock.patch.object(requests, "_features", features)]


@fault("R2", "a request that is refused for its features takes a slot", "shelf")
def _refused_slots() -> list[Any]:
    real = Shelf.offer

    def offer(self: Shelf, features: Any = None, **more: Any) -> Any:
        try:
            return real(self, features, **more)
        except ValueError as error:
            self._state.arrivals += "features" in str(error)
            raise

    return [mock.patch.object(Shelf, "offer", offer)]


@fault("R2", "an answer fills a place of the batch", "shelf")
def _filled_by_answers() -> list[Any]:
    real = State.choose

    def choose(self: State, offer: str, item: int) -> None:
        real(self, offer, item)
        if self.open is not None and self.open.batch.taken + 1 < self.open.batch.frozen.size:
            self.open.batch = self.open.batch._replace(taken=self.open.batch.taken + 1)

    return [mock.patch.object(State, "choose", choose)]


# R3: what is shown


class _Shared:
    """Coins of one generator for all."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __len__(self) -> int:
        return 1

    def only(self, _: Any) -> _Shared:
        return self

    @property
    def alone(self) -> _Shared:
        return self

    def arms(self) -> list[float]:
        return [float(self.rng.random())]

    def random(self, size: tuple[int, ...]) -> FloatArray:
        return self.rng.random(size)

    def random_where(self, needed: Any, size: tuple[int, ...]) -> FloatArray:
        found = np.zeros(size)
        found[needed] = self.rng.random((int(np.sum(needed)), *size[np.ndim(needed) :]))
        return found

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        return self.rng.standard_normal(size)


@fault("R3", "one generator for everybody's coins", "shelf", "service-sqlite")
def _shared_coins() -> list[Any]:
    shared = _Shared(np.random.default_rng(0))
    return [mock.patch.object(Coins, "of", return_value=shared)]


@fault("R3", "ties are broken on the scale of the whole group", "service-sqlite", first=400)
def _scale_of_the_group() -> list[Any]:
    real = chance._by_chance

    def by_chance(context: Any, release: Any, utility: FloatArray, order: FloatArray) -> Any:
        size = np.maximum(np.abs(utility).max(axis=-1, keepdims=True), 1.0)
        largest = np.nan_to_num(size, nan=1.0, posinf=chance.LARGEST).max()
        return real(context, release, utility, order * (largest / np.nan_to_num(size, nan=1.0)))

    return [mock.patch.object(chance, "_by_chance", by_chance)]


@fault("R3", "a visitor's features decide the arm", "shelf", "service-sqlite")
def _arm_by_features() -> list[Any]:
    real, now = requests._features, [0.0]

    def features(settings: Any, stock: Any, given: Any) -> Any:
        now[0] = float(np.nan_to_num(np.ravel([] if given is None else given), nan=0.0).sum())
        return real(settings, stock, given)

    def present(share: float, coins: Any) -> list[bool]:
        return [bool(share < 1 and now[0] > 0)] * len(coins)

    return [
        mock.patch.object(requests, "_features", features),
        mock.patch.object(arms, "present", present),
        mock.patch.object(state, "present", present),
    ]


@fault("R3", "an arm's visitors are counted when they answer", "shelf")
def _counted_by_answers() -> list[Any]:
    real = State.choose

    def choose(self: State, offer: str, item: int) -> None:
        real(self, offer, item)
        for slots in self.slots:
            if offer in slots.kept and slots.batch.frozen.compares:
                slots.batch = slots.batch._replace(present=len(slots.answered))

    return [mock.patch.object(State, "choose", choose)]


@fault("R6", "revenue is not cut in the comparison", "shelf")
def _revenue_uncut() -> list[Any]:
    return [mock.patch.object(outcomes, "bounded", np.nan_to_num)]


# R4 and R5: when


@fault("R4", "lateness is judged when the answer is written", "service-sqlite")
def _judged_late() -> list[Any]:
    real_take, now = answers.take, [0.0]

    def take(connection: Any, store: Any, choices: Any) -> Any:
        now[0] = store.now(connection)
        return real_take(connection, store, choices)

    def judged(kept: int | None, chosen: int, *, received: float, expires: float) -> Verdict:
        return answer(kept, chosen, received=max(received, now[0]), expires=expires)

    return [mock.patch.object(answers, "take", take), mock.patch.object(answers, "answer", judged)]


@fault("R4", "the last answer stands", "service-sqlite")
def _last_stands() -> list[Any]:
    def last(_: int | None, chosen: int, *, received: float, expires: float) -> Verdict:
        return answer(None, chosen, received=received, expires=expires)

    return [mock.patch.object(answers, "answer", last)]


@fault("R5", "a release is published with the time of the work", "service-sqlite")
def _time_of_work() -> list[Any]:
    real_row, real_enter, now = learning.release_row, Releasing._enter, [0.0]

    def enter(self: Releasing, drawn: Any) -> Any:
        now[0] = self._inbox.time()
        return real_enter(self, drawn)

    def release_row(learner: Any, batch: Any) -> Any:
        return {**real_row(learner, batch), "released_at": now[0]}

    return [
        mock.patch.object(learning, "release_row", release_row),
        mock.patch.object(Releasing, "_enter", enter),
    ]


@fault("R5", "a batch is released once all its answers are in", "shelf")
def _when_all_answered() -> list[Any]:
    real = State._release_due

    def release_due(self: State, source: Any) -> None:
        for slots in self.waiting:
            if all(slot.answer is not None for slot in slots.kept.values()):
                slots.batch = slots.batch._replace(full_at=-1e9)
        real(self, source)

    return [mock.patch.object(State, "_release_due", release_due)]


@fault("R5", "answers and changes do not wait for a release that is due", "service-sqlite", first=400)
def _no_waiting() -> list[Any]:
    never = mock.patch.object(Schedule, "waits_from", lambda *given: dict.fromkeys(given[-1], math.inf))
    return [never]


# R6: contributions


@fault("R6", "contributions are scaled by the largest of the group", "simulation", "service-sqlite")
def _scaled_together() -> list[Any]:
    real = factors

    def scaled(*given: Any) -> Factors:
        score, rows = real(*given)
        return Factors(score / max(1e-9, float(np.abs(score).max(initial=0.0))), rows)

    return [mock.patch.object(contributions, "factors", scaled)]


@fault("R6", "persons share a count where their hashes end alike", "service-sqlite")
def _short_hashes() -> list[Any]:
    real = Vault.person
    return [mock.patch.object(Vault, "person", lambda self, shelf, name: f"{int(real(self, shelf, name), 16) % 2}")]


@fault("R6", "persons share a count where their hashes end alike", "shelf")
def _short_hashes_in_memory() -> list[Any]:
    real = Persons._hash
    return [mock.patch.object(Persons, "_hash", lambda self, name: f"{int(real(self, name), 16) % 2}")]


# R7 and R8: once


@fault("R7", "a release that fails after its draw is drawn again", "shelf")
def _drawn_again() -> list[Any]:
    def release_due(self: State, source: Any) -> None:
        while self.waiting and due(self.waiting[0].batch, self.arrivals):
            batch, found = self.waiting[0].batch, self.waiting[0].finished(self.settings.on_no_answer)
            learner = self.begin(source)
            self.learner = draw(charge(learner, batch, source), batch, found, source)
            self.waiting.pop(0)

    return [mock.patch.object(State, "_release_due", release_due)]


@fault("R7", "an announced batch is not burnt", "service-sqlite")
def _not_burnt() -> list[Any]:
    return [mock.patch.object(epochs, "unsettled", return_value=[])]


@fault("R8", "a lost commit is not noticed", "service-sqlite", kind=LOSSES)
def _not_noticed() -> list[Any]:
    blind = mock.patch.object(epochs, "behind", return_value=False)
    return [blind, mock.patch.object(epochs, "current", return_value=True)]
