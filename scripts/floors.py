"""Find the best policy without privacy of each world of a study: ``python -m scripts.floors gauntlet``.

For every world, on the study's tuning seeds, print what each candidate loses as a share of what random offers lose: the
mean over runs, and the worst run in brackets. The study then names the candidate with the smallest mean, and its
horizon must be long enough to bring this to 5 % at most.
"""

from __future__ import annotations

import argparse
from typing import Any

from quietshelf.research.experiments import study_named
from quietshelf.research.experiments.worlds import make_world
from quietshelf.research.loop import contestant, simulate

REFITS: dict[str, Any] = {"schedule": "intervals", "growth": 0.2, "precision": "information"}
CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("greedy", {}),
    "greedy, ridge 0.1": ("greedy", {"ridge": 0.1}),
    "ucb-mnl": ("ucb-mnl", {}),
    "ucb-mnl, information": ("ucb-mnl", {"scale": 0.05, **REFITS}),
    "ts-mnl, information": ("ts-mnl", {"scale": 0.05, **REFITS}),
    "greedy, ridge 0.001": ("greedy", {"ridge": 0.001}),
    "ucb-mnl, information, ridge 0.001": ("ucb-mnl", {"scale": 0.05, "ridge": 0.001, **REFITS}),
    "ts-mnl, information, ridge 0.001": ("ts-mnl", {"scale": 0.05, "ridge": 0.001, **REFITS}),
    "ts-mnl": ("ts-mnl", {}),
    "ofu-mnl": ("ofu-mnl", {}),
}


def main() -> None:
    """Run the candidates in every world, or in the worlds named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study")
    parser.add_argument("worlds", nargs="*", help="Prefixes of world names; all worlds by default.")
    parser.add_argument("--replicates", type=int, default=6)
    parser.add_argument("--candidates", default="", help="Run candidates whose names contain this; all by default.")
    given = parser.parse_args()
    study = study_named(given.study)
    for world in study.worlds:
        if not given.worlds or any(world["name"].startswith(begin) for begin in given.worlds):
            shares = losses(world, seed=study.tuning_seed or study.seed, given=given)
            print(f"{world['name']:32}", "; ".join(f"{name} {text}" for name, text in shares.items()), flush=True)


def losses(world: dict[str, Any], *, seed: int, given: argparse.Namespace) -> dict[str, str]:
    """The loss of each candidate in percent of random offers': mean over runs, and the worst run."""
    chosen = {name: maker for name, maker in CANDIDATES.items() if given.candidates in name}
    contestants = [contestant(name, label=label, **options) for label, (name, options) in chosen.items()]
    size = {"horizon": world["horizon"], "replicates": given.replicates, "seed": seed}
    result = simulate(make_world(world), [*contestants, "uniform"], checkpoints=1, **size)
    share = {label: 100 * result.regret[label] / result.regret["uniform"] for label in chosen}
    return {label: f"{value.mean():.2f} ({value.max():.1f})" for label, value in share.items()}


if __name__ == "__main__":
    main()
