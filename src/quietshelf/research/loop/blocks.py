"""The arrow over many rounds at once, for the same rows in far fewer calls.

Visitors do not depend on who serves them, so a world can hand out those of many rounds together (`Visits`). A policy is
a pure function of visitor, release and chance: as long as a curator's release stays as it is (`Steady`), the visitors
of many rounds are offered something, choose and are learnt from in one call each. Where releases change after every
round by what was offered and not by what was chosen (`Foreseeing`), offers are guessed and put right until they are
those that their own releases lead to. Whoever says nothing of all this is served round by round, to the same effect.

A world that is ``ahead`` of its visitors may draw the next of them in a thread while these are served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from quietshelf.model.types import NOTHING, Context, FloatArray, IntArray, Release, Round
from quietshelf.research.loop.arrow import Runner
from quietshelf.research.loop.clock import Stopwatch

TOGETHER = 512
"""Visitors who are served in one call at most, all contestants and worlds counted: what they need stays in cache."""
WORTH_FORESEEING = 4
"""Rounds that are foreseen at once, at least; who may be asked about less than twice as many is served one by one, for
everything that is foreseen is computed twice at least."""


class Visits(Protocol):
    """Visitors of one round, or of many along a first axis; an index cuts rounds out, as of an array."""

    @property
    def context(self) -> Context:
        """Who they are."""

    def choose(self, assortment: IntArray) -> IntArray:
        """What they pick."""

    def regret(self, assortment: IntArray) -> FloatArray:
        """Expected revenue lost."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Self: ...


@runtime_checkable
class AheadOfTime(Protocol):
    """An environment that knows its visitors before they are served.

    One that also says ``ahead = True`` may be asked for the next of them in another thread: what else is asked of it
    meanwhile must not depend on the round.
    """

    def visits(self, t: int, most: int) -> Visits:
        """The visitors of round t and the next ones, ``most`` of them at most, along the first axis."""


class Steady(Protocol):
    """A curator that says for how long its release stays as it is."""

    @property
    def steady(self) -> int:
        """Rounds that will be served from the present release, at least; after the last of them it may change."""

    def observe_rounds(self, rounds: Round) -> Release:
        """Take in as many rounds as that or fewer, along the first axis; the release that the next is served from."""


