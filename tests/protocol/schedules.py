"""Random schedules, each from a seed: short, with ties, with numbers at the edge of what a float can hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.protocol.steps import (
    OVERSIZED,
    A,
    Answer,
    Arrive,
    B,
    Change,
    Crash,
    Erase,
    Invalid,
    Look,
    Lose,
    Save,
    Schedule,
    Shop,
    Step,
    Tick,
    Visit,
    Write,
)

EXTREME = (0.0, 1.0, 1.0 + 1e-13, -1e-13, 1e-310, 5e-324, 1e150, 1e154, 1e200, -1e200, 1e308, -1.7976931348623157e308)
"""Features at which something overflows, vanishes, or ties."""
SAFE = 3
"""The first items are never changed, so that what a visitor requires can be shown in both worlds."""
PERSONS = ("ann", "bob", "cy", "dee")
CONVERSION = {50.0: 0.5, 200.0: 0.7, 1000.0: 0.9}
"""Shares of visitors who choose something, as declared, by rho: batches of a few visitors."""
CUTS = ("before", "after")
ON_DEVICE: dict[str, Any] = {"policy": "quiet", "on_no_answer": "zero", "groups": None, "limits": None}
"""What shops have in common whose offers are made on devices."""
INVALID = ("too long", "unknown item", "too many", "required and excluded", "forged id", "no person")


@dataclass(frozen=True)
class Kind:
    """What a user of the protocol can be asked.

    ``even`` schedules have one arrival per tick, for comparing users; ``always_lost`` ones lose a commit for certain;
    ``leases`` is the share of shops whose processes lease slots; with ``device`` offers are made on devices.
    """

    name: str
    workers: int = 1
    erasures: bool = False
    crashes: tuple[str, ...] = ()
    losses: bool = False
    revenue: bool = False
    dense: bool = False
    answers: bool = True
    even: bool = False
    oversized: bool = False
    always_lost: bool = False
    arms: bool = True
    leases: float = 0.0
    device: bool = False


SIMULATION = Kind("simulation", dense=True, revenue=True, answers=False, arms=False)
SHELF = Kind("shelf", crashes=("now", "now", "fork", "drawn"), dense=True, revenue=True)
SERVICE = Kind(
    "service",
    erasures=True,
    crashes=("now", "announced", "drawn", "committed", "before", "after"),
    losses=True,
    leases=0.5,
)
TWO_WORKERS = replace(SERVICE, name="two workers", workers=2)
LEASES = replace(TWO_WORKERS, name="leases", crashes=("now",), losses=False, leases=1.0)
LOSSES = replace(SERVICE, name="losses", crashes=(), always_lost=True)
DEVICE = replace(SERVICE, name="device", arms=False, device=True)
HTTP = Kind("http", erasures=True, oversized=True)
EVEN = Kind("even", even=True)


def schedule(seed: int, kind: Kind) -> Schedule:
    """The schedule of that seed.

    Where a machine stops at a step of a release, when it does is up to what that release waits for: those who come
    between its due time and its own must then wait as well, or some are served before the stop in one world alone.
    """
    found = _Writer(random.Random(f"{kind.name} {seed}"), kind).schedule(seed)  # noqa: S311 - a test's own dice
    return found if found.calm and found.workers == 1 else replace(found, shop=replace(found.shop, release_seconds=0.0))


def shrunk(found: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """The same failure with as few steps as leaving some out can reach."""
    size = max(1, len(found.steps) // 2)
    while size:
        start = 0
        while start < len(found.steps):
            fewer = found.without(frozenset(range(start, start + size)))
            if fails(fewer):
                found = fewer
            else:
                start += size
        size //= 2
    return found


class _Writer:
    """Writes one schedule."""

    def __init__(self, dice: random.Random, kind: Kind) -> None:
        self.dice, self.kind = dice, kind
        self.shop = replace(self._shop(), **ON_DEVICE) if kind.device else self._shop()
        self.visits: list[Visit] = []
        self.steps: list[Step] = []

    def schedule(self, seed: int) -> Schedule:
        """Arrivals with what happens between them; then the private acts of the target, in each world its own."""
        dice, arrivals = self.dice, self.dice.randint(4, 24)
        while len(self.visits) < arrivals:
            if self.kind.even or dice.random() < 0.45:
                self._arrival()
            else:
                self._event()
        target = frozenset() if self.kind.even else self._target()
        self.alias = dice.choice(("{}", "other than {}"))
        other = [self._other(visit) if place in target else visit for place, visit in enumerate(self.visits)]
        pairs = tuple(zip(self.visits, other, strict=True))
        names = {visit.person for place in target for visit in pairs[place]} - {None}
        persons = frozenset(str(name) for name in names)
        kept = [step for step in self.steps if not _acts(step, target, persons)]
        steps = self._with_private(self._with_loss(kept), target, persons)
        end = [Tick(seconds=2.0 * self.shop.window), *(Write(worker=w) for w in range(self.kind.workers)), Look()]
        return Schedule(self._ample(steps), pairs, target, (*steps, *end), self.kind.workers, seed, persons)

    # The public side

    def _shop(self) -> Shop:
        dice, dense = self.dice, self.kind.dense and self.dice.random() < 0.3
        width, count = dice.randint(1, 2), dice.randint(4, 7)
        rows = [tuple(dice.choice((-1.0, 0.0, 0.5, dice.gauss(0, 1))) for _ in range(width)) for _ in range(count)]
        if dice.random() < 0.5:  # items that tie, exactly or nearly
            rows[1] = rows[0] if dice.random() < 0.5 else tuple(x + 1e-13 for x in rows[0])
        visits = dice.choice((1, 1, 2))
        grouped, rho = dice.random() < 0.2, dice.choice(tuple(CONVERSION))
        return Shop(
            items=tuple(rows),
            feature_map=None if dense else dice.choice(("full", "full", "concat", "outer", "item")),
            visitor_dim=dice.randint(1, 2),
            capacity=dice.randint(1, 3),
            rho=rho * visits,
            conversion=CONVERSION[rho],
            policy=dice.choice(("quiet", "quiet", "quiet", "uniform")),
            visits=visits,
            on_no_answer=dice.choice(("no-choice", "no-choice", "zero")),
            window=dice.randint(1, 4),
            groups=tuple(dice.randint(-1, 1) for _ in range(count)) if grouped else None,
            limits=(2, 1) if grouped else None,
            poll=dice.random() < 0.5,
            group_limit=dice.choice((2, 3, 256)),
            **self._arms(tuple(rows)),
            block=self._block(tuple(rows)),
            release_seconds=0.0 if self.kind.even else self._lag(tuple(rows)),
        )

    def _lag(self, rows: tuple[tuple[float, ...], ...]) -> float:
        """What releases are published later by, in one shop of three, by dice of their own, as below."""
        return random.Random(f"lag {rows!r}").choice((0.0, 0.0, 1.0))  # noqa: S311 - a test's own dice

    def _block(self, rows: tuple[tuple[float, ...], ...]) -> int:
        """Slots that are leased at a time, by dice of their own, as below."""
        dice = random.Random(f"leases {rows!r}")  # noqa: S311 - a test's own dice
        return dice.randint(2, 5) if dice.random() < self.kind.leases else 0

    def _arms(self, rows: tuple[tuple[float, ...], ...]) -> dict[str, Any]:
        """Two arms in one shop of three, by dice of their own: schedules stay what they were without them."""
        dice = random.Random(repr(rows))  # noqa: S311 - a test's own dice
        if not self.kind.arms or dice.random() < 0.67:
            return {}
        share, present = dice.choice((0.0, 0.3, 0.5, 0.8)), dice.choice(("ranking", "ranking", "random"))
        return {"comparison": dice.choice((0.0, 0.2, 0.5)), "present": present, "learned_share": share}

    def _arrival(self) -> None:
        dice = self.dice
        if self.kind.even:
            self.steps.append(Tick(seconds=1.0))
        self.visits.append(self._visit(dice.choice(PERSONS) if self.shop.visits > 1 or dice.random() < 0.4 else None))
        number = len(self.visits) - 1
        self._add(Arrive(visit=number, retry=dice.random() < 0.2))
        if self.kind.even:
            for visit in sorted({number, number - dice.randrange(self.shop.window)} & set(range(number + 1))):
                if dice.random() < 0.7:
                    self._add(replace(self._answer(visit), foreign=False))
            between = (self._change(), Invalid(kind=dice.choice(INVALID)), Write(), Look())
            for step in between:
                if dice.random() < 0.1:
                    self._add(step)

    def _event(self) -> None:
        """Anything but an arrival."""
        dice, kind = self.dice, self.kind
        roll = dice.random()
        if roll < 0.40 and self.visits and kind.answers:
            recent = max(0, len(self.visits) - 6)
            self._add(self._answer(dice.randrange(recent if dice.random() < 0.7 else 0, len(self.visits))))
        elif roll < 0.55:
            self._add(Tick(seconds=dice.choice((0.25, 0.5, 1.0, float(self.shop.window), 3.5))))
        elif roll < 0.75:
            self._add(Write())
        elif roll < 0.80:
            self._add(Invalid(kind=dice.choice(INVALID)))
        elif roll < 0.85:
            self._add(self._change())
        elif roll < 0.88 and kind.erasures:
            self._add(Erase(person=dice.choice(PERSONS)))
        elif roll < 0.92 and kind.crashes:
            self._add(Crash(where=dice.choice(kind.crashes)))
        elif roll < 0.95 and (kind.losses or kind.crashes):
            self._add(Save())
        elif roll < 0.96 and kind.losses:
            self._add(Lose())
        elif roll < 0.98 and self._with_key():
            self._add(Arrive(visit=dice.choice(self._with_key()), retry=True))
        else:
            self._add(Look())

    def _with_key(self) -> list[int]:
        """Visits that came with an Idempotency-Key: without one, the same visit again would be another visit."""
        return [step.visit for step in self.steps if isinstance(step, Arrive) and step.retry]

    def _change(self) -> Change:
        """The shop changes an item that nobody can require."""
        dice, count = self.dice, len(self.shop.items)
        item = dice.randrange(min(SAFE, count - 1), count)
        features = tuple(dice.gauss(0, 1) for _ in self.shop.items[0])
        kinds = ("features", "revenue", "available", "unavailable", "retire", *("add",) * (not self.kind.even))
        return Change(kind=dice.choice(kinds), item=item, features=features, revenue=dice.choice((0.5, 1.0, 2.0)))

    def _add(self, step: Step) -> None:
        self.steps.append(replace(step, worker=self.dice.randrange(self.kind.workers)))

    def _ample(self, steps: list[Step]) -> Shop:
        """The shop; groups are large where machines stop in one or lose one: else the target's acts move its end."""
        cut = any(isinstance(step, Lose) or (isinstance(step, Crash) and step.where in CUTS) for step in steps)
        return replace(self.shop, group_limit=256) if cut else self.shop

    def _with_loss(self, steps: list[Step]) -> list[Step]:
        """A commit that is lost after a window has passed, where the kind asks for one."""
        if not self.kind.always_lost:
            return steps
        place = self.dice.randint(0, len(steps))
        passed = [Tick(seconds=float(self.shop.window)), Write(), Lose()]
        return [*steps[:place], Write(), Save(), *passed, *steps[place:]]

    # The private side

    def _visit(self, person: str | None) -> Visit:
        dice, count = self.dice, len(self.shop.items)
        required = (dice.randrange(SAFE),) if dice.random() < 0.1 else ()
        candidates, exclude = None, tuple(i for i in range(count) if i not in required and dice.random() < 0.05)
        if dice.random() < 0.2:
            candidates = tuple(i for i in range(count) if i in required or dice.random() < 0.6) or (0,)
        revenue = None
        if self.kind.revenue and dice.random() < 0.2:
            revenue = tuple(dice.choice((0.0, 1.0, 1.0 + 1e-13, 2.0, 1e100)) for _ in range(count))
        return Visit(
            features=tuple(self._feature() for _ in range(self.shop.feature_count)),
            person=person,
            candidates=candidates,
            required=required,
            exclude=exclude,
            capacity=dice.randint(1, self.shop.capacity) if dice.random() < 0.2 else None,
            revenue=revenue,
            chooses=dice.randint(-1, 2),
        )

    def _feature(self) -> float:
        return self.dice.choice(EXTREME) if self.dice.random() < 0.3 else self.dice.gauss(0, 1)

    def _answer(self, visit: int, only: int | None = None) -> Answer:
        dice = self.dice
        place = None if dice.random() < 0.05 else dice.randint(-1, 2)
        if self.kind.oversized and dice.random() < 0.2:
            place = OVERSIZED
        return Answer(visit=visit, place=place, foreign=dice.random() < 0.05, only=only)

    def _target(self) -> frozenset[int]:
        """All visits of one person, or one visit of somebody without a name."""
        chosen = self.dice.randrange(len(self.visits))
        person = self.visits[chosen].person
        if person is None:
            return frozenset({chosen})
        return frozenset(place for place, visit in enumerate(self.visits) if visit.person == person)

    def _other(self, visit: Visit) -> Visit:
        """What the target brings in the other world; having a name is public, which one is not."""
        return self._visit(None if visit.person is None else self.alias.format(visit.person))

    def _with_private(self, steps: list[Step], target: frozenset[int], persons: frozenset[str]) -> list[Step]:
        """The target's acts, at random places after the arrival, in each world others."""
        if self.dice.random() < 0.3:
            place, kinds = (
                self.dice.choice((0, self.dice.randint(0, len(steps)))),
                [self.dice.choice(INVALID[:4]) for _ in (A, B)],
            )
            wrong = [Invalid(kind=kind, private=True, only=only) for only, kind in zip((A, B), kinds, strict=True)]
            steps = [*steps[:place], *wrong, *steps[place:]]
        for only in (A, B):
            acts = [self._answer(visit, only) for visit in target if self.kind.answers for _ in range(2)]
            for act in acts:
                after = next(place for place, step in enumerate(steps) if _arrives(step, act.visit)) + 1
                late = len(steps) if self.dice.random() < 0.3 else min(len(steps), after + 6)
                worker = self.dice.randrange(self.kind.workers)
                if self.dice.random() < 0.7:
                    steps = _with(steps, self.dice.randint(after, max(after, late)), replace(act, worker=worker))
            if persons and self.kind.erasures and self.dice.random() < 0.5:
                erasure = Erase(person=self.dice.choice(sorted(persons)), only=only)
                steps = _with(steps, self.dice.randint(0, len(steps)), erasure)
        return steps


def _acts(step: Step, target: frozenset[int], persons: frozenset[str]) -> bool:
    """Whether a step is an act of the target: those are private, and written for each world."""
    if isinstance(step, Erase):
        return step.person in persons
    return isinstance(step, Answer) and step.visit in target


def _arrives(step: Step, visit: int) -> bool:
    return isinstance(step, Arrive) and step.visit == visit


def _with(steps: list[Step], place: int, step: Step) -> list[Step]:
    return [*steps[:place], step, *steps[place:]]
