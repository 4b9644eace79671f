"""The loop passes each thing to the runner it is for, and nothing else to anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

from quietshelf.model.types import Context, Environment, FloatArray, IntArray, Random, Release, Round
from quietshelf.policies import Uniform
from quietshelf.research.loop import Contestant, Runner, SimulationContext, run, simulate
from quietshelf.research.loop.clock import Stopwatch


@dataclass
class Script:
    """Writes down who was asked what, in which order."""

    lines: list[tuple[Any, ...]] = field(default_factory=list)


class Stage:
    """An environment whose contexts, choices and regrets are told apart by number."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def context(self, t: int) -> Context:
        self.script.lines.append(("context", t))
        return f"visitor {t}"  # type: ignore[return-value]  # passed on, never looked into

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        self.script.lines.append(("choose", context, assortment))
        return np.array([7])

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        self.script.lines.append(("regret", context, assortment))
        return np.array([0.5])


class Actor:
    """A policy and a curator in one, named."""

    def __init__(self, name: str, script: Script) -> None:
        self.name, self.script, self.made = name, script, 0

    @property
    def release(self) -> Release:
        return f"{self.name} {self.made}"  # type: ignore[return-value]  # passed on, never looked into

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        self.script.lines.append(("offer", self.name, context, release, rng))
        return f"{self.name}'s items"  # type: ignore[return-value]  # the same

    def observe(self, round: Round) -> Release:  # noqa: A002
        self.script.lines.append(("observe", self.name, round.context, round.assortment, round.choice.tolist()))
        self.made += 1
        return self.release


def test_run_is_the_arrow() -> None:
    """Context, offer from the last release, choice, observation; all contestants in turn with the same visitor."""
    script = Script()
    actors = [Actor("ann", script), Actor("bob", script)]
    runners = [Runner(actor.name, actor, actor, f"{actor.name}'s dice") for actor in actors]  # type: ignore[arg-type]  # the same
    steps = list(run(Stage(script), runners, horizon=2))
    expected: list[tuple[Any, ...]] = []
    for t in range(2):
        visitor = f"visitor {t}"
        expected.append(("context", t))
        for name in ("ann", "bob"):
            items = f"{name}'s items"
            expected.append(("offer", name, visitor, f"{name} {t}", f"{name}'s dice"))
            expected.append(("choose", visitor, items))
            expected.append(("observe", name, visitor, items, [7]))
            expected.append(("regret", visitor, items))
    assert script.lines == expected
    assert [(step.label, step.t, step.regret.tolist()) for step in steps] == [
        (name, t, [0.5]) for t in range(2) for name in ("ann", "bob")
    ]


@dataclass(frozen=True)
class Blind:
    """A world that does not tell its theta."""

    items: int = 3
    dim: int = 2
    capacity: int = 1

    def open(self, seeds: Sequence[SeedSequence]) -> Environment:
        assert len(seeds) == 4
        return Stage(Script())


def test_a_setting_says_what_is_public() -> None:
    """Curators hear the world's declaration, the number of replicates and the horizon; theta only where it is told."""
    heard: list[SimulationContext] = []

    def factory(setting: SimulationContext, noise: Random) -> Actor:
        assert noise.random((4, 2)).shape == (4, 2)
        heard.append(setting)
        return Actor("ann", Script())

    with pytest.raises(AttributeError):  # the stage's visitor is a word, and a policy needs more
        simulate(Blind(), [Contestant("ann", Uniform(), factory)], horizon=6, replicates=4, seed=0)
    (setting,) = heard
    assert (setting.items, setting.dim, setting.capacity, setting.worlds, setting.horizon) == (3, 2, 1, 4, 6)
    assert setting.world == Blind()
    with pytest.raises(ValueError, match="the oracle needs an environment with a theta, got Stage"):
        _ = setting.theta


def test_a_clock_adds_up_what_calls_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds between start and end of each call, and nothing in between."""
    ticks = iter([1.0, 3.0, 10.0, 10.5])
    monkeypatch.setattr("quietshelf.research.loop.clock.perf_counter", lambda: next(ticks))
    clock = Stopwatch()
    assert clock.call(divmod, 7, 2) == (3, 1)
    assert clock.call(str, "x") == "x"
    assert clock.seconds == 2.5
