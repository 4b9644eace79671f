"""What would a policy have earned on a log? Answers from what really happened; none of them private.

Rejection: the policy serves the log's visitors one after the other. Where it offers exactly what was shown, the round
happened as it would have under the policy: it is counted, and the curator learns from it. Other rounds are passed over.
Where assortments were more or less likely, a match counts with probability (least propensity) / (its propensity), so
that those kept are a fair sample of visitors: the estimate is unbiased, also for policies that learn on the way.

Inverse propensity: the curator learns from the first half of the log, whatever was shown; the policy, standing still,
is judged on the second half, each match weighted by 1 / propensity. Unbiased; how much it varies, the effective sample
size tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import SeedSequence

from quietshelf.data.logs.log import Candidates, Log
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import (
    NOTHING,
    BoolArray,
    Context,
    Curator,
    FloatArray,
    IntArray,
    Policy,
    Random,
    Round,
    Streams,
    require,
)
from quietshelf.research.loop.contest import Contestant, SimulationContext

FEWEST = 30
"""Matches, in effect, under which no answer is given: an interval from fewer means nothing."""
NORMAL_95 = 1.959963984540054


class Unsupported(ValueError):  # noqa: N818 - says what happened
    """The log cannot answer the question; the message says why."""


@dataclass(frozen=True)
class ReplayEstimate:
    """What a policy would have earned, a visitor.

    Attributes:
        method: "rejection" or "inverse propensity".
        value: Mean revenue a visitor.
        low: Lower end of the 95 % interval.
        high: Upper end.
        matches: Rounds in which the policy offered what was shown.
        effective: Effective sample size, ``(sum w)² / sum w²``.
        rounds: Rounds that were asked.
    """

    method: str
    value: float
    low: float
    high: float
    matches: int
    effective: float
    rounds: int


Answer = ReplayEstimate | str
"""What was found, or the reason why there is nothing to be found."""


class Visit(NamedTuple):
    """A round of a log in one world: who came, what happened, how likely the assortment was, what was earned."""

    context: Context
    round: Round
    propensity: float
    earned: float


class Replay(Protocol):
    """A log made ready for replay, however it is kept: the rounds whose assortments had known chances."""

    @property
    def rounds(self) -> int:
        """How many."""

    @property
    def least(self) -> float:
        """The chance of the least likely assortment."""

    def visits(self) -> Iterator[Visit]:
        """One after the other, in the order of time."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """Rounds in memory: their candidates, how likely each assortment was, the order in time, the most items shown."""

    candidates: Candidates
    propensity: FloatArray
    order: IntArray
    width: int

    @property
    def rounds(self) -> int:
        """How many."""
        return len(self.order)

    @property
    def least(self) -> float:
        """The chance of the least likely assortment."""
        return float(self.propensity[self.order].min())

    def visits(self) -> Iterator[Visit]:
        """One after the other, in the order of time."""
        for t in self.order.tolist():
            context = self._context(t)
            yield Visit(context, self._round(t, context), float(self.propensity[t]), self._earned(t))

    def _context(self, t: int) -> Context:
        """The visitor of round t, in one world, who could have been shown as many items as were."""
        rounds, one = self.candidates.rounds, slice(t, t + 1)
        shown = int(self.candidates.shown[t].sum())
        return Context(Dense(rounds.features[one]), self.candidates.revenue[one], shown, rounds.available[one])

    def _round(self, t: int, context: Context) -> Round:
        """What happened: an item is a place among the candidates."""
        one = slice(t, t + 1)
        assortment = np.where(self.candidates.shown[one], np.arange(self.candidates.shown.shape[1]), NOTHING)
        return Round(context, -np.sort(-assortment)[:, : self.width], self.candidates.rounds.choice[one])

    def _earned(self, t: int) -> float:
        """The revenue of round t."""
        choice = int(self.candidates.rounds.choice[t])
        return 0.0 if choice == NOTHING else float(self.candidates.revenue[t, choice])


def replayable(log: Log, candidates: Candidates) -> Replayed:
    """The log with its propensities; refuses one that does not say how its assortments were drawn."""
    propensity = propensities(log, candidates)
    known = np.isfinite(propensity)
    require_support(candidates=log.candidates, known=bool(known.any()))
    order = np.arange(len(log)) if log.time is None else np.argsort(log.time, kind="stable")
    return Replayed(candidates, propensity, order[known[order]], int(candidates.shown.sum(axis=1).max()))


def propensities(log: Log, candidates: Candidates) -> FloatArray:
    """How likely each round's assortment was, (n,); NaN where the log does not say."""
    propensity = np.full(len(log), np.nan) if log.propensity is None else log.propensity.copy()
    if log.random is not None:
        drawn = log.random & np.isnan(propensity)
        propensity[drawn] = [_uniform(*pair) for pair in zip(*_counts(candidates, drawn), strict=True)]
    return propensity


