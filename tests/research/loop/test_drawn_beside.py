"""Visitors drawn by a thread while others are served: the same rows, the same errors, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

from quietshelf.model.types import Streams
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop import Runner, SimulationContext, World, simulate
from quietshelf.research.loop.blocks import run_blocks
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.simulation import Simulation, play

HORIZON, REPLICATES = 700, 2
WORLDS: dict[str, World] = {
    "plain": Synthetic(items=20, capacity=3, dim=3),
    "clipped": Synthetic(items=20, capacity=3, dim=3, contexts="clipped", revenue="uniform"),
    "drifting": Synthetic(items=20, capacity=3, dim=3, drift=0.1),
    "stock": Shop(items=20, capacity=3, conversion_rate=0.1, availability=0.6, visitor_dim=1),
    "moving": Shop(items=20, capacity=3, conversion_rate=0.1, half_life=50),
}


class Watched:
    """An environment that notes which threads draw its visitors, and may be forbidden to be ahead, or fail."""

    def __init__(self, inner: Any, *, ahead: bool, fails_at: int) -> None:
        self._inner, self._ahead, self._fails_at = inner, ahead, fails_at
        self.drawn_by: list[str] = []

    @property
    def ahead(self) -> bool:
        return self._ahead and bool(self._inner.ahead)

    def visits(self, t: int, most: int) -> Any:
        self.drawn_by.append(threading.current_thread().name)
        if t >= self._fails_at:
            raise RuntimeError(f"no visitor {t}")
        return self._inner.visits(t, most)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass(frozen=True)
class Watching:
    """A world whose environments are watched."""

    inner: Any
    opened: list[Watched]
    ahead: bool = True
    fails_at: int = HORIZON

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self, seeds: Sequence[SeedSequence]) -> Any:
        self.opened.append(Watched(self.inner.open(seeds), ahead=self.ahead, fails_at=self.fails_at))
        return self.opened[-1]


def drawing() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("quietshelf-visitors")]


def run(world: Any, **options: Any) -> Any:
    everybody = [contestant("quiet", rho=1.0), contestant("ucb-mnl"), contestant("greedy"), contestant("oracle")]
    return simulate(world, everybody, **{"horizon": HORIZON, "replicates": REPLICATES, "seed": 3, **options})


@pytest.mark.parametrize("name", WORLDS)
def test_a_thread_changes_no_row(name: str) -> None:
    """Drawn beside or in turn, rows are equal to the bit; where tastes move nothing is drawn before its turn."""
    beside, in_turn = Watching(WORLDS[name], []), Watching(WORLDS[name], [], ahead=False)
    rows, expected = run(beside), run(in_turn)
    for label in expected.labels:
        np.testing.assert_array_equal(rows.regret[label], expected.regret[label], err_msg=label)
    main = threading.current_thread().name
    assert set(in_turn.opened[0].drawn_by) == {main}
    assert (main in beside.opened[0].drawn_by) == (name in ("drifting", "moving"))
    assert rows.world_seconds > 0


@pytest.mark.parametrize("fails_at", [0, 1])
def test_an_error_of_the_world_reaches_the_caller(fails_at: int) -> None:
    """Raised where the visitors are asked for, with no thread left."""
    with pytest.raises(RuntimeError, match="no visitor"):
        run(Watching(WORLDS["plain"], [], fails_at=fails_at))
    assert not drawing()


def test_a_caller_who_stops_early_leaves_no_thread() -> None:
    """Neither by an error of its own nor by closing the rows."""

    def stop(rounds: int) -> None:
        raise KeyboardInterrupt(f"{len(drawing())} threads after {rounds} rounds")

    greedy = contestant("greedy")
    study = Simulation(
        world=WORLDS["plain"], contestants=(greedy,), horizon=HORIZON, seed=1, times=(HORIZON,), beside=True
    )
    with pytest.raises(KeyboardInterrupt, match="1 threads after"):
        play(study, range(REPLICATES), stop)
    assert not drawing()
    environment: Any = WORLDS["plain"].open(SeedSequence(1).spawn(REPLICATES))
    setting = SimulationContext(world=WORLDS["plain"], worlds=REPLICATES, horizon=HORIZON, tastes=lambda: np.empty(0))
    chance = Streams(SeedSequence(2).spawn(REPLICATES))
    runner = Runner("greedy", greedy.policy, greedy.curator(setting, chance), chance)
    rows: Any = run_blocks(environment, [runner], horizon=HORIZON, beside=True)
    next(rows)
    assert len(drawing()) == 1
    rows.close()
    assert not drawing()


def test_the_thread_minds_errors_of_floating_point_as_the_caller_does() -> None:
    """NumPy's settings belong to a context, which goes with the thread."""
    heard: list[str] = []

    class Minding(Watched):
        def visits(self, t: int, most: int) -> Any:
            heard.append(np.geterr()["over"])
            return super().visits(t, most)

    environment: Any = Minding(WORLDS["plain"].open(SeedSequence(1).spawn(1)), ahead=True, fails_at=HORIZON)
    with np.errstate(over="raise"):
        list(run_blocks(environment, [], horizon=HORIZON, beside=True))
    assert set(heard) == {"raise"}
