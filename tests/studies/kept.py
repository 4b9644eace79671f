"""What the studies of regret share."""

from __future__ import annotations

from tests.studies.size import keep

from quietshelf.research.loop import Result, summary

SEED = 20261115
RHOS = (0.1, 0.5, 1.0, 5.0)
QUIET = {"clipped": (7.5, 5.6, 4.5, 3.9), "normal": (1.6, 0.9, 0.72, 0.52)}


def kept(name: str, result: Result) -> dict[str, tuple[float, float]]:
    """Mean and standard error of each contestant's final regret, written where reports can read them."""
    found = {line.label: (line.mean, line.standard_error) for line in summary(result)}
    keep(name, horizon=result.horizon, replicates=result.replicates, seed=SEED, regret=found)
    for label, (mean, error) in found.items():
        print(f"{name:28} {label:16} {mean:9.2f} ± {error:.2f}")
    return found
