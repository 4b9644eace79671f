"""Many rounds in one call give the rows of one round after the other, whatever the size of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import SeedSequence

from quietshelf.model.types import NOTHING, Context, Environment, FloatArray, IntArray, Random, Release, Round, Streams
from quietshelf.policies import Greedy, OptimisticDraw, Thompson, Uniform
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop import Contestant, Result, SimulationContext, World, simulate
from quietshelf.research.loop.named import contestant

HORIZON, REPLICATES = 100, 3
WORLDS: dict[str, World] = {
    "plain": Synthetic(items=20, capacity=3, dim=3),
    "clipped": Synthetic(items=20, capacity=3, dim=3, contexts="clipped", scale=0.5, revenue="uniform"),
    "fixed": Synthetic(items=20, capacity=3, dim=3, fixed=True),
    "drifting": Synthetic(items=20, capacity=3, dim=3, drift=0.1),
    "stock": Shop(items=20, capacity=3, conversion_rate=0.1, availability=0.6, visitor_dim=1),
    "new items": Shop(items=20, capacity=3, conversion_rate=0.1, new_every=9, features="ids"),
    "mixed": Shop(items=20, capacity=3, conversion_rate=0.1, mixing=0.5, per_visitor=True),
    "moving": Shop(items=20, capacity=3, conversion_rate=0.1, half_life=50),
}


class OneByOne:
    """An environment of which nobody knows that it could hand out many rounds at once."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def theta(self) -> FloatArray:
        theta: FloatArray = self._inner.theta
        return theta

    @property
    def made_up(self) -> Any:
        return getattr(self._inner, "made_up", None)

    def context(self, t: int) -> Context:
        context: Context = self._inner.context(t)
        return context

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        choice: IntArray = self._inner.choose(context, assortment)
        return choice

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        regret: FloatArray = self._inner.regret(context, assortment)
        return regret


@dataclass(frozen=True)
class Slow:
    """A world served round by round."""

    inner: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def open(self, seeds: Sequence[SeedSequence]) -> Environment:
        return OneByOne(self.inner.open(seeds))


def everybody() -> list[Contestant]:
    """Steady curators and others, together and alone, by policies that may be asked about many rounds or may not."""
    return [
        contestant("quiet", rho=1.0),
        contestant("quiet", rho=3.0, growth=1.3, label="another quiet"),
        contestant("greedy"),
        contestant("greedy", growth=0.05, fits=4, label="few fits"),
        contestant("ucb-mnl"),
        contestant("dpmnl", rho=5.0, calibration="paper", explore=30, fits=4),
        contestant("uniform"),
        contestant("oracle"),
        Contestant("drawing", Thompson(3), contestant("greedy").curator),
        Contestant("own policy", Alone(), contestant("quiet", rho=1.0).curator),
        Contestant("own curator", Greedy(), Counting),
        Contestant("few places", Narrow(), contestant("quiet", rho=1.0).curator),
    ]


@dataclass(frozen=True)
class Alone:
    """A policy that says nothing of several rounds at once, and could not bear them."""

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        assert context.revenue.ndim == 2
        assert release.explore.ndim == 1
        tossed = rng.random((len(release.explore), 1)) < 0.5
        return np.where(tossed, Greedy().offer(context, release, rng), Uniform().offer(context, release, rng))


@dataclass(frozen=True)
class Narrow:
    """A policy that shows one item less."""

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        return OptimisticDraw().offer(context, release, rng)[..., 1:]


class Counting:
    """A curator of one's own, released after every round."""

    def __init__(self, setting: SimulationContext, noise: Random) -> None:  # noqa: ARG002 - what a factory is given
        self._setting, self._sum = setting, np.zeros((setting.worlds, setting.dim))

    @property
    def release(self) -> Release:
        worlds, dim = self._sum.shape
        zero = np.zeros(worlds)
        precision = np.broadcast_to(np.eye(dim), (worlds, dim, dim))
        return Release(0.1 * self._sum, precision, zero, zero.astype(bool), zero.astype(np.int64))

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        assert round.choice.shape == (len(self._sum),)
        self._sum = self._sum + round.context.features.rows(round.choice[:, None]).reshape(self._sum.shape)
        return self.release


def result(world: World, **options: Any) -> Result:
    return simulate(world, everybody(), **{"horizon": HORIZON, "replicates": REPLICATES, "seed": 7, **options})


@cache
def as_shipped(name: str) -> Result:
    """What comes of a world, computed once for all tests."""
    return result(WORLDS[name])


def same(one: Result, other: Result) -> None:
    for label in one.labels:
        np.testing.assert_array_equal(one.regret[label], other.regret[label], err_msg=label)
        assert one.ledgers[label] == other.ledgers[label]


@pytest.mark.parametrize("name", WORLDS)
def test_blocks_give_the_rows_of_one_round_after_the_other(name: str) -> None:
    """Everybody, in every kind of world: equal to the bit, ledgers and all."""
    same(as_shipped(name), result(Slow(WORLDS[name])))


