"""A world in which everything but the target is fixed and known to the attacker, run many times side by side.

All runs have the same other visitors and the same chances of choice and of offers: what differs is who the target was
and the noise of the curator. So the attacker knows all that the guarantee lets anybody know (docs/proofs.md, section
2), and whatever else varies would only help the target.
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
    """The target: what the items look like to them, (N, d), and whether they buy the first item shown or nothing."""

    features: FloatArray
    buys: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario:
    """All visitors but one.

    Attributes:
        features: Of the others, (T, N, d) or, where they differ from run to run, (T, runs, N, d); the row at the
            target's place is not used.
        draws: Uniform numbers that decide what the others pick, (T,) or (T, runs); above 1 they pick nothing.
        place: When the target comes.
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
        """What is picked: by the target as in the scenario, by others by chance."""
        if self._here:
            return assortment[..., 0] if self._target.buys else np.full(self._runs, NOTHING)
        assert self._round is not None  # noqa: S101 - a round is open
        return self._round.choose(assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:  # noqa: ARG002 - nobody asks
        """Not of interest here."""
        return np.zeros(self._runs)
