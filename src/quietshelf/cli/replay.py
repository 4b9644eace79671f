"""``quietshelf replay``: what would each policy have earned on a log?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from quietshelf.cli.console import Json, out, progress, strict_json
from quietshelf.cli.simulate import Budgets, Policies, parse_contestants
from quietshelf.report.numbers import number

NOT_PRIVATE = (
    "Not private: these figures come from the raw log, whatever the policy promises. Do not publish them as private."
)


def replay(
    log: Annotated[Path, typer.Argument(help="A log: CSV or Parquet in long format.")],
    policy: Policies = None,
    rho: Budgets = None,
    feature_map: Annotated[str, typer.Option("--map", help="item, concat, outer or full.")] = "concat",
    scales: Annotated[str, typer.Option(help="NAME=SPREAD or NAME=CENTRE:SPREAD of every feature.")] = "",
    capacity: Annotated[
        int | None, typer.Option(help="Items shown at once; as many as the log showed at most.")
    ] = None,
    ridge: Annotated[float, typer.Option(help="Pull of the world's tastes towards zero.")] = 1.0,
    horizon: Annotated[int, typer.Option(help="Simulated visitors.")] = 2000,
    replicates: Annotated[int, typer.Option(help="Independent simulations.")] = 10,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal results.")] = 0,
    wide: Annotated[bool, typer.Option(help="The log is in wide format: one row a round.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate policies in a world fitted on a log, and replay the log itself where it can answer.

    Example: quietshelf replay log.csv --policy quiet,greedy,uniform --rho 0.5,1
    """
    from quietshelf.choice.maps import feature_map as named
    from quietshelf.environments.replay import world_of
    from quietshelf.logs.encoded import parse_scales, read_any, scaled
    from quietshelf.logs.log import Log

    given = read_any(log, wide=wide)
    declared = parse_scales(scales)
    given = scaled(given, declared) if declared else given
    if not isinstance(given, Log):
        rule = "replay needs a log in long or wide format; searches of hotels have `quietshelf reproduce hotels --data`"
        raise ValueError(f"{rule}, got log={str(log)!r}")
    chosen_map = named(feature_map)
    world = world_of(given, chosen_map, ridge=ridge, capacity=capacity)
    _, contestants = parse_contestants(policy, rho)
    rows = _simulated(world, contestants, horizon=horizon, replicates=replicates, seed=seed)
    _replayed(rows, given, chosen_map, world, contestants, seed)
    items = "candidates of each round" if given.candidates else "every item of the log, at its average"
    answer = {"private": False, "statement": NOT_PRIVATE, "items": items, "policies": rows}
    if as_json:
        typer.echo(strict_json(answer))
        return
    out.print(_table(rows, horizon))
    for row in rows:
        for name in ("rejection", "inverse_propensity"):
            if isinstance(row[name], str):
                out.print(f"{row['policy']}, {name.replace('_', ' ')}: no answer: {row[name]}", markup=False)
    out.print(f"The simulated world offers {items}.")
    out.print(NOT_PRIVATE)


def _simulated(world: Any, contestants: list[Any], *, horizon: int, replicates: int, seed: int) -> list[dict[str, Any]]:
    from quietshelf.loop import simulate, summary

    with progress("simulating", unit="visitors") as moved:
        result = simulate(world, contestants, horizon=horizon, replicates=replicates, seed=seed, progress=moved)
    best = float(world.population().best.mean())
    return [
        {
            "policy": line.label,
            "simulated": best - line.mean / horizon,
            "simulated_error": line.standard_error / horizon,
            "best_possible": best,
        }
        for line in summary(result)
    ]


def _replayed(
    rows: list[dict[str, Any]], log: Any, chosen_map: Any, world: Any, contestants: list[Any], seed: int
) -> None:
    """Add both answers of the log itself to each row: figures, or the reason why there are none."""
    from numpy.random import SeedSequence

    from quietshelf.loop import Setting
    from quietshelf.loop.replaying import Unsupported, inverse_propensity, rejection, replayable
    from quietshelf.types import Streams

    for row, contestant in zip(rows, contestants, strict=True):
        noise, chance, thinning = (Streams([child]) for child in SeedSequence(seed).spawn(3))
        for name in ("rejection", "inverse_propensity"):
            try:
                ready = replayable(log, log.offerable(chosen_map))
                setting = Setting(world=world, worlds=1, horizon=len(log), tastes=lambda: world.theta[None])
                curator = contestant.curator(setting, noise)
                if name == "rejection":
                    found = rejection(ready, contestant.policy, curator, chance=chance, thinning=thinning)
                else:
                    found = inverse_propensity(ready, contestant.policy, curator, chance=chance)
                row[name] = asdict(found)
            except Unsupported as reason:
                row[name] = str(reason)


def _table(rows: list[dict[str, Any]], horizon: int) -> Table:
    drawn = Table(
        title=f"revenue a visitor, not private (simulated over {horizon:,} visitors)",
        caption=f"best possible in the simulated world: {number(rows[0]['best_possible'])}",
    )
    drawn.add_column("policy", no_wrap=True)
    for heading in (
        "simulated ± s.e.",
        "replay, rejection [95 %]",
        "replay, inverse propensity [95 %]",
        "effective sample",
    ):
        drawn.add_column(heading, justify="right")
    for row in rows:
        replays = [row["rejection"], row["inverse_propensity"]]
        cells = ["no answer" if isinstance(r, str) else _interval(r) for r in replays]
        sizes = " / ".join("-" if isinstance(r, str) else f"{r['effective']:.0f}" for r in replays)
        drawn.add_row(row["policy"], f"{number(row['simulated'])} ± {number(row['simulated_error'], 2)}", *cells, sizes)
    return drawn


def _interval(found: dict[str, Any]) -> str:
    return f"{number(found['value'])} [{number(found['low'])}, {number(found['high'])}]"
