"""Who takes part in a simulation, where, and what each may know beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from numpy.random import SeedSequence

from quietshelf.model.types import Context, Curator, Environment, FloatArray, Policy, Random, require


class World(Protocol):
    """The description of a world, from which any number of replicates can be opened."""

    @property
    def items(self) -> int:
        """The number of items, N."""

    @property
    def dim(self) -> int:
        """The length of theta, d."""

    @property
    def capacity(self) -> int:
        """The most items shown at once, K."""

    def open(self, seeds: Sequence[SeedSequence]) -> Environment:
        """One replicate a seed, side by side; what happens in one depends on its own seed only."""


@dataclass(frozen=True, kw_only=True)
class SimulationContext:
    """What a curator may know before the first visitor comes.

    Attributes:
        world: The declared law of the visitors; nothing drawn from it.
        worlds: R, replicates side by side.
        horizon: How many visitors will come, for those who need to know.
        tastes: Reads the true theta from the environment; for the oracle only.
        made_up: Contexts of made-up visitors, from what is public of each replicate, where the world has them: for a
            factor by which scales may differ from what is declared, (R,), and their number, (R, number, ...).
    """

    world: World
    worlds: int
    horizon: int
    tastes: Callable[[], FloatArray]
    made_up: Callable[[FloatArray, int], Context] | None = None

    @property
    def items(self) -> int:
        """The number of items, N."""
        return self.world.items

    @property
    def dim(self) -> int:
        """The length of theta, d."""
        return self.world.dim

    @property
    def capacity(self) -> int:
        """The most items shown at once, K."""
        return self.world.capacity

    @property
    def theta(self) -> FloatArray:
        """The true tastes of the visitor who comes next, (R, d), read anew each time; for the oracle only."""
        return self.tastes()


@dataclass(frozen=True)
class Contestant:
    """A policy and the way its releases are made.

    To run on several workers all parts must be picklable: factories are module-level functions or frozen dataclasses.

    Attributes:
        label: Its name in the rows.
        policy: What decides.
        curator: Makes what learns, from the setting and a source of noise.
    """

    label: str
    policy: Policy
    curator: Callable[[SimulationContext, Random], Curator]

    def __post_init__(self) -> None:
        has_offer = callable(getattr(self.policy, "offer", None)) and not isinstance(self.policy, type)
        require(has_offer, "a policy must be an object with offer(context, release, rng)", policy=self.policy)
        rule = (
            "a curator must be made by calling (setting, noise): a class of your own, or another contestant's .curator"
        )
        require(callable(self.curator), rule, curator=self.curator)
