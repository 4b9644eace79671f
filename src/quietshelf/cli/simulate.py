"""``quietshelf simulate``: compare policies in a synthetic world, at any rho."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from quietshelf.cli.console import (
    Capacity,
    Delta,
    Items,
    Json,
    Workers,
    drawable,
    figures,
    listed,
    numbers,
    out,
    processes,
    progress,
    promised,
    say,
    strict_json,
)
from quietshelf.cli.contestants import Budgets, Policies, check_calibrations, parse_contestants
from quietshelf.model.types import integer, require
from quietshelf.privacy.accounting import DELTA, epsilon_of
from quietshelf.report import regret_curves
from quietshelf.report.numbers import number
from quietshelf.report.series import standard_error
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop import Result, World, summary
from quietshelf.research.loop import simulate as run
from quietshelf.research.loop.named import SPECS

FLOOR = tuple(name for name, spec in SPECS.items() if spec.learns and not spec.private)
"""Policies without privacy; the best of those that take part is the floor for the others."""
PAPER_LAW = {"contexts": "clipped", "scale": 1.0, "theta": "uniform", "drift": 0.0}
"""Defaults of the options that only the paper's world has."""
KEPT = (
    "Nothing was kept: a simulation cannot be resumed. `quietshelf reproduce STUDY.toml` keeps finished work and "
    "resumes."
)

Dim = Annotated[int, typer.Option(help="Length of theta, d.")]
Contexts = Annotated[str, typer.Option(help="normal (as in the paper) or clipped (to the unit ball).")]
Scale = Annotated[float, typer.Option(help="Multiply features by this factor.")]
Fixed = Annotated[bool, typer.Option(help="Items look the same to every visitor.")]
Revenue = Annotated[str, typer.Option(help="Revenue per item: equal, or uniform (drawn at random).")]
Theta = Annotated[str, typer.Option(help="True tastes: comma-separated numbers, or uniform to draw them.")]
Drift = Annotated[float, typer.Option(help="Step of the random walk that true tastes take after every visitor.")]
Geometry = Annotated[
    str,
    typer.Option(help="declared: quiet knows the second moments of the features; unknown: it assumes I/d."),
]
Conversion = Annotated[
    float | None,
    typer.Option(
        help="Simulate a shop where this share of visitors buys from random offers (0.03: three in a hundred), "
        "instead of the paper's world; quiet knows the share."
    ),
]
Calibration = Annotated[
    str, typer.Option(help="sound, or paper for the printed constants of dpmnl and dpmnl-eps-delta.")
]
Horizon = Annotated[int, typer.Option(help="Visitors in each replicate, T.")]
Replicates = Annotated[int, typer.Option(help="Independent replicates.")]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal results, on any number of workers.")]
Device = Annotated[
    str, typer.Option(help="Where the visitors of many replicates are scored: cpu, or cuda (PyTorch or CuPy).")
]
Curve = Annotated[Path | None, typer.Option(help="Draw regret over time to this file (png, svg or pdf).")]


