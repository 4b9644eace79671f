"""``quietshelf simulate``: any policies, in any synthetic world, at any rho."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from quietshelf.accounting import epsilon_of
from quietshelf.cli.console import number, out, progress, talk
from quietshelf.environments import Synthetic
from quietshelf.loop import Contestant, Result, summary
from quietshelf.loop import simulate as run
from quietshelf.loop.named import MAKERS, PRIVATE, contestant
from quietshelf.report import regret_curves
from quietshelf.report.style import can_draw

FLOOR = ("greedy", "ucb-mnl", "ts-mnl", "ofu-mnl")
"""Without privacy; the best of those that take part is the floor that others are measured against."""


def simulate(
    policy: Annotated[
        str, typer.Option(help=f"Policies, separated by commas: {', '.join(MAKERS)}.")
    ] = "quiet,greedy,uniform",
    rho: Annotated[str, typer.Option(help="Budgets of the private policies, separated by commas.")] = "1",
    items: Annotated[int, typer.Option(help="Items in the shop, N.")] = 100,
    capacity: Annotated[int, typer.Option(help="The most items shown at once, K.")] = 10,
    dim: Annotated[int, typer.Option(help="Length of theta, d.")] = 5,
    contexts: Annotated[str, typer.Option(help="normal (as in the paper) or clipped (to the unit ball).")] = "clipped",
    scale: Annotated[float, typer.Option(help="Multiplies the features.")] = 1.0,
    fixed: Annotated[bool, typer.Option(help="Items look the same to every visitor.")] = False,
    revenue: Annotated[str, typer.Option(help="equal or uniform.")] = "equal",
    theta: Annotated[
        str, typer.Option(help="True tastes, numbers separated by commas; uniform draws them.")
    ] = "uniform",
    drift: Annotated[float, typer.Option(help="Step of the tastes after every visitor.")] = 0.0,
    geometry: Annotated[str, typer.Option(help="declared, or unknown to let quiet guess I/d.")] = "declared",
    calibration: Annotated[
        str, typer.Option(help="sound, or paper for the printed constants of dpmnl and dpmnl-eps-delta.")
    ] = "sound",
    horizon: Annotated[int, typer.Option(help="Visitors in each replicate, T.")] = 2000,
    replicates: Annotated[int, typer.Option(help="Independent worlds.")] = 20,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal results, on any number of workers.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; 0 for one a core.")] = 0,
    curve: Annotated[Path | None, typer.Option(help="Draw regret over time to this file (png, svg or pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Let policies serve the same simulated visitors and compare what each of them loses.

    Example: quietshelf simulate --policy quiet,greedy,uniform --rho 0.1,1 --horizon 5000 --curve regret.png
    """
    world = Synthetic(
        items=items,
        capacity=capacity,
        dim=dim,
        contexts=contexts,
        scale=scale,
        fixed=fixed,
        revenue=revenue,
        theta=theta if theta == "uniform" else tuple(_numbers("theta", theta)),
        drift=drift,
    )
    contestants = parse_contestants(policy, rho, geometry, calibration)
    if curve is not None:
        can_draw(curve)
    with progress("simulating", unit="visitors") as moved:
        result = run(
            world,
            contestants,
            horizon=horizon,
            replicates=replicates,
            seed=seed,
            workers=workers or os.cpu_count() or 1,
            progress=moved,
        )
    rows = lines(result, {c.label: name for c, name in zip(contestants, _names(policy, rho), strict=True)})
    if as_json:
        typer.echo(json.dumps(_plain({"horizon": horizon, "replicates": replicates, "seed": seed, "policies": rows})))
    else:
        out.print(table(rows, horizon=horizon))
    if curve is not None:
        talk.print(
            f"drawn: {regret_curves(result, curve, title=f'{items} items, {capacity} shown, {contexts} contexts')}"
        )


def parse_contestants(
    policy: str, rho: str, geometry: str = "declared", calibration: str = "sound"
) -> list[Contestant]:
    """Every policy named, private ones once for each rho."""
    quiet: dict[str, Any] = {} if geometry == "declared" else {"geometry": geometry}
    paper: dict[str, Any] = {} if calibration == "sound" else {"calibration": calibration}
    budgets = _numbers("rho", rho)
    made = []
    for name in (text.strip() for text in policy.split(",")):
        if name in PRIVATE:
            made += [contestant(name, rho=budget, **(quiet if name == "quiet" else paper)) for budget in budgets]
        else:
            made.append(contestant(name))
    return made


def lines(result: Result, names: dict[str, str]) -> list[dict[str, Any]]:
    """One line a contestant: regret with its error, ratio to the floor, proven rho and epsilon, speed."""
    lowest = min((s.mean for s in summary(result) if names[s.label] in FLOOR), default=math.nan)
    delta = 1.0 / max(result.horizon, 2) ** 2
    found = []
    for line in summary(result):
        spent = max((ledger.rho for ledger in result.ledgers[line.label]), default=math.inf)
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


def table(rows: list[dict[str, Any]], *, horizon: int) -> Table:
    """The lines as a person reads them."""
    drawn = Table(
        title=f"revenue lost after {horizon:,} visitors (regret; less is better)",
        caption="floor: the best policy without privacy; ε at δ = 1/T²",
    )
    drawn.add_column("policy", no_wrap=True)
    for heading in ("regret", "± s.e.", "× floor", "proven ρ", "ε", "visitors/s"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        figures = ("regret", "standard_error", "ratio_to_floor", "rho", "epsilon", "rounds_per_second")
        drawn.add_row(row["policy"], *(number(row[name]) for name in figures))
    return drawn


def _names(policy: str, rho: str) -> list[str]:
    copies = len(rho.split(","))
    return [name for text in policy.split(",") for name in [text.strip()] * (copies if text.strip() in PRIVATE else 1)]


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers separated by commas, got {name}={text!r}") from None


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: the one becomes a word, the other null."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "infinity" if value > 0 else None
    return value
