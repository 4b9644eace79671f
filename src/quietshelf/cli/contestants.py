"""Options that ``simulate`` and ``replay`` share: which policies take part, and at which budgets."""

from __future__ import annotations

from typing import Annotated, get_args

import numpy as np
import typer

from quietshelf.cli.console import listed, numbers
from quietshelf.model.types import one_of
from quietshelf.privacy.release import epsilon_delta, perturbation_cost
from quietshelf.privacy.release.noise import Simulated
from quietshelf.research.loop import Contestant, World
from quietshelf.research.loop.named import GEOMETRIES, SPECS, MakeDpmnl, contestant

USUAL = ("quiet", "greedy", "uniform")
CALIBRATIONS = dict.fromkeys((*get_args(perturbation_cost.Calibration), *get_args(epsilon_delta.Calibration)))
"""Calibrations of the paper's policy and of its benchmark, each of which has one the other lacks."""
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"Policies, comma-separated or one per option: {', '.join(SPECS)}.",
        autocompletion=lambda: list(SPECS),
        show_default=",".join(USUAL),
    ),
]
Budgets = Annotated[
    list[str] | None,
    typer.Option(
        "--rho",
        help="Privacy budgets (zCDP), comma-separated; every private policy runs at every budget.",
        show_default="1",
    ),
]


def parse_contestants(
    policies: list[str] | None, budgets: list[str] | None, geometry: str = "declared", calibration: str = "sound"
) -> tuple[dict[str, str], list[Contestant]]:
    """Make the contestants, private policies once per rho; also return the policy name behind each label."""
    one_of("geometry", geometry, GEOMETRIES)
    one_of("calibration", calibration, CALIBRATIONS)
    rhos = numbers("rho", listed(budgets or ["1"]))
    made = []
    for name in listed(policies or list(USUAL)):
        if name in SPECS and SPECS[name].private:
            options = {"geometry": geometry} if name == "quiet" else {"calibration": calibration}
            made += [(name, contestant(name, rho=rho, **options)) for rho in rhos]
        else:
            made.append((name, contestant(name)))
    return {each.label: name for name, each in made}, [each for _, each in made]


def check_calibrations(world: World, contestants: list[Contestant], *, horizon: int) -> None:
    """Refuse, before simulating, a budget that one of the paper's policies cannot be calibrated for."""
    for each in contestants:
        if isinstance(each.curator, MakeDpmnl):
            source = Simulated(np.random.default_rng(0))
            try:
                each.curator.config.plan(dim=world.dim, capacity=world.capacity, horizon=horizon, source=source)
            except ValueError as error:
                shop = f"d={world.dim}, K={world.capacity}, T={horizon}"
                advice = "a rho this large protects nobody: lower --rho or leave out the policy"
                raise ValueError(f"{each.label} cannot be calibrated for {shop}: {error}; {advice}") from error
