"""What undeclared scales cost: private fits and `quiet` on simulated logs with prices around 120.

Prints the table of docs/logs.md, "Units". Takes about a minute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from quietshelf.data.logs.encoded import Scale, encoded, scaled
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.reading import as_log
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.geometry import scaled_curvature, unknown_curvature
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.private_newton import private_newton
from quietshelf.privacy.statistics import ObservedChoice
from quietshelf.research.environments.replay import world_of
from quietshelf.research.loop import contestant, simulate, summary

LOGS, VISITS, ITEMS, SHOWN, HORIZON = 20, 3000, 12, 4, 3000
SCALES = {"price": Scale(120.0, 40.0), "stars": Scale(3.0, 1.4), "visitor_age": Scale(40.0, 15.0)}
TASTES = np.array([-0.3, -0.8, 0.6])
"""Tastes for age, price and stars, per declared unit."""
MAP = feature_map("concat")


def made_up(seed: int) -> Log:
    """A log with candidates: items with prices around 120 and 1 to 5 stars, visitors aged about 40."""
    rng = np.random.default_rng(seed)
    price, stars = rng.normal(120, 40, ITEMS).clip(30).round(), rng.integers(1, 6, ITEMS)
    rows: list[tuple[Any, ...]] = []
    for visit in range(VISITS):
        age = float(round(rng.normal(40, 15)))
        liking = (
            -0.5 + np.column_stack([np.full(ITEMS, (age - 40) / 15), (price - 120) / 40, (stars - 3) / 1.4]) @ TASTES
        )
        noisy, shown = liking + rng.gumbel(size=ITEMS), rng.permutation(ITEMS)[:SHOWN].tolist()
        best = max(shown, key=noisy.__getitem__)
        chosen = best if noisy[best] > rng.gumbel() else None
        for item in range(ITEMS):
            place = shown.index(item) + 1 if item in shown else None
            rows.append((visit, item, place, int(item == chosen), price[item], stars[item], age))
    columns = ["round", "item", "position", "chosen", "price", "stars", "visitor_age"]
    return as_log(pd.DataFrame(rows, columns=columns))


def errors(log: Log, rho: float, *, declared: bool, seed: int) -> Any:
    """Errors of a private fit, per declared unit."""
    ready = encoded(scaled(log, SCALES, MAP) if declared else log, MAP)
    guess = scaled_curvature(MAP, visitor_scale=np.ones(1), item_scale=np.ones(2), capacity=SHOWN)
    found = private_newton(
        ObservedChoice(ready.rounds.features, ready.rounds.available, ready.rounds.choice),
        rho=rho,
        curvature=guess if declared else unknown_curvature(4),
        source=Simulated(np.random.default_rng(seed)),
        declared=declared,
    )
    units = np.ones(3) if declared else np.array([SCALES[name].spread for name in ("visitor_age", "price", "stars")])
    return found.theta[1:] * units - TASTES


def forgone(log: Log, *, declared: bool, seed: int) -> list[float]:
    """Sales that `quiet` loses in a world fitted to the log, at rho 0.1 and 1."""
    world = world_of(scaled(log, SCALES, MAP) if declared else log, MAP, ridge=0.0)  # type: ignore[arg-type]
    policies = [contestant("quiet", rho=0.1), contestant("quiet", rho=1.0)]
    return [line.mean for line in summary(simulate(world, policies, horizon=HORIZON, replicates=4, seed=seed))]


def main() -> None:
    """Print the table."""
    logs = [made_up(seed) for seed in range(LOGS)]
    for rho in (0.1, 1.0):
        for declared in (True, False):
            every = np.array([errors(log, rho, declared=declared, seed=seed) for seed, log in enumerate(logs)])
            size = np.median(np.abs(every))
            wild = (np.abs(every).max(axis=1) > 1).mean()
            print(f"fit    rho={rho:g} declared={declared}: median error {size:.3f}, off by more than 1: {wild:.0%}")
    for declared in (True, False):
        lost = np.array([forgone(log, declared=declared, seed=seed) for seed, log in enumerate(logs[:6])])
        error = lost.std(0, ddof=1) / np.sqrt(len(lost))
        print(f"replay rho=0.1, 1 declared={declared}: forgone {lost.mean(0).round(1)} ± {error.round(1)} of {HORIZON}")


if __name__ == "__main__":
    main()
