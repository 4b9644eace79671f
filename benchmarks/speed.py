"""Rounds a second on one core: a study of ten contestants against the plain loop of `plain_dpmnl`, in one run.

A round is one visitor of one world served by one contestant, drawing the visitor and her regret included. Times are
processor seconds of one thread, so that other work on the machine hardly shows; the plain loop is timed before and
after, and its shorter time counts.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import process_time

from benchmarks import plain_dpmnl, table
from quietshelf.environments import Synthetic
from quietshelf.loop import Contestant, simulate
from quietshelf.loop.named import contestant
from quietshelf.loop.pool import worker_environment

HORIZON, REPLICATES = 10_000, 30
RHO = (0.2, 0.5, 1.0, 2.0, 5.0)
WANTED = {"dpmnl": 10.0, "quiet": 25.0}


def main() -> None:
    """Print rounds a second and ratios; then what a round costs early and late."""
    # a new process, as the workers of a study are: threads are counted when NumPy loads
    with worker_environment(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        before = pool.submit(plain_seconds).result()
        ours = {name: pool.submit(study_seconds, name).result() for name in WANTED}
        plain = min(before, pool.submit(plain_seconds).result())
        early, late = pool.submit(growth).result()
    rows = [("plain loop, one world", f"{1 / plain:,.0f}", f"{1e6 * plain:.1f}", "1", "")]
    for name, each in ours.items():
        label = f"{name}, 10 contestants x {REPLICATES} worlds"
        rows.append((label, f"{1 / each:,.0f}", f"{1e6 * each:.1f}", f"{plain / each:.1f}", f"{WANTED[name]:g}"))
    table(
        f"N=100, K=10, d=5, T={HORIZON:,}, one core",
        ("", "rounds/s", "µs a round", "times plain", "wanted"),
        rows,
    )
    print(f"  dpmnl between refits: {early:.1f} µs a round early, {late:.1f} µs late ({late / early:.2f} times)")


def plain_seconds() -> float:
    """Of one round of the plain loop."""
    begin = process_time()
    plain_dpmnl.run(HORIZON, seed=0)
    return (process_time() - begin) / HORIZON


def study_seconds(name: str) -> float:
    """Of one round of one contestant in a study of ten."""
    begin = process_time()
    simulate(Synthetic(), contestants(name), horizon=HORIZON, replicates=REPLICATES, seed=0)
    return (process_time() - begin) / (HORIZON * REPLICATES * 10)


def contestants(name: str) -> list[Contestant]:
    """Ten of a kind: printed constants, as in the plain loop, at five rho and two shares, or ten rho."""
    if name == "quiet":
        return [contestant(name, rho=scale * rho) for rho in RHO for scale in (1.0, 1.1)]
    return [
        contestant(name, rho=rho, share=share, calibration="paper", label=f"{rho} {share}")
        for rho in RHO
        for share in (0.5, 0.9)
    ]


def growth() -> tuple[float, float]:
    """Microseconds a round without refits, in the second and the last thousand rounds of T: they should be alike."""
    once = [contestant("dpmnl", rho=1.0, fits=1, explore=10, calibration="paper")]

    def seconds(horizon: int) -> float:
        begin = process_time()
        simulate(Synthetic(), once, horizon=horizon, replicates=REPLICATES, seed=0)
        return process_time() - begin

    first, second, before, last = (seconds(horizon) for horizon in (1000, 2000, HORIZON - 1000, HORIZON))
    scale = 1e6 / (REPLICATES * 1000)
    return scale * (second - first), scale * (last - before)


if __name__ == "__main__":
    main()
