"""The arrow itself: four lines, over one visitor or many parallel worlds at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quietshelf.model.types import Curator, Environment, FloatArray, IntArray, Policy, Random, Round


@dataclass(frozen=True, eq=False)
class Runner:
    """One contestant at work.

    Attributes:
        label: Its name in the rows.
        policy: What decides.
        curator: What learns.
        rng: The policy's randomness.
        stacked: Whether its offers have an axis of contestants before that of the worlds.
        rounds: The most rounds it may be asked about at once, where its curator allows it.
    """

    label: str
    policy: Policy
    curator: Curator
    rng: Random
    stacked: bool = False
    rounds: int = 1

    @property
    def ahead(self) -> int:
        """For how many rounds it can decide now."""
        if self.rounds == 1 or self.foresees:
            return self.rounds
        return min(self.rounds, getattr(self.curator, "steady", 1))

    @property
    def foresees(self) -> bool:
        """Whether the next releases follow from offers alone."""
        return getattr(self.curator, "foresee", None) is not None


@dataclass(frozen=True, eq=False)
class Step:
    """What one contestant did in round t, in every world.

    Attributes:
        label: The contestant.
        t: The round, from 0.
        assortment: What was shown, (..., K).
        choice: What was picked, (...).
        regret: Expected revenue lost, (...).
    """

    label: str
    t: int
    assortment: IntArray
    choice: IntArray
    regret: FloatArray


def run(environment: Environment, runners: Sequence[Runner], *, horizon: int) -> Iterator[Step]:
    """Let all runners serve the same visitors, round after round; yields one step a runner and round."""
    releases = [runner.curator.release for runner in runners]
    for t in range(horizon):
        context = environment.context(t)
        for place, runner in enumerate(runners):
            assortment = runner.policy.offer(context, releases[place], runner.rng)
            choice = environment.choose(context, assortment)
            releases[place] = runner.curator.observe(Round(context, assortment, choice))
            yield Step(runner.label, t, assortment, choice, environment.regret(context, assortment))
