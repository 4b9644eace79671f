"""``quietshelf replay``: what would each policy have earned on a log?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from quietshelf.cli.console import Json, out, progress, strict_json
from quietshelf.cli.contestants import Budgets, Policies, parse_contestants
from quietshelf.cli.log_options import (
    Columns,
    LogFile,
    MapName,
    Scales,
    SchemaFile,
    Separator,
    Wide,
    declared_log,
    warn_unscaled,
)
from quietshelf.report.numbers import number

NOT_PRIVATE = (
    "Not private: these figures come from the raw log, whatever the policy promises. Do not publish them as private."
)


def replay(
    log: LogFile,
    policy: Policies = None,
    rho: Budgets = None,
    feature_map: MapName = "concat",
    scales: Scales = "",
    schema: SchemaFile = None,
    capacity: Annotated[
        int | None, typer.Option(help="Items shown at once; as many as the log showed at most.")
    ] = None,
    ridge: Annotated[float, typer.Option(help="Pull of the world's tastes towards zero.")] = 1.0,
    horizon: Annotated[int, typer.Option(help="Simulated visitors.")] = 2000,
    replicates: Annotated[int, typer.Option(help="Independent simulations.")] = 10,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal results.")] = 0,
    column: Columns = None,
    separator: Separator = None,
    wide: Wide = False,
    as_json: Json = False,
) -> None:
    """Simulate policies in a world fitted on a log, and replay the log itself where it can answer.

    Example: quietshelf replay log.csv --policy quiet,greedy,uniform --rho 0.5,1
    """
    from quietshelf.choice.maps import feature_map as named
    from quietshelf.environments.replay import world_of
    from quietshelf.logs.log import Log
    from quietshelf.loop import Setting
    from quietshelf.loop.replaying import replays

    _, contestants = parse_contestants(policy, rho)
    chosen_map = named(feature_map)
    declared = declared_log(
        log, chosen_map, scales=scales, schema=schema, columns=column, separator=separator, wide=wide
    )
    given = declared.log
    if not isinstance(given, Log):
        rule = "replay needs a log in long or wide format; searches of hotels have `quietshelf reproduce hotels --data`"
        raise ValueError(f"{rule}, got log={str(log)!r}")
    warn_unscaled(declared)
    world = world_of(given, chosen_map, ridge=ridge, capacity=capacity)
    rows = _simulated(world, contestants, horizon=horizon, replicates=replicates, seed=seed)
    candidates = given.offerable(chosen_map)
    setting = Setting(world=world, worlds=1, horizon=len(given), tastes=lambda: world.theta[None])
    for row, entrant in zip(rows, contestants, strict=True):
        answers = replays(given, candidates, entrant, setting, seed=seed)
        row |= {name: found if isinstance(found, str) else asdict(found) for name, found in answers.items()}
    items = "candidates of each round" if given.candidates else "every item of the log, at its average"
    answer: dict[str, Any] = {"private": False, "statement": NOT_PRIVATE, "items": items, "policies": rows}
    if as_json:
        typer.echo(strict_json(answer))
    else:
        _print(answer, horizon)


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


def _print(answer: dict[str, Any], horizon: int) -> None:
    out.print(_table(answer["policies"], horizon))
    for row in answer["policies"]:
        for name in ("rejection", "inverse_propensity"):
            if isinstance(row[name], str):
                out.print(f"{row['policy']}, {name.replace('_', ' ')}: no answer: {row[name]}", markup=False)
    out.print(f"The simulated world offers {answer['items']}.")
    out.print(answer["statement"])


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
