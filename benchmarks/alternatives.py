"""The cost of a decision and an update in other libraries, at N=100, K=10, d=5, beside `quiet` in the same run.

VowpalWabbit's conditional contextual bandit fills K slots from N actions with features; MABWiser's LinUCB ranks N arms
of one context. Neither chooses assortments under a choice model or promises privacy: this compares time only. Libraries
that are not installed (extra ``bench``) are skipped with a message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import NamedTuple, TypeVar

import numpy as np

from benchmarks import table
from quietshelf.model.types import FloatArray
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import simulate
from quietshelf.research.loop.named import contestant

Answer = TypeVar("Answer")
ITEMS, CAPACITY, DIM = 100, 10, 5
ROUNDS = 200


class Cost(NamedTuple):
    """Microseconds of one decision and one update."""

    decision: float
    update: float


def main() -> None:
    """Print costs and ratios to ours for one visitor at a time, and ours with many worlds side by side."""
    ours = quietshelf_cost()
    rows = [_row("quietshelf, quiet, one visitor at a time", ours, ours)]
    for name, measure in (("VowpalWabbit, CCB", vowpal_wabbit_cost), ("MABWiser, LinUCB", mabwiser_cost)):
        try:
            rows.append(_row(name, measure(), ours))
        except ModuleNotFoundError as error:
            print(f"skipped: {name} ({error}); pip install '.[bench]' in a checkout")
    head = ("", "µs a decision", "times ours", "µs an update", "times ours")
    table(f"N={ITEMS}, K={CAPACITY}, d={DIM}", head, rows)
    print(f"  quietshelf, 60 worlds side by side: {batched():.1f} µs a decision and update together, a world")


def quietshelf_cost() -> Cost:
    """`quiet` in one world, with policy and curator called as the loop does."""
    from numpy.random import SeedSequence

    from quietshelf.model.types import Round, Streams
    from quietshelf.research.loop import SimulationContext

    world = Synthetic(items=ITEMS, capacity=CAPACITY, dim=DIM)
    environment = world.open([SeedSequence(0)])
    made = contestant("quiet", rho=1.0)
    setting = SimulationContext(world=world, worlds=1, horizon=ROUNDS, tastes=lambda: environment.theta)
    curator, chance = made.curator(setting, Streams([SeedSequence(1)])), Streams([SeedSequence(2)])

    def decide(t: int) -> Callable[[], object]:
        context = environment.context(t)
        release = curator.release
        shown = _timed(lambda: made.policy.offer(context, release, chance), costs[0])
        round_ = Round(context, shown, environment.choose(context, shown))
        return lambda: curator.observe(round_)

    costs: tuple[list[float], list[float]] = ([], [])
    for t in range(ROUNDS):
        _timed(decide(t), costs[1])
    return _summary(costs)


def vowpal_wabbit_cost() -> Cost:
    """Fill ten slots from a hundred actions, given as text, then learn."""
    import vowpalwabbit

    rng = np.random.default_rng(0)
    workspace = vowpalwabbit.Workspace("--ccb_explore_adf --quiet --epsilon 0.1")
    costs: tuple[list[float], list[float]] = ([], [])
    slots = "\n".join(["ccb slot |"] * CAPACITY)
    for _ in range(ROUNDS):
        x = rng.normal(size=(ITEMS, DIM))
        ranked = _timed(partial(_ccb, workspace.predict, x, slots), costs[0])
        learnt = "\n".join(f"ccb slot {ranks[0][0]}:-1.0:{ranks[0][1]} |" for ranks in ranked)
        _timed(partial(_ccb, workspace.learn, x, learnt), costs[1])
    workspace.finish()
    return _summary(costs)


def _ccb(call: Callable[[str], Answer], x: FloatArray, slots: str) -> Answer:
    """One example as VowpalWabbit text; formatting it is part of the cost, since there is no other input."""
    actions = "\n".join("ccb action |a " + " ".join(f"f{i}:{v:.6f}" for i, v in enumerate(row)) for row in x)
    return call(f"ccb shared |s one\n{actions}\n{slots}")


def mabwiser_cost() -> Cost:
    """Expected rewards of a hundred arms for one context, then one partial fit."""
    from mabwiser.mab import MAB, LearningPolicy

    rng = np.random.default_rng(0)
    bandit = MAB(list(range(ITEMS)), LearningPolicy.LinUCB(alpha=0.5), seed=1)
    bandit.fit(rng.integers(ITEMS, size=500).tolist(), rng.random(500).tolist(), rng.normal(size=(500, DIM)).tolist())
    costs: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        context = rng.normal(size=(1, DIM)).tolist()
        values = _timed(partial(bandit.predict_expectations, context), costs[0])
        top = sorted(values, key=values.get, reverse=True)[:CAPACITY]
        _timed(partial(bandit.partial_fit, top[:1], [1.0], context), costs[1])
    return _summary(costs)


def batched() -> float:
    """Microseconds per world for decision and update together."""
    result = simulate(Synthetic(), [contestant("quiet", rho=1.0)], horizon=ROUNDS, replicates=60, seed=0)
    return 1e6 * sum(result.seconds.values()) / (60 * ROUNDS)


def _timed(call: Callable[[], Answer], into: list[float]) -> Answer:
    begin = perf_counter()
    answer = call()
    into.append(perf_counter() - begin)
    return answer


def _summary(costs: tuple[list[float], list[float]]) -> Cost:
    """Means, so that rare work (a release, a refit) counts; the first call is a warm-up."""
    return Cost(*(1e6 * float(np.mean(times[1:])) for times in costs))


def _row(name: str, cost: Cost, ours: Cost) -> tuple[str, ...]:
    pairs = zip(cost, ours, strict=True)
    return (name, *(text for theirs, own in pairs for text in (f"{theirs:.0f}", f"{theirs / own:.2f}")))


if __name__ == "__main__":
    main()