@pytest.mark.parametrize(("visitors", "decided"), [(1, 1), (3, 512), (7, 5), (60, 36), (10_000, 10_000)])
def test_the_size_of_a_block_changes_no_row(monkeypatch: pytest.MonkeyPatch, visitors: int, decided: int) -> None:
    """Visitors drawn together, and visitors decided together, one by one or all of them: releases fall anywhere."""
    expected = as_shipped("plain")
    monkeypatch.setattr("quietshelf.research.environments.logit.TOGETHER", visitors)
    monkeypatch.setattr("quietshelf.research.loop.batching.TOGETHER", decided)
    same(result(WORLDS["plain"]), expected)


def test_streams_stay_in_step_whatever_a_block_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers drawn ahead are handed out in order."""
    expected = as_shipped("stock")
    monkeypatch.setattr("quietshelf.model.types.streams.BLOCK_NUMBERS", 100)
    same(result(WORLDS["stock"]), expected)


def test_checkpoints_within_a_block_are_noted() -> None:
    """Regret after every single visitor is that of a run which is looked at only now and then."""
    fine, coarse = result(WORLDS["plain"], checkpoints=HORIZON), result(WORLDS["plain"], checkpoints=4)
    for label in fine.labels:
        found = fine.regret[label][:, np.array(coarse.times) - 1]
        np.testing.assert_array_equal(found, coarse.regret[label])


@dataclass(frozen=True)
class Recorded:
    """Makes a curator, and writes down how many rounds it is told of at once and how many it had promised."""

    make: Any
    heard: list[tuple[int, int]]

    def __call__(self, setting: SimulationContext, noise: Random) -> Any:
        inner, heard = self.make(setting, noise), self.heard

        class Recording(type(inner)):  # type: ignore[misc]  # whatever the curator is
            def observe_rounds(self, rounds: Round) -> Release:
                heard.append((len(rounds.choice), self.steady))
                release: Release = super().observe_rounds(rounds)
                return release

        inner.__class__ = Recording
        return inner


@pytest.mark.parametrize("name", ["quiet", "greedy"])
def test_no_block_reaches_beyond_a_release(name: str) -> None:
    """A curator hears of as many rounds at once as its release serves, never of more; and of many for the most part."""
    options: dict[str, Any] = {"rho": 1.0} if name == "quiet" else {}
    heard: list[tuple[int, int]] = []
    watched = Contestant("watched", Greedy(), Recorded(contestant(name, **options).curator, heard))
    simulate(WORLDS["plain"], [watched], horizon=HORIZON, replicates=2, seed=1)
    assert all(rounds <= steady for rounds, steady in heard)
    assert any(rounds == steady for rounds, steady in heard)
    assert sum(rounds for rounds, _ in heard) > HORIZON / 2


@pytest.mark.parametrize("name", ["ucb-mnl", "ts-mnl", "dpmnl"])
def test_foreseen_releases_are_those_that_come(name: str) -> None:
    """One curator is told of single rounds, the other of all that it foresaw: the releases are equal to the bit."""
    options: dict[str, Any] = {"rho": 5.0, "explore": 20} if name == "dpmnl" else {}
    setting = SimulationContext(world=WORLDS["plain"], worlds=2, horizon=HORIZON, tastes=lambda: np.zeros((2, 3)))
    one, other = (contestant(name, **options).curator(setting, Streams(SeedSequence(3).spawn(2))) for _ in range(2))
    blocks: Any = other
    visits = Synthetic(items=20, capacity=3, dim=3).open(SeedSequence(1).spawn(2)).visits(0, 90)
    shown = np.random.default_rng(2).permuted(np.tile(np.arange(20), (len(visits), 2, 1)), axis=-1)[..., :3]
    choice, done, longest = visits.choose(shown), 0, 0
    while done < len(visits):
        left = visits[done:]
        releases = blocks.foresee(Round(left.context, shown[done:], np.full((len(left), 2), NOTHING)))
        many = len(releases.count)
        for place in range(many):
            for field in Release.arrays:
                np.testing.assert_array_equal(getattr(one.release, field), getattr(releases, field)[place])
            one.observe(Round(left[place].context, shown[done + place], choice[done + place]))
        part = slice(done, done + many)
        blocks.observe_rounds(Round(visits[part].context, shown[part], choice[part]))
        done, longest = done + many, max(longest, many)
    assert longest > 5


def test_rounds_beyond_a_release_are_refused() -> None:
    """By curators that were told of more rounds than their release serves."""
    setting = SimulationContext(world=WORLDS["plain"], worlds=2, horizon=9, tastes=lambda: np.zeros((2, 3)))
    visits = Synthetic(items=20, capacity=3, dim=3).open(SeedSequence(1).spawn(2)).visits(0, 90)
    shown = np.tile(np.arange(3), (len(visits), 2, 1))
    rounds = Round(visits.context, shown, visits.choose(shown))
    for one in (contestant("quiet", rho=1.0), contestant("greedy")):
        curator: Any = one.curator(setting, np.random.default_rng(0))
        steady = curator.steady
        with pytest.raises(ValueError, match=f"at most {steady} rounds may be taken in at once, got rounds=90"):
            curator.observe_rounds(rounds)
        assert curator.steady == steady
