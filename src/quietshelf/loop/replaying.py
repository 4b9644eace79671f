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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import SeedSequence

from quietshelf.choice.features import Dense
from quietshelf.logs.log import Candidates, Log
from quietshelf.loop.contest import Contestant, Setting
from quietshelf.types import (
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

FEWEST = 30
"""Matches, in effect, under which no answer is given: an interval from fewer means nothing."""
NORMAL_95 = 1.959963984540054


class Unsupported(ValueError):  # noqa: N818 - says what happened
    """The log cannot answer the question; the message says why."""


@dataclass(frozen=True)
class Estimate:
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


Answer = Estimate | str
"""What was found, or the reason why there is nothing to be found."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """A log made ready for replay: its candidates, how likely each assortment was, and the order in time."""

    candidates: Candidates
    propensity: FloatArray
    order: IntArray

    def context(self, t: int) -> Context:
        """The visitor of round t, in one world, who could have been shown as many items as were."""
        rounds, one = self.candidates.rounds, slice(t, t + 1)
        shown = int(self.candidates.shown[t].sum())
        return Context(Dense(rounds.features[one]), self.candidates.revenue[one], shown, rounds.available[one])

    def round(self, t: int, context: Context) -> Round:
        """What happened: an item is a place among the candidates."""
        one = slice(t, t + 1)
        assortment = np.where(self.candidates.shown[one], np.arange(self.candidates.shown.shape[1]), NOTHING)
        return Round(context, -np.sort(-assortment)[:, : self.width], self.candidates.rounds.choice[one])

    @cached_property
    def width(self) -> int:
        """The most items shown in one round."""
        return int(self.candidates.shown.sum(axis=1).max())

    def earned(self, t: int) -> float:
        """The revenue of round t."""
        choice = int(self.candidates.rounds.choice[t])
        return 0.0 if choice == NOTHING else float(self.candidates.revenue[t, choice])


def replayable(log: Log, candidates: Candidates) -> Replayed:
    """The log with its propensities; refuses one that does not say how its assortments were drawn."""
    if not log.candidates:
        raise Unsupported("the log must have rows of items that could have been shown and were not: it has none")
    propensity = np.full(len(log), np.nan) if log.propensity is None else log.propensity.copy()
    if log.random is not None:
        drawn = log.random & np.isnan(propensity)
        propensity[drawn] = [_uniform(*pair) for pair in zip(*_counts(candidates, drawn), strict=True)]
    known = np.isfinite(propensity)
    if not known.any():
        raise Unsupported(
            "the log must say how likely its assortments were, in a column propensity or random: it does not"
        )
    order = np.arange(len(log)) if log.time is None else np.argsort(log.time, kind="stable")
    return Replayed(candidates, propensity, order[known[order]])


def replays(log: Log, candidates: Candidates, one: Contestant, setting: Setting, *, seed: int) -> dict[str, Answer]:
    """What the log itself answers for a contestant, by the name of the method; or why it does not."""
    noise, chance, thinning = (Streams([child]) for child in SeedSequence(seed).spawn(3))
    methods: dict[str, Callable[[Replayed, Curator], Estimate]] = {
        "rejection": lambda ready, curator: rejection(ready, one.policy, curator, chance=chance, thinning=thinning),
        "inverse_propensity": lambda ready, curator: inverse_propensity(ready, one.policy, curator, chance=chance),
    }
    found: dict[str, Answer] = {}
    for name, method in methods.items():
        try:
            found[name] = method(replayable(log, candidates), one.curator(setting, noise))
        except Unsupported as reason:
            found[name] = str(reason)
    return found


def rejection(replayed: Replayed, policy: Policy, curator: Curator, *, chance: Random, thinning: Random) -> Estimate:
    """What a policy that learns on the way earns, from the rounds in which it would have done the same."""
    propensity, earned = replayed.propensity, list[float]()
    least = float(propensity[replayed.order].min())
    release = curator.release
    for t in replayed.order.tolist():
        context = replayed.context(t)
        happened = replayed.round(t, context)
        offered = policy.offer(context, release, chance)
        keep = float(thinning.random((1,))[0]) * propensity[t] < least
        if keep and _same(offered, happened.assortment):
            earned.append(replayed.earned(t))
            release = curator.observe(happened)
    rounds = len(replayed.order)
    _enough(len(earned), f"{len(earned)} of {rounds} rounds showed what the policy would have shown", least)
    value = np.array(earned)
    error = float(value.std(ddof=1)) / math.sqrt(value.size)
    return _estimate("rejection", float(value.mean()), error, value.size, float(value.size), rounds)


def inverse_propensity(replayed: Replayed, policy: Policy, curator: Curator, *, chance: Random) -> Estimate:
    """What a policy that stands still earns, after its curator has learned from the first half."""
    half = len(replayed.order) // 2
    for t in replayed.order[:half].tolist():
        curator.observe(replayed.round(t, replayed.context(t)))
    release, judged = curator.release, replayed.order[half:]
    weight = np.zeros(judged.size)
    for place, t in enumerate(judged.tolist()):
        context = replayed.context(t)
        if _same(policy.offer(context, release, chance), replayed.round(t, context).assortment):
            weight[place] = 1.0 / replayed.propensity[t]
    matches = int((weight > 0).sum())
    effective = float(weight.sum() ** 2 / (weight**2).sum()) if matches else 0.0
    counted = f"{matches} matches in {judged.size} rounds, worth {effective:.1f}"
    _enough(effective, counted, float(replayed.propensity[judged].min(initial=1.0)))
    value = weight * np.array([replayed.earned(t) for t in judged.tolist()])
    error = float(value.std(ddof=1)) / math.sqrt(value.size)
    return _estimate("inverse propensity", float(value.mean()), error, matches, effective, judged.size)


def _estimate(method: str, value: float, error: float, matches: int, effective: float, rounds: int) -> Estimate:
    away = NORMAL_95 * error
    return Estimate(method, value, value - away, value + away, matches, effective, rounds)


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
