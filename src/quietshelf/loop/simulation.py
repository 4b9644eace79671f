"""Many replicates of a contest, on one or several processes: the same rows either way.

Replicate r of a study draws from ``SeedSequence(seed, spawn_key=(r, role))`` and from nothing else. The visitors, each
policy's chances and each curator's noise have roles of their own, the same for all contestants: comparisons are paired,
and adding contestants, replicates or workers changes no number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.random import SeedSequence

from quietshelf.accounting import Ledger
from quietshelf.loop.arrow import Party, run
from quietshelf.loop.clock import Clock, TimedCurator, TimedEnvironment, TimedPolicy
from quietshelf.loop.contest import Contestant, Setting, World
from quietshelf.loop.named import contestant
from quietshelf.loop.pool import Progress, Throttled, spread
from quietshelf.loop.result import Result, merge
from quietshelf.types import Environment, FloatArray, Streams, require, whole

WORLD, POLICY, NOISE = range(3)
"""The roles of a replicate's random streams."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A contest to be run; picklable if its parts are."""

    world: World
    contestants: tuple[Contestant, ...]
    horizon: int
    seed: int
    times: tuple[int, ...]


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
) -> Result:
    """Let contestants serve the same visitors in many replicates of a world.

    Args:
        world: Where; its ``open`` gives the replicates.
        contestants: Who, with distinct labels; policies that need no budget may be given by name.
        horizon: Visitors a replicate.
        replicates: Independent worlds.
        seed: Of the whole study; equal seeds give equal rows.
        workers: Processes. With more than one, world and contestants must be picklable, and a script that calls this
            needs the usual ``if __name__ == "__main__":``.
        checkpoints: How many times, evenly spread, the regret is noted; the last is the horizon.
        progress: Called with rounds done and rounds in all (over all replicates), a few times a second at most.
    """
    whole("replicates", replicates)
    whole("seed", seed, low=0)
    entrants = tuple(contestant(one) if isinstance(one, str) else one for one in contestants)
    labels = [one.label for one in entrants]
    require(len(set(labels)) == len(labels) > 0, "contestants must have distinct labels, one at least", labels=labels)
    times = _times(whole("horizon", horizon), whole("checkpoints", checkpoints))
    study = Study(world=world, contestants=entrants, horizon=horizon, seed=seed, times=times)
    groups = _groups(replicates, min(whole("workers", workers), replicates))
    report = Throttled(progress, horizon * replicates)
    parts = spread(partial(play, study), groups, report)
    report.finish()
    return merge(parts)


def play(study: Study, group: range, tick: Callable[[int], None]) -> Result:
    """Run one group of replicates side by side; ``tick`` hears how many rounds are done in the group."""
    environment = study.world.open(_seeds(study.seed, group, WORLD))
    world_clock, clocks = Clock(), {entrant.label: Clock() for entrant in study.contestants}
    parties = _enter(study, group, environment, clocks)
    lost = {party.label: np.zeros(len(group)) for party in parties}
    noted: dict[str, list[FloatArray]] = {party.label: [] for party in parties}
    due = set(study.times)
    for step in run(TimedEnvironment(environment, world_clock), _timed(parties, clocks), horizon=study.horizon):
        lost[step.label] += step.regret
        if step.t + 1 in due:
            noted[step.label].append(lost[step.label].copy())
        tick((step.t + 1) * len(group))
    return Result(
        study.horizon,
        study.times,
        {label: np.stack(paths, axis=-1) for label, paths in noted.items()},
        {party.label: _ledgers(party) for party in parties},
        {label: clock.seconds for label, clock in clocks.items()},
        world_clock.seconds,
    )


def _enter(study: Study, group: range, environment: Environment, clocks: dict[str, Clock]) -> list[Party]:
    setting = Setting(
        world=study.world,
        worlds=len(group),
        horizon=study.horizon,
        tastes=partial(_tastes, environment),
    )
    parties = []
    for entrant in study.contestants:
        noise = Streams(_seeds(study.seed, group, NOISE))
        curator = clocks[entrant.label].call(entrant.curator, setting, noise)
        chance = Streams(_seeds(study.seed, group, POLICY))
        parties.append(Party(entrant.label, entrant.policy, curator, chance))
    return parties


def _timed(parties: list[Party], clocks: dict[str, Clock]) -> list[Party]:
    return [
        Party(
            party.label,
            TimedPolicy(party.policy, clocks[party.label]),
            TimedCurator(party.curator, clocks[party.label]),
            party.rng,
        )
        for party in parties
    ]


def _tastes(environment: Environment) -> FloatArray:
    theta: FloatArray | None = getattr(environment, "theta", None)
    if theta is None:
        raise ValueError(f"the oracle needs an environment with a theta, got {type(environment).__name__}")
    return theta


def _ledgers(party: Party) -> tuple[Ledger, ...]:
    ledger = getattr(party.curator, "ledger", None)
    return (ledger,) if isinstance(ledger, Ledger) else ()


def _seeds(seed: int, group: range, role: int) -> list[SeedSequence]:
    return [SeedSequence(seed, spawn_key=(replicate, role)) for replicate in group]


def _times(horizon: int, checkpoints: int) -> tuple[int, ...]:
    """At most so many numbers of visitors, evenly spread, the horizon last.

    >>> _times(10, 4)
    (3, 5, 8, 10)
    """
    count = min(checkpoints, horizon)
    return tuple(-(-horizon * k // count) for k in range(1, count + 1))


def _groups(replicates: int, count: int) -> list[range]:
    """Consecutive replicates in groups of nearly equal size: few and large, for speed lies in the batch axis."""
    edges = [replicates * k // count for k in range(count + 1)]
    return [range(low, high) for low, high in pairwise(edges)]
