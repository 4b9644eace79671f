"""Many replicates of a contest, on one or several processes: the same rows either way.

Replicate r of a study draws from ``SeedSequence(seed, spawn_key=(r, role))`` and from nothing else. The visitors, each
policy's chances and each curator's noise have roles of their own, the same for all contestants: comparisons are paired,
and adding contestants, replicates or workers changes no number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.choice.device import find_device, worlds_on
from quietshelf.model.types import Environment, FloatArray, Streams, integer, require
from quietshelf.research.loop.arrow import Runner, run
from quietshelf.research.loop.batching import ContestantBatch, StartedContestant, batched
from quietshelf.research.loop.blocks import AheadOfTime, run_blocks
from quietshelf.research.loop.clock import Stopwatch, TimedEnvironment
from quietshelf.research.loop.contest import Contestant, SimulationContext, World
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.parallel import Progress, Throttled, spread
from quietshelf.research.loop.result import Result, merge
from quietshelf.research.loop.validation import CheckedEnvironment, check_release, check_world

T = TypeVar("T")
WORLD, POLICY, NOISE = range(3)
"""The roles of a replicate's random streams."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A contest to be run; picklable if its parts are.

    With ``beside`` a thread draws visitors: for a contest that is alone on its cores.
    """

    world: World
    contestants: tuple[Contestant, ...]
    horizon: int
    seed: int
    times: tuple[int, ...]
    device: str = "cpu"
    beside: bool = False


def simulate(
    world: World,
    contestants: Sequence[Contestant | str],
    *,
    horizon: int,
    replicates: int,
    seed: int,
    workers: int = 1,
    checkpoints: int = 50,
    progress: Progress | None = None,
    device: str = "cpu",
) -> Result:
    """Let contestants serve the same visitors in many replicates of a world.

    Args:
        world: The environment; its ``open`` gives the replicates.
        contestants: The policies, with distinct labels; those that need no budget may be given by name.
        horizon: Visitors per replicate.
        replicates: Independent worlds.
        seed: Seed of the whole study; equal seeds give equal rows.
        workers: Processes. With one, a thread draws the next visitors while others are served. With more, world and
            contestants must be picklable, and a script that calls this needs the usual ``if __name__ == "__main__":``.
        checkpoints: How many times, evenly spread, to record the regret; the last is the horizon.
        progress: Called with rounds done and rounds in total (over all replicates), at most a few times per second.
        device: Where visitors of many replicates are scored: cpu, or cuda by PyTorch or CuPy. The rows are the same.
    """
    find_device(device)
    check_world(world)
    integer("replicates", replicates)
    integer("seed", seed, low=0)
    taking_part = _checked(contestants)
    times = checkpoint_times(integer("horizon", horizon), integer("checkpoints", checkpoints))
    groups = _groups(replicates, min(integer("workers", workers), replicates))
    study = Simulation(
        world=world,
        contestants=taking_part,
        horizon=horizon,
        seed=seed,
        times=times,
        device=device,
        beside=len(groups) == 1,
    )
    report = Throttled(progress, horizon * replicates)
    parts = spread(partial(play, study), groups, report)
    report.finish()
    return merge(parts)


def _checked(contestants: Sequence[Contestant | str]) -> tuple[Contestant, ...]:
    """Contestants with distinct labels; those that were named, made."""
    require(not isinstance(contestants, str), "contestants must be a list", contestants=contestants)
    taking_part = tuple(contestant(one) if isinstance(one, str) else one for one in contestants)
    kinds = [type(one).__name__ for one in taking_part if not isinstance(one, Contestant)]
    rule = "contestants must be names or Contestant(label, policy, curator)"
    require(not kinds, f"{rule}, got an object of type {', '.join(kinds)}")
    labels = [one.label for one in taking_part]
    require(len(set(labels)) == len(labels) > 0, "contestants must have distinct labels, one at least", labels=labels)
    return taking_part


def play(study: Simulation, group: range, tick: Callable[[int], None]) -> Result:
    """Run one group of replicates side by side; ``tick`` hears how many rounds are done in the group."""
    with worlds_on(study.device):
        return _play(study, group, tick)


def _play(study: Simulation, group: range, tick: Callable[[int], None]) -> Result:
    environment = study.world.open(_seeds(study.seed, group, WORLD))
    chance = partial(_chance, study.seed, group)
    batches = batched(_start(study, group, environment), environment, len(group), chance)
    clock, runners = Stopwatch(), [batch.runner for batch in batches]
    lost = dict.fromkeys((runner.label for runner in runners), np.zeros(len(group)))
    noted: dict[str, list[FloatArray]] = {runner.label: [] for runner in runners}
    for label, t, regret in _lost(study, environment, runners, clock, len(group)):
        path = np.add.accumulate([lost[label] + regret[0], *regret[1:]])
        noted[label].extend(path[time - t - 1] for time in study.times if t < time <= t + len(regret))
        lost[label] = path[-1]
        tick((t + len(regret)) * len(group))
    paths = [path for batch in batches for path in _paths(batch, noted[batch.runner.label])]
    order = [each.label for each in study.contestants]
    return Result(
        study.horizon,
        study.times,
        _ordered(order, dict(paths)),
        _ordered(order, {label: ledger for batch in batches for label, ledger in batch.ledgers.items()}),
        _ordered(order, {label: seconds for batch in batches for label, seconds in batch.seconds.items()}),
        clock.seconds,
    )


def _lost(
    study: Simulation, environment: Environment, runners: Sequence[Runner], clock: Stopwatch, worlds: int
) -> Iterator[tuple[str, int, FloatArray]]:
    """What each runner loses in the rounds from t on, (rounds, ...): many at once where the world allows it."""
    if isinstance(environment, AheadOfTime):
        for stretch in run_blocks(environment, runners, horizon=study.horizon, clock=clock, beside=study.beside):
            yield stretch.label, stretch.t, stretch.regret
        return
    seen = CheckedEnvironment(environment, study.world, worlds)
    for step in run(TimedEnvironment(seen, clock), runners, horizon=study.horizon):
        yield step.label, step.t, step.regret[None]


def _chance(seed: int, group: range) -> Streams:
    return Streams(_seeds(seed, group, POLICY))


def _start(study: Simulation, group: range, environment: Environment) -> list[StartedContestant]:
    setting = SimulationContext(
        world=study.world,
        worlds=len(group),
        horizon=study.horizon,
        tastes=partial(_tastes, environment),
        made_up=getattr(environment, "made_up", None),
    )
    started = []
    for one in study.contestants:
        clock, noise = Stopwatch(), Streams(_seeds(study.seed, group, NOISE))
        curator = clock.call(one.curator, setting, noise)
        check_release(one.label, curator.release, setting.worlds, setting.dim)
        started.append(StartedContestant(one, curator, clock))
    return started


def _paths(batch: ContestantBatch, noted: list[FloatArray]) -> list[tuple[str, FloatArray]]:
    """The regret of each contestant of a batch, (replicates, checkpoints)."""
    path = np.stack(noted, axis=-1)
    return list(zip(batch.labels, path if path.ndim > 2 else path[None], strict=True))


def _ordered(labels: list[str], values: Mapping[str, T]) -> dict[str, T]:
    return {label: values[label] for label in labels}


def _tastes(environment: Environment) -> FloatArray:
    theta: FloatArray | None = getattr(environment, "theta", None)
    if theta is None:
        raise ValueError(f"the oracle needs an environment with a theta, got {type(environment).__name__}")
    return theta


def _seeds(seed: int, group: range, role: int) -> list[SeedSequence]:
    return [SeedSequence(seed, spawn_key=(replicate, role)) for replicate in group]


def checkpoint_times(horizon: int, checkpoints: int) -> tuple[int, ...]:
    """At most so many numbers of visitors, evenly spread, the horizon last.

    >>> checkpoint_times(10, 4)
    (3, 5, 8, 10)
    """
    count = min(checkpoints, horizon)
    return tuple(-(-horizon * k // count) for k in range(1, count + 1))


def _groups(replicates: int, count: int) -> list[range]:
    """Consecutive replicates in groups of nearly equal size: few and large, for speed lies in the batch axis."""
    edges = [replicates * k // count for k in range(count + 1)]
    return [range(low, high) for low, high in pairwise(edges)]
