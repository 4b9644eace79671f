"""``quietshelf demo``: a shop, its best shelf, a fit, and learning in private."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from quietshelf.assortment import best
from quietshelf.choice import fit
from quietshelf.cli.console import out, progress, talk
from quietshelf.cli.simulate import lines, parse_contestants, table
from quietshelf.environments import Synthetic
from quietshelf.loop import simulate
from quietshelf.report import regret_curves, taste_plot

ITEMS = ("tea", "coffee", "honey", "jam", "bread", "cheese")
UTILITY = np.array([0.4, 0.9, -0.3, 0.1, 0.7, -0.1])
REVENUE = np.array([3.0, 2.0, 7.0, 5.0, 1.5, 6.0])
TASTES = {"fresh": 1.0, "local": 0.6, "cheap": -0.8, "new": 0.3}
SEED = 2026


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the figures go.")] = Path("out/demo"),
    horizon: Annotated[int, typer.Option(help="Simulated visitors.")] = 3000,
    replicates: Annotated[int, typer.Option(help="Independent shops.")] = 20,
) -> None:
    """Show in a minute what Quietshelf does.

    Example: quietshelf demo --out my-demo
    """
    out.rule("1. The best shelf, exactly")
    for places in (1, 2, 3):
        shelf = best(utility=UTILITY, revenue=REVENUE, capacity=places)
        shown = ", ".join(ITEMS[item] for item in shelf.chosen)
        out.print(f"  {places} of {len(ITEMS)}: {shown}: {float(shelf.expected_revenue):.3f} expected a visitor")
    out.rule("2. Tastes, from what was chosen")
    figures = [_fitted(folder)]
    out.rule("3. Learning without telling: rho = 1 against no privacy")
    figures.append(_learned(folder, horizon, replicates))
    out.print()
    for path in figures:
        talk.print(f"drawn: {path}" if path else "no figure: pip install 'quietshelf[report]' draws it")


def _fitted(folder: Path) -> Path | None:
    rng, theta = np.random.default_rng(SEED), np.array(list(TASTES.values()))
    x = rng.normal(size=(4000, 5, theta.size))
    noisy = np.concatenate([x @ theta, np.zeros((4000, 1))], axis=1) + rng.gumbel(size=(4000, 6))
    picked = noisy.argmax(axis=1)
    result = fit(x, np.where(picked == 5, -1, picked))
    for name, true, found, error in zip(TASTES, theta, result.theta, result.standard_errors, strict=True):
        out.print(f"  {name:6} true {true:5.2f}   found {found:5.2f} ± {error:.2f}")
    out.print(f"  gradient at the answer {float(result.gradient_norm):.1e}, {result.iterations} Newton steps")
    return _drawn(
        lambda: taste_plot(list(TASTES), result.theta, result.standard_errors, folder / "tastes.png", truth=theta)
    )


def _drawn(draw: Callable[[], Path]) -> Path | None:
    """The figure, or None where matplotlib is not installed: the demo goes on without it."""
    try:
        return draw()
    except ModuleNotFoundError:
        return None


def _learned(folder: Path, horizon: int, replicates: int) -> Path | None:
    policies, rho = "quiet,greedy,uniform", "1"
    contestants = parse_contestants(policies, rho)
    with progress("simulating", unit="visitors") as moved:
        result = simulate(
            Synthetic(contexts="clipped"),
            contestants,
            horizon=horizon,
            replicates=replicates,
            seed=SEED,
            progress=moved,
        )
    names = dict(zip((c.label for c in contestants), policies.split(","), strict=True))
    out.print(table(lines(result, names), horizon=horizon))
    title = "100 items, 10 shown: quiet at rho = 1 beside no privacy"
    return _drawn(lambda: regret_curves(result, folder / "regret.png", title=title))
