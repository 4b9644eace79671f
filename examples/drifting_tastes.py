"""Drifting tastes: what `max_batch` and `forgetting` gain if tastes change, and cost if they do not.

In three shops tastes stay, change slowly, or change fast: after `half_life` visitors their correlation with today's is
one half. Every shelf serves the same visitors. The result is revenue lost, as a share of what random offers lose: the
mean over runs, and the level that one run in ten exceeds.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from quietshelf import contestant, simulate
from quietshelf.model.types import FloatArray
from quietshelf.research.environments import Shop
from quietshelf.research.loop import Contestant

SEED = 1702
HALF_LIVES = {"tastes stay": 0, "half-life 20,000": 20_000, "half-life 5,000": 5_000}
SETTINGS = [(None, 1.0), (500, 1.0), (None, 0.7), (500, 0.7), (200, 0.7), (100, 0.7)]
VISITORS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
RUNS = max(2, VISITORS // 1000)
RHO = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0


def main() -> None:
    """Print a line per setting, a column per shop."""
    print(f"{'':32}" + "".join(f"{name:>20}" for name in HALF_LIVES))
    columns = [shares(half_life) for half_life in HALF_LIVES.values()]
    for label in columns[0]:
        lost = [column[label] for column in columns]
        cells = (f"{100 * each.mean():.1f} % ({100 * np.quantile(each, 0.9):.1f} %)" for each in lost)
        print(f"{label:32}" + "".join(f"{cell:>20}" for cell in cells))


def shares(half_life: int) -> dict[str, FloatArray]:
    """Regret of each setting as a share of that of random offers, by run."""
    world = Shop(items=100, capacity=5, conversion_rate=0.3, item_dim=5, per_visitor=True, half_life=half_life)
    contestants: list[Contestant | str] = [*(drifting(*each) for each in SETTINGS), "ucb-mnl", "uniform"]
    result = simulate(world, contestants, horizon=VISITORS, replicates=RUNS, seed=SEED, checkpoints=1)
    random = result.regret["uniform"][:, -1]
    return {label: result.regret[label][:, -1] / random for label in result.labels if label != "uniform"}


def drifting(max_batch: int | None, forgetting: float) -> Contestant:
    """`quiet` with these settings."""
    made = contestant("quiet", rho=RHO, max_batch=max_batch, forgetting=forgetting)
    return replace(made, label=f"max_batch={max_batch}, forgetting={forgetting:g}")


if __name__ == "__main__":
    main()
