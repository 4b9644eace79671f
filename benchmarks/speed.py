"""Rounds per second on one core: one contestant alone, and ten or twenty, against the plain loop of `plain_dpmnl`.

A round is one visitor of one world served by one contestant, drawing the visitor and her regret included. Times are
processor seconds of one thread, all in one run; the plain loop is timed before and after each study, which is compared
with the mean of the two. On a busy machine ratios come out lower: what works on many worlds at once needs the cache
that others fill. What a second thread saves that draws the visitors is timed by the clock, in turns with none; it needs
a second core.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from time import perf_counter, process_time

import numpy as np
from numpy.random import SeedSequence

from benchmarks import plain_dpmnl, table
from quietshelf.model.types import Streams
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, simulate
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.parallel import worker_environment
from quietshelf.research.loop.simulation import Simulation, play

HORIZON, REPLICATES = 10_000, 30
RHO = (0.2, 0.5, 1.0, 2.0, 5.0)
WANTED = {"dpmnl": 10.0, "quiet": 25.0}
ALONE = ("quiet", "dpmnl", "greedy", "ucb-mnl")
WORLDS = (1, 10, 20)
"""Replicates beside which one contestant is timed alone."""
TURNS = 3


def main() -> None:
    """Print rounds a second and ratios; then what a round costs early and late."""
    # a new process, as the workers of a study are: threads are counted when NumPy loads
    with worker_environment(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        plain = [pool.submit(plain_seconds).result()]
        ours = {}
        for name in WANTED:
            ours[name] = pool.submit(study_seconds, name).result()
            plain.append(pool.submit(plain_seconds).result())
        alone = {
            (name, worlds): pool.submit(alone_seconds, name, worlds).result() for name in ALONE for worlds in WORLDS
        }
        plain.append(pool.submit(plain_seconds).result())
        drawing = pool.submit(drawing_seconds).result()
        by_clock = {each: pool.submit(clock_seconds, *each).result() for each in alone}
        early, late = pool.submit(growth).result()
    rows = [("plain loop, one world", f"{1 / min(plain):,.0f}", f"{1e6 * min(plain):.1f}", "1", "")]
    for (name, each), beside in zip(ours.items(), pairwise(plain[:-1]), strict=True):
        label = f"{name}, {len(contestants(name))} contestants x {REPLICATES} worlds"
        times = f"{sum(beside) / 2 / each:.1f}"
        rows.append((label, f"{1 / each:,.0f}", f"{1e6 * each:.1f}", times, f"{WANTED[name]:g}"))
    for (name, worlds), each in alone.items():
        times = f"{sum(plain[-2:]) / 2 / each:.1f}"
        rows.append((f"{name} alone, {worlds} worlds", f"{1 / each:,.0f}", f"{1e6 * each:.1f}", times, ""))
    floor = f"{sum(plain[-2:]) / 2 / drawing:.1f}"
    rows.append(("drawing the visitors alone", f"{1 / drawing:,.0f}", f"{1e6 * drawing:.1f}", floor, ""))
    table(
        f"N=100, K=10, d=5, T={HORIZON:,}, one core",
        ("", "rounds/s", "µs per round", "times plain", "wanted"),
        rows,
    )
    table(
        "One contestant, by the clock: the next visitors drawn by a second thread, and in turn",
        ("", "in turn, µs", "beside, µs", "times"),
        [
            (f"{name} alone, {worlds} worlds", f"{1e6 * turn:.1f}", f"{1e6 * thread:.1f}", f"{turn / thread:.2f}")
            for (name, worlds), (turn, thread) in by_clock.items()
        ],
    )
    print(f"  dpmnl between refits: {early:.1f} µs per round early, {late:.1f} µs late ({late / early:.2f} times)")


def plain_seconds() -> float:
    """Of one round of the plain loop."""
    begin = process_time()
    plain_dpmnl.run(HORIZON, seed=0)
    return (process_time() - begin) / HORIZON


def study_seconds(name: str) -> float:
    """Of one round of one contestant in a study."""
    everybody = contestants(name)
    begin = process_time()
    simulate(Synthetic(), everybody, horizon=HORIZON, replicates=REPLICATES, seed=0)
    return (process_time() - begin) / (HORIZON * REPLICATES * len(everybody))


def alone_seconds(name: str, worlds: int) -> float:
    """Of one round of a contestant who has the simulation to itself."""
    begin = process_time()
    play(alone_study(name), range(worlds), lambda _: None)
    return (process_time() - begin) / (HORIZON * worlds)


def clock_seconds(name: str, worlds: int) -> tuple[float, float]:
    """The same by the clock, visitors drawn in turn and by a thread: the best of some runs of each, one by one."""
    best = dict.fromkeys((False, True), float("inf"))
    for _ in range(TURNS):
        for beside in best:
            begin = perf_counter()
            play(alone_study(name, beside=beside), range(worlds), lambda _: None)
            best[beside] = min(best[beside], (perf_counter() - begin) / (HORIZON * worlds))
    return best[False], best[True]


def alone_study(name: str, *, beside: bool = False) -> Simulation:
    """Of one contestant."""
    one = contestant(name, rho=1.0 if name in WANTED else None)
    world, times = Synthetic(), (HORIZON,)
    return Simulation(world=world, contestants=(one,), horizon=HORIZON, seed=0, times=times, beside=beside)


def drawing_seconds() -> float:
    """Of drawing the features of one visitor, which no simulation of a synthetic world can do without."""
    world, many = Synthetic(), 25
    streams = Streams([SeedSequence(number) for number in range(WORLDS[-1])])
    begin = process_time()
    for _ in range(HORIZON // many):
        streams.rounds(many).standard_normal((many, len(streams), world.dim, world.items))
    return (process_time() - begin) / (HORIZON * len(streams))


def contestants(name: str) -> list[Contestant]:
    """Of a kind: ten with printed constants, as in the plain loop, at five rho and two shares; or twenty rho."""
    if name == "quiet":
        return [contestant(name, rho=scale * rho) for rho in RHO for scale in (1.0, 1.1, 1.2, 1.3)]
    return [
        contestant(name, rho=rho, share=share, calibration="paper", label=f"{rho} {share}")
        for rho in RHO
        for share in (0.5, 0.9)
    ]


def growth() -> tuple[float, float]:
    """Microseconds a round without refits, in the second and the last thousand rounds of T: they should be alike."""
    once = contestant("dpmnl", rho=1.0, fits=1, explore=10, calibration="paper")
    study = Simulation(world=Synthetic(), contestants=(once,), horizon=HORIZON, seed=0, times=(HORIZON,))
    told: list[tuple[float, float]] = []  # at the end of each block
    play(study, range(REPLICATES), lambda rounds: told.append((rounds / REPLICATES, process_time())))
    rounds, seconds = zip(*told, strict=True)
    first, second, third, last = np.interp((1000, 2000, HORIZON - 1000, HORIZON), rounds, seconds)
    return 1e6 * (second - first) / (1000 * REPLICATES), 1e6 * (last - third) / (1000 * REPLICATES)


if __name__ == "__main__":
    main()