def require_support(*, candidates: bool, known: bool) -> None:
    """Refuse a log without candidates, or one of which no chances are known."""
    if not candidates:
        raise Unsupported("the log must have rows of items that could have been shown and were not: it has none")
    if not known:
        raise Unsupported(
            "the log must say how likely its assortments were, in a column propensity or random: it does not"
        )


def replays(
    ready: Callable[[], Replay], one: Contestant, setting: SimulationContext, *, seed: int
) -> dict[str, Answer]:
    """What the log itself answers for a contestant, by the name of the method; or why it does not."""
    noise, chance, thinning = (Streams([child]) for child in SeedSequence(seed).spawn(3))
    methods: dict[str, Callable[[Replay, Curator], ReplayEstimate]] = {
        "rejection": lambda replay, curator: rejection(replay, one.policy, curator, chance=chance, thinning=thinning),
        "inverse_propensity": lambda replay, curator: inverse_propensity(replay, one.policy, curator, chance=chance),
    }
    found: dict[str, Answer] = {}
    for name, method in methods.items():
        try:
            found[name] = method(ready(), one.curator(setting, noise))
        except Unsupported as reason:
            found[name] = str(reason)
    return found


def rejection(replay: Replay, policy: Policy, curator: Curator, *, chance: Random, thinning: Random) -> ReplayEstimate:
    """What a policy that learns on the way earns, from the rounds in which it would have done the same."""
    least, earned, release = replay.least, Running(), curator.release
    for visit in replay.visits():
        offered = policy.offer(visit.context, release, chance)
        keep = float(thinning.random((1,))[0]) * visit.propensity < least
        if keep and _same(offered, visit.round.assortment):
            earned.add(visit.earned)
            release = curator.observe(visit.round)
    rounds = replay.rounds
    _enough(earned.count, f"{earned.count} of {rounds} rounds showed what the policy would have shown", least)
    return _estimate("rejection", earned, earned.count, float(earned.count), rounds)


def inverse_propensity(replay: Replay, policy: Policy, curator: Curator, *, chance: Random) -> ReplayEstimate:
    """What a policy that stands still earns, after its curator has learned from the first half."""
    half, visits = replay.rounds // 2, replay.visits()
    for visit in islice(visits, half):
        curator.observe(visit.round)
    release, value = curator.release, Running()
    matches, total, squares, least = 0, 0.0, 0.0, 1.0
    for visit in visits:
        same = _same(policy.offer(visit.context, release, chance), visit.round.assortment)
        weight = 1.0 / visit.propensity if same else 0.0
        value.add(weight * visit.earned)
        matches, total, squares = matches + same, total + weight, squares + weight**2
        least = min(least, visit.propensity)
    effective = total**2 / squares if matches else 0.0
    _enough(effective, f"{matches} matches in {value.count} rounds, worth {effective:.1f}", least)
    return _estimate("inverse propensity", value, matches, effective, value.count)


class Running:
    """Mean and standard error of numbers that come one by one and are not kept (Welford)."""

    def __init__(self) -> None:
        self.count, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """One more."""
        self.count += 1
        away = value - self.mean
        self.mean += away / self.count
        self._squares += away * (value - self.mean)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return math.sqrt(self._squares / (self.count - 1) / self.count)


def _estimate(method: str, found: Running, matches: int, effective: float, rounds: int) -> ReplayEstimate:
    value, away = found.mean, NORMAL_95 * found.error
    return ReplayEstimate(method, value, value - away, value + away, matches, effective, rounds)


def _enough(effective: float, counted: str, least: float) -> None:
    if effective < FEWEST:
        raise Unsupported(
            f"a replay needs {FEWEST} matching rounds in effect, got {counted}; the least likely assortment had "
            f"a chance of {least:.2g}"
        )


def _same(offered: IntArray, shown: IntArray) -> bool:
    ours, theirs = offered[offered != NOTHING], shown[shown != NOTHING]
    if ours.size != theirs.size:
        raise Unsupported(
            "the policy must show as many items as the log did, or the log holds no round like it: "
            f"got {ours.size} where {theirs.size} were shown (unequal revenues make short assortments worth while)"
        )
    return set(ours.tolist()) == set(theirs.tolist())


def _counts(candidates: Candidates, drawn: BoolArray) -> tuple[list[int], list[int]]:
    """Of the rounds drawn at random: how many items could be shown, and how many were."""
    return candidates.rounds.available[drawn].sum(axis=1).tolist(), candidates.shown[drawn].sum(axis=1).tolist()


def _uniform(available: int, shown: int) -> float:
    require(shown <= available, "no more items can be shown than are available", shown=shown, available=available)
    return 1.0 / math.comb(available, shown)