def simulate(
    policy: Policies = None,
    rho: Budgets = None,
    items: Items = 100,
    capacity: Capacity = 10,
    dim: Dim = 5,
    contexts: Contexts = "clipped",
    scale: Scale = 1.0,
    fixed: Fixed = False,
    revenue: Revenue = "equal",
    theta: Theta = "uniform",
    drift: Drift = 0.0,
    geometry: Geometry = "declared",
    conversion: Conversion = None,
    calibration: Calibration = "sound",
    horizon: Horizon = 2000,
    replicates: Replicates = 20,
    seed: Seed = 0,
    delta: Delta = DELTA,
    workers: Workers = 0,
    device: Device = "cpu",
    curve: Curve = None,
    as_json: Json = False,
) -> None:
    """Compare what policies lose on the same simulated visitors.

    Example: quietshelf simulate --policy quiet,greedy,uniform --rho 0.1,1 --horizon 5000 --curve regret.png

    Example: quietshelf simulate --policy quiet,greedy,uniform --conversion 0.03 --fixed
    """
    size: dict[str, Any] = {"items": items, "capacity": capacity, "revenue": revenue}
    law: dict[str, Any] = {"contexts": contexts, "scale": scale, "theta": theta, "drift": drift}
    times = {"horizon": horizon, "replicates": replicates, "seed": seed}
    names, contestants = parse_contestants(policy, rho, geometry, calibration)
    world = _world(size, law, conversion, dim=dim, fixed=fixed)
    check_calibrations(world, contestants, horizon=horizon)
    drawable(curve)
    with progress("simulating", unit="visitors", kept=KEPT) as moved:
        result = run(world, contestants, **times, workers=processes(workers), progress=moved, device=device)
    rows = lines(result, names, delta)
    if as_json:
        typer.echo(strict_json({**times, "visitors": result.times, "policies": with_curves(rows, result)}))
    else:
        out.print(table(rows, horizon=horizon, delta=delta))
    if curve is not None:
        kind = f"{contexts} contexts" if conversion is None else f"{100 * conversion:.3g} % buy"
        say(f"drawn: {regret_curves(result, curve, title=f'{items} items, {capacity} shown, {kind}')}")


def _world(size: dict[str, Any], law: dict[str, Any], conversion: float | None, *, dim: int, fixed: bool) -> World:
    """The paper's world; with a conversion, a shop."""
    if conversion is None:
        theta = law["theta"]
        tastes = theta if theta == "uniform" else tuple(numbers("theta", listed([theta])))
        return Synthetic(**size, **{**law, "theta": tastes}, dim=dim, fixed=fixed)
    given = [f"--{name}" for name, value in law.items() if value != PAPER_LAW[name]]
    require(not given, "--conversion replaces the paper's world, which these options belong to", options=given)
    integer("dim", dim, low=2)
    return Shop(**size, conversion_rate=conversion, item_dim=dim - 1, per_visitor=not fixed)


def lines(result: Result, names: dict[str, str], delta: float) -> list[dict[str, Any]]:
    """One line per contestant: regret with its error, ratio to the floor, proven rho and epsilon, speed."""
    lowest = min((s.mean for s in summary(result) if names[s.label] in FLOOR), default=math.nan)
    found = []
    for line in summary(result):
        spent = result.proven_rho(line.label)
        found.append(
            {
                "policy": line.label,
                "regret": line.mean,
                "standard_error": line.standard_error,
                "ratio_to_floor": line.mean / lowest if lowest > 0 else math.nan,
                "rho": spent,
                "delta": delta,
                "epsilon": epsilon_of(spent, delta),
                "rounds_per_second": 1.0 / line.seconds_per_round,
            }
        )
    return found


def table(rows: list[dict[str, Any]], *, horizon: int, delta: float) -> Table:
    """The lines as a table."""
    drawn = Table(
        Column("policy", no_wrap=True),
        *figures("regret", "± s.e.", "× floor", "proven ρ", "ε", "visitors/s", no_wrap=True),
        title=f"revenue lost after {horizon:,} visitors (regret; less is better)",
        caption=f"floor: the best of {', '.join(FLOOR)} here; proven ρ: of the releases made; ε at δ = {delta:g}",
    )
    for row in rows:
        lost = [number(row[name]) for name in ("regret", "standard_error", "ratio_to_floor")]
        spent = promised(row["rho"]), promised(row["epsilon"])
        drawn.add_row(row["policy"], *lost, *spent, number(row["rounds_per_second"]))
    return drawn


def with_curves(rows: list[dict[str, Any]], result: Result) -> list[dict[str, Any]]:
    """The lines with regret over time, mean and standard error at each number of visitors."""
    drawn = []
    for row in rows:
        regret = result.regret[row["policy"]]
        curve = {"regret": regret.mean(axis=0).tolist(), "standard_error": standard_error(regret).tolist()}
        drawn.append({**row, "curve": curve})
    return drawn
