"""``quietshelf replay``: what would each policy have earned on a log?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from quietshelf.cli import log_options as logs
from quietshelf.cli.console import Json, Separator, figures, out, progress, strict_json
from quietshelf.cli.contestants import Budgets, Policies, parse_contestants
from quietshelf.report.numbers import number

NOT_PRIVATE = (
    "Not private, whatever the policies promise: these figures come from the raw log. Do not publish them as private."
)

Capacity = Annotated[int | None, typer.Option(help="Items shown at once; by default the most that the log showed.")]
Ridge = Annotated[float, typer.Option(help="Ridge penalty of the tastes that are fitted.")]
Horizon = Annotated[int, typer.Option(help="Simulated visitors per replicate.")]
Replicates = Annotated[int, typer.Option(help="Independent simulations.")]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal results.")]


def replay(
    log: logs.LogFile,
    policy: Policies = None,
    rho: Budgets = None,
    feature_map: logs.MapName = "concat",
    scales: logs.Scales = "",
    schema: logs.SchemaFile = None,
    capacity: Capacity = None,
    ridge: Ridge = 1.0,
    horizon: Horizon = 2000,
    replicates: Replicates = 10,
    seed: Seed = 0,
    column: logs.Columns = None,
    separator: Separator = None,
    wide: logs.Wide = False,
    workers: logs.Workers = None,
    cluster: logs.ClusterAddress = None,
    as_json: Json = False,
) -> None:
    """Estimate what each policy would have earned: in a world fitted to a log, and by replay where the log allows it.

    Example: quietshelf replay log.csv --policy quiet,greedy,uniform --rho 0.5,1
    """
    from quietshelf.model.choice.maps import feature_map as named

    _, contestants = parse_contestants(policy, rho)
    chosen_map = named(feature_map)
    means = logs.Meaning(scales=scales, schema=schema, columns=column, separator=separator, wide=wide)
    with logs.reading(log, exact=True, workers=workers, cluster=cluster) as in_parts:
        declared = logs.declared_log(log, chosen_map, means, in_parts=in_parts)
        _check(declared, log)
        prepare = _in_memory if in_parts is None else _in_parts
        world, items, answers = prepare(
            declared.log, chosen_map, contestants, ridge=ridge, capacity=capacity, seed=seed
        )
        rows = _simulated(world, contestants, horizon=horizon, replicates=replicates, seed=seed, bar=in_parts is None)
        for row, found in zip(rows, answers, strict=True):
            row |= {name: each if isinstance(each, str) else asdict(each) for name, each in found.items()}
    answer: dict[str, Any] = {"private": False, "statement": NOT_PRIVATE, "items": items, "policies": rows}
    answer |= in_parts.report.figures() if in_parts else {}
    if as_json:
        typer.echo(strict_json(answer))
    else:
        _print(answer, horizon)


def _check(declared: Any, log: Any) -> None:
    """Refuse searches of hotels, and warn about undeclared scales."""
    from quietshelf.data.logs.searches import Searches

    if isinstance(declared.log, Searches):
        rule = "replay needs a log in long or wide format; hotels have `quietshelf reproduce hotels --data`"
        raise ValueError(f"{rule}, got log={str(log)!r}")
    logs.warn_unscaled(declared)


def _in_memory(
    log: Any, chosen_map: Any, contestants: list[Any], *, ridge: float, capacity: int | None, seed: int
) -> tuple[Any, str, Iterator[Any]]:
    """The world fitted to a log, what it offers, and the replay of each contestant."""
    from quietshelf.research.environments.replay import world_of
    from quietshelf.research.loop import SimulationContext
    from quietshelf.research.loop.replaying import replayable, replays

    world = world_of(log, chosen_map, ridge=ridge, capacity=capacity)
    setting = SimulationContext(world=world, worlds=1, horizon=len(log), tastes=lambda: world.theta[None])
    ready = partial(replayable, log, log.offerable(chosen_map))
    return world, _items(log.candidates), (replays(ready, one, setting, seed=seed) for one in contestants)


def _in_parts(
    log: Any, _: Any, contestants: list[Any], *, ridge: float, capacity: int | None, seed: int
) -> tuple[Any, str, Iterator[Any]]:
    """The same for a log in partitions; contestants are replayed in parallel."""
    from quietshelf.research.loop.replaying_parts import (
        WORLD_ROUNDS,
        PartitionedReplay,
        answers_of,
        replay_facts,
        world_of_parts,
    )

    facts = replay_facts(log)
    world = world_of_parts(log, facts, ridge=ridge, capacity=capacity, seed=seed)
    replay = PartitionedReplay(log.partitions, log.form, facts)
    job = partial(answers_of, replay=replay, world=world, horizon=log.rounds, seed=seed)
    sampled = f" ({WORLD_ROUNDS:,} rounds drawn from {log.rounds:,})" if log.rounds > WORLD_ROUNDS else ""
    return world, _items(facts.candidates) + sampled, log.executor(job, contestants)


def _items(candidates: bool) -> str:
    return "candidates of each round" if candidates else "every item of the log, at its average"


def _simulated(
    world: Any, contestants: list[Any], *, horizon: int, replicates: int, seed: int, bar: bool
) -> list[dict[str, Any]]:
    from quietshelf.research.loop import simulate, summary

    with progress("simulating", unit="visitors") if bar else nullcontext() as moved:  # else a bar is shown already
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
    replayed = ("replay, rejection [95 %]", "replay, inverse propensity [95 %]")
    drawn = Table(
        Column("policy", no_wrap=True),
        *figures("simulated ± s.e.", *replayed, "effective sample"),
        title=f"revenue per visitor, not private (simulated over {horizon:,} visitors)",
        caption=f"best possible in the simulated world: {number(rows[0]['best_possible'])}",
    )
    for row in rows:
        replays = [row["rejection"], row["inverse_propensity"]]
        cells = ["no answer" if isinstance(r, str) else _interval(r) for r in replays]
        sizes = " / ".join("-" if isinstance(r, str) else f"{r['effective']:.0f}" for r in replays)
        drawn.add_row(row["policy"], f"{number(row['simulated'])} ± {number(row['simulated_error'], 2)}", *cells, sizes)
    return drawn


def _interval(found: dict[str, Any]) -> str:
    return f"{number(found['value'])} [{number(found['low'])}, {number(found['high'])}]"
