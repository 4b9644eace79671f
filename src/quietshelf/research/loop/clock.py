"""How long each runner takes: the same objects with a stopwatch around every call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from quietshelf.model.types import Context, Curator, Environment, FloatArray, IntArray, Policy, Random, Release, Round

P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """Adds up the seconds spent in calls made through it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's answer, its time noted."""
        start = perf_counter()
        answer = function(*args, **kwargs)
        self.seconds += perf_counter() - start
        return answer


class TimedPolicy:
    """A policy under a clock."""

    def __init__(self, policy: Policy, clock: Stopwatch) -> None:
        self._policy, self._clock = policy, clock

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """As the policy does."""
        return self._clock.call(self._policy.offer, context, release, rng)


class TimedCurator:
    """A curator under a clock."""

    def __init__(self, curator: Curator, clock: Stopwatch) -> None:
        self._curator, self._clock = curator, clock

    @property
    def release(self) -> Release:
        """As the curator has it."""
        return self._curator.release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """As the curator does."""
        return self._clock.call(self._curator.observe, round)

    @property
    def steady(self) -> int:
        """As the curator says; one round where it says nothing."""
        steady: int = getattr(self._curator, "steady", 1)
        return steady

    @property
    def foresee(self) -> Callable[[Round], Release] | None:
        """As the curator does, if it can."""
        own = getattr(self._curator, "foresee", None)
        return None if own is None else partial(self._clock.call, own)

    def observe_rounds(self, rounds: Round) -> Release:
        """As the curator does."""
        curator: Any = self._curator
        release: Release = self._clock.call(curator.observe_rounds, rounds)
        return release


class TimedEnvironment:
    """An environment under a clock."""

    def __init__(self, environment: Environment, clock: Stopwatch) -> None:
        self._environment, self._clock = environment, clock

    def context(self, t: int) -> Context:
        """As the environment does."""
        return self._clock.call(self._environment.context, t)

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        """As the environment does."""
        return self._clock.call(self._environment.choose, context, assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        """As the environment does."""
        return self._clock.call(self._environment.regret, context, assortment)
