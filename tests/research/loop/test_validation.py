"""What outsiders plug in: a slip is refused where it is made, in words that name the maker and the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

from quietshelf import contestant, simulate
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray, IntArray, Random, Release, Streams
from quietshelf.policies import Greedy, Uniform
from quietshelf.research.environments import LogitRound
from quietshelf.research.loop import Contestant

WORLDS, ITEMS, DIM, CAPACITY = 3, 6, 2, 2
LEARNS = contestant("quiet", rho=1.0).curator


@dataclass(frozen=True)
class Shop:
    """A sound world; ``slip`` changes one thing about it."""

    slip: str = ""
    items: int = ITEMS
    dim: int = DIM
    capacity: int = CAPACITY

    def open(self, seeds: Sequence[SeedSequence]) -> OpenShop:
        return OpenShop(self.slip, seeds)


class OpenShop:
    """The shops themselves."""

    def __init__(self, slip: str, seeds: Sequence[SeedSequence]) -> None:
        self.slip, self.worlds, self.rng = slip, len(seeds), Streams(seeds)

    def context(self, t: int) -> Context:  # noqa: ARG002 - every visitor is like the others
        x = self.rng.standard_normal((self.worlds, ITEMS, DIM))
        x[0, 0, 0] = np.nan if self.slip == "nan" else x[0, 0, 0]
        features: Any = Dense(x)
        self.round = LogitRound(
            Context(features, np.ones(ITEMS), CAPACITY), np.nan_to_num(x.sum(-1)), self.rng.random((self.worlds,))
        )
        slips: dict[str, dict[str, Any]] = {
            "array": {"features": x},
            "dim": {"features": Dense(x[..., :1])},
            "items": {"features": Dense(x[:, :5])},
            "revenue": {"revenue": np.ones(5)},
            "capacity": {"capacity": 9},
            "worlds": {"features": Dense(np.concatenate([x, x]))},
        }
        return replace(self.round.context, **slips.get(self.slip, {}))

    def choose(self, context: Context, assortment: IntArray) -> IntArray:  # noqa: ARG002 - of the open round
        if self.slip == "place":
            return np.full(self.worlds, ITEMS)
        return self.round.choose(assortment)[:1] if self.slip == "one choice" else self.round.choose(assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:  # noqa: ARG002 - of the open round
        lost = self.round.regret(assortment)
        return lost.sum() if self.slip == "one regret" else lost


@dataclass(frozen=True)
class Own:
    """A policy that answers what it is told to."""

    answer: Callable[[], Any]

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:  # noqa: ARG002 - a fixed answer
        answer: IntArray = self.answer()
        return answer


def run(world: Shop, *contestants: Contestant | str) -> None:
    simulate(world, contestants, horizon=4, replicates=WORLDS, seed=0)


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda: np.tile(np.arange(3), (WORLDS, 1)), r"int64 \(3, 3\)"),
        (lambda: np.arange(CAPACITY), r"int64 \(2,\)"),
        (lambda: np.tile(np.arange(2.0), (WORLDS, 1)), r"float64 \(3, 2\)"),
        (lambda: np.ones((WORLDS, CAPACITY), dtype=bool), r"bool \(3, 2\)"),
        (lambda: [[0, 1]] * WORLDS, "list"),
        (lambda: None, "NoneType"),
    ],
)
def test_offer_of_a_wrong_shape_names_its_policy(answer: Callable[[], Any], got: str) -> None:
    """Too many items, one world for all, numbers that are no indices, no array."""
    with pytest.raises(ValueError, match=rf"the offer of 'own' .* of shape \(3, at most 2\), got {got}"):
        run(Shop(), Contestant("own", Own(answer), LEARNS))


def test_offer_of_fewer_items_is_allowed() -> None:
    """A policy need not fill every place."""
    run(Shop(), Contestant("own", Own(lambda: np.zeros((WORLDS, 1), dtype=np.int64)), LEARNS))


@pytest.mark.parametrize(
    ("slip", "rule"),
    [
        ("array", "wrap an array in quietshelf.model.choice.features.Dense, got features='ndarray'"),
        ("dim", "a visitor must have the dim of the world, 2, got dim=1"),
        ("items", "a visitor must have the items of the world, 6, got items=5"),
        ("revenue", r"a visitor must have the revenues of the world, \(6,\), got revenues=\(5,\)"),
        ("capacity", "capacity must be from 1 to the world's 2, got capacity=9"),
        ("nan", "features must be finite, got not_finite=1"),
        ("place", r"choose must give indices of items shown .* got choice=6, shown=\["),
        ("one choice", r"choose must give one item index per world, or -1, got shape=\(1,\)"),
        ("one regret", r"regret must be one number per world, got shape=\(\)"),
    ],
)
def test_world_that_breaks_its_own_description_is_refused(slip: str, rule: str) -> None:
    """In its first round; the same world without the slip is served."""
    run(Shop(), contestant("quiet", rho=1.0), "uniform")
    with pytest.raises(ValueError, match=rule):
        run(Shop(slip), contestant("quiet", rho=1.0), "uniform")


def test_what_describes_no_world_is_refused() -> None:
    """A class that was not called, and replicates that are open already."""
    rule = r"a world must be an object with items, dim, capacity and open\(seeds\)"
    kind: Any = Shop
    with pytest.raises(ValueError, match=rf"{rule}.* got world=<class .*Shop'>, lacking=\[\]"):
        run(kind, "uniform")
    opened: Any = Shop().open([SeedSequence(0)])
    with pytest.raises(ValueError, match=rf"{rule}.* lacking=\['items', 'dim', 'capacity', 'open'\]"):
        run(opened, "uniform")


def test_release_of_a_wrong_shape_names_its_curator() -> None:
    """Before the first visitor."""

    class Lonely:
        def __init__(self, setting: object, noise: object) -> None:  # noqa: ARG002 - learns nothing
            zero = np.zeros(())
            self.release = Release(np.zeros(DIM), np.eye(DIM), zero, zero.astype(bool), zero.astype(np.int64))

        def observe(self, round: object) -> Release:  # noqa: A002, ARG002 - the noun on the arrow
            return self.release

    with pytest.raises(ValueError, match=r"theta in the release of 'own' must be \(3, 2\), got shape=\(2,\)"):
        run(Shop(), Contestant("own", Uniform(), Lonely))


def test_contestant_of_wrong_parts_is_refused() -> None:
    """A class in place of a policy, a contestant in place of a curator, a policy in place of a contestant."""
    wrong: Any = Greedy
    with pytest.raises(ValueError, match="a policy must be an object with offer"):
        Contestant("own", wrong, LEARNS)
    whole: Any = contestant("quiet", rho=1.0)
    with pytest.raises(ValueError, match=r"another contestant's \.curator"):
        Contestant("own", Greedy(), whole)
    bare: Any = Greedy()
    with pytest.raises(ValueError, match=r"contestants must be names or Contestant.*, got an object of type Greedy"):
        run(Shop(), bare)
    with pytest.raises(ValueError, match="contestants must be a list, got contestants='greedy'"):
        simulate(Shop(), "greedy", horizon=4, replicates=2, seed=0)