class Foreseeing(Protocol):
    """A curator whose releases follow from what is offered, as long as it does not look at choices."""

    def foresee(self, offered: Round) -> Release:
        """The releases that rounds along the first axis are served from if they are offered this, (rounds, ...).

        The first is the present one. Of fewer rounds, one at least, where choices decide what comes after them.
        """

    def observe_rounds(self, rounds: Round) -> Release:
        """Take in as many rounds as that or fewer; the release that the next is served from."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """What a contestant lost in rounds t, t + 1, ..., in every world: (rounds, ...)."""

    label: str
    t: int
    regret: FloatArray


class Reach:
    """For how many rounds releases are foreseen at once: about as many as it was good for the last times."""

    def __init__(self, most: int) -> None:
        self.rounds = self._most = most if most >= 2 * WORTH_FORESEEING else 1

    def went(self, served: int, tried: int) -> None:
        """Choices decided what came after so many rounds of those that were tried."""
        last = served if served < tried else max(self.rounds, 2 * tried)
        self.rounds = min(self._most, max(WORTH_FORESEEING, last))


def run_blocks(
    environment: AheadOfTime,
    runners: Sequence[Runner],
    *,
    horizon: int,
    clock: Stopwatch | None = None,
    beside: bool = False,
) -> Iterator[Stretch]:
    """Let all runners serve the same visitors, as `run` does.

    Args:
        environment: The world.
        runners: The contestants at work.
        horizon: Rounds.
        clock: Measures the time that the world takes.
        beside: Whether a thread may draw the next visitors while these are served.
    """
    clock = clock or Stopwatch()
    releases = [runner.curator.release for runner in runners]
    reach = [Reach(runner.rounds) for runner in runners]
    threaded = beside and getattr(environment, "ahead", False)
    for t, visits in (_drawn_beside if threaded else _drawn)(environment, horizon, clock):
        for place, runner in enumerate(runners):
            stacked = visits[:, None] if runner.stacked else visits
            assortment, releases[place] = _serve(runner, visits, stacked, releases[place], reach[place], clock)
            yield Stretch(runner.label, t, clock.call(stacked.regret, assortment))


def _drawn(environment: AheadOfTime, horizon: int, clock: Stopwatch) -> Iterator[tuple[int, Visits]]:
    """Yield the visitors in blocks, each with the number of its first round."""
    t = 0
    while t < horizon:
        visits = clock.call(environment.visits, t, horizon - t)
        yield t, visits
        t += len(visits)


def _drawn_beside(environment: AheadOfTime, horizon: int, clock: Stopwatch) -> Iterator[tuple[int, Visits]]:
    """The same, with a thread that draws the next block while this one is served: NumPy mostly releases the GIL."""
    own, caller, t = Stopwatch(), copy_context(), 0

    def draw(first: int) -> Visits:  # in the caller's context, which says how floating-point errors are handled
        return caller.run(lambda: own.call(environment.visits, first, horizon - first))

    with ThreadPoolExecutor(1, "quietshelf-visitors") as thread:
        drawn = thread.submit(draw, t)
        while t < horizon:
            visits, begin = drawn.result(), t
            t += len(visits)
            if t < horizon:
                drawn = thread.submit(draw, t)
            yield begin, visits
    clock.seconds += own.seconds


def _serve(
    runner: Runner, visits: Visits, stacked: Visits, release: Release, reach: Reach, clock: Stopwatch
) -> tuple[IntArray, Release]:
    """What a runner shows to all visitors, (rounds, ..., K), and its release after them.

    ``stacked`` are the visitors of many rounds as the runner sees them, with an axis for its contestants if it has one.
    """
    shown, done, whole = list[IntArray](), 0, len(visits)
    while done < whole:
        many = min(reach.rounds if runner.foresees else runner.ahead, whole - done)
        here = visits[done] if many == 1 else stacked if many == whole else stacked[done : done + many]
        chance: Any = runner.rng
        single = many == 1
        if not single and runner.foresees:
            here, assortment = _settled(runner, here, release)
            reach.went(len(here), many)
        else:
            assortment = runner.policy.offer(here.context, release, chance if single else chance.rounds(many))
        happened = Round(here.context, assortment, clock.call(here.choose, assortment))
        curator: Any = runner.curator
        release = curator.observe(happened) if single else curator.observe_rounds(happened)
        shown.append(assortment[None] if single else assortment)
        done += len(shown[-1])
    return _joined(shown), release


def _settled(runner: Runner, visits: Visits, release: Release) -> tuple[Visits, IntArray]:
    """The first of these visitors, one at least, and what they are shown by a runner that foresees its releases.

    Offers and releases are computed from each other until the offers stay as they are. Then every round is offered what
    follows from its own release, which follows from the offers before it: by induction, what it would be offered if it
    were served alone. The first round's offer is right at once, and each pass puts one more right at least.
    """
    chance: Any = runner.rng
    curator: Any = runner.curator
    drawn = chance.rounds(len(visits))
    assortment = runner.policy.offer(visits.context, release, drawn)
    while True:
        releases = curator.foresee(Round(visits.context, assortment, np.full(assortment.shape[:-1], NOTHING)))
        if len(releases.count) < len(visits):
            visits, assortment = visits[: len(releases.count)], assortment[: len(releases.count)]
        last, assortment = assortment, runner.policy.offer(visits.context, releases, drawn)
        if np.array_equal(last, assortment):
            drawn.keep(len(assortment))
            return visits, assortment


def _joined(shown: list[IntArray]) -> IntArray:
    """All rounds one after the other; empty places where some have fewer."""
    widest = max(each.shape[-1] for each in shown)
    full = [
        each if each.shape[-1] == widest else np.pad(each, _after(each, widest), constant_values=NOTHING)
        for each in shown
    ]
    return full[0] if len(full) == 1 else np.concatenate(full)


def _after(array: IntArray, width: int) -> list[tuple[int, int]]:
    return [*[(0, 0)] * (array.ndim - 1), (0, width - array.shape[-1])]
