"""A world in which everything but the target is fixed and known to the attacker, run many times side by side.

All runs share the other visitors and the random numbers behind choices and offers; they differ only in the target and
in the curator's noise. So the attacker knows everything that the guarantee allows (docs/proofs.md, section 2), and any
further variation would only help the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, Context, FloatArray, IntArray
from quietshelf.research.environments import LogitRound

TASTES = np.array([0.8, 0.4])


@dataclass(frozen=True, eq=False)
class Visitor:
    """The target: their features of the items, (N, d), and whether they buy the first item shown or nothing."""

    features: FloatArray
    buys: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario:
    """All visitors but the target.

    Attributes:
        features: Their features, (T, N, d) or, if they differ between runs, (T, runs, N, d); the target's row is
            unused.
        draws: Uniform numbers that decide their choices, (T,) or (T, runs); above 1 they choose nothing.
        place: The target's position.
        capacity: K.
    """

    features: FloatArray
    draws: FloatArray
    place: int
    capacity: int


class AuditWorld:
    """The environment of many runs of a scenario, with the target in it."""

    def __init__(self, scenario: Scenario, target: Visitor, runs: int) -> None:
        self._scenario, self._target, self._runs = scenario, target, runs
        self._round: LogitRound | None = None
        self._here = False

    def context(self, t: int) -> Context:
        """The visitor of round t, the same in every run."""
        self._here = t == self._scenario.place
        features = self._target.features if self._here else self._scenario.features[t]
        shape = (self._runs, *features.shape[-2:])
        dense = Dense(np.broadcast_to(features, shape))
        context = Context(dense, np.ones(shape[:-1]), self._scenario.capacity)
        utility = np.broadcast_to(features @ TASTES, shape[:-1])
        draw = np.broadcast_to(self._scenario.draws[t], (self._runs,))
        self._round = LogitRound(context, utility, draw)
        return context

    def choose(self, context: Context, assortment: IntArray) -> IntArray:  # noqa: ARG002 - that of the open round
        """The target's fixed choice, or another visitor's random one."""
        if self._here:
            return assortment[..., 0] if self._target.buys else np.full(self._runs, NOTHING)
        assert self._round is not None  # noqa: S101 - a round is open
        return self._round.choose(assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:  # noqa: ARG002 - not used
        """Zero: an audit does not look at regret."""
        return np.zeros(self._runs)
