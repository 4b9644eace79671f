"""``quietshelf plan``: what a privacy budget will cost a shop, before it opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from quietshelf.cli.console import (
    Capacity,
    Delta,
    Items,
    Json,
    Workers,
    drawable,
    figures,
    out,
    processes,
    progress,
    say,
    strict_json,
    writable,
)
from quietshelf.curation.prior_file import PriorFile
from quietshelf.model.types import require
from quietshelf.privacy.accounting import DELTA, rho_from
from quietshelf.privacy.accounting.figures import rounded_up
from quietshelf.report.plan_page import plan_page, plan_plot
from quietshelf.research.experiments.plan_report import PlanTable, advice, headline, plain, price_curves, tables
from quietshelf.research.experiments.planning import Planned, Wish
from quietshelf.research.experiments.planning import plan as run

Dim = Annotated[
    int | None,
    typer.Option(help="Features of a product and an intercept, d.", show_default="6, or that of the prior"),
]
Conversion = Annotated[
    float,
    typer.Option(help="Share of visitors who buy from random offers; your present conversion is close enough."),
]
Visitors = Annotated[int, typer.Option(help="Visitors expected over the shelf's lifetime.")]
Epsilon = Annotated[
    float | None,
    typer.Option(help="The promise to one person, at --delta; includes the log behind --prior."),
]
Rho = Annotated[
    float | None,
    typer.Option(help="The promise in zCDP, instead of --epsilon; the cost of --prior comes on top.", show_default="1"),
]
Returns = Annotated[float, typer.Option(help="Visits per person; 1 if you have no person ids.")]
Shelves = Annotated[int, typer.Option(help="How many shelves the same people visit: their budgets add up.")]
Prior = Annotated[Path | None, typer.Option(help="A file of `quietshelf fit --prior` that the shelf will start from.")]
AllowDataDependent = Annotated[
    bool, typer.Option("--allow-data-dependent", help="Take a prior that is not private; rho is infinite.")
]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal plans.")]
Plot = Annotated[Path | None, typer.Option(help="Plot the cost of each budget (png, svg or pdf).")]
Report = Annotated[Path | None, typer.Option(help="Write the plan as one HTML page.")]


def plan(
    items: Items = 100,
    capacity: Capacity = 10,
    dim: Dim = None,
    conversion: Conversion = 0.03,
    visitors: Visitors = 10_000,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = DELTA,
    returns: Returns = 1.0,
    shelves: Shelves = 1,
    prior: Prior = None,
    allow_data_dependent: AllowDataDependent = False,
    seed: Seed = 0,
    workers: Workers = 0,
    plot: Plot = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Estimate what a promise costs your shop: time until useful, revenue, other budgets, the person cap, noise.

    Example: quietshelf plan --items 500 --capacity 8 --conversion 0.05 --visitors 20000 --epsilon 2 --report plan.html
    """
    require(epsilon is None or rho is None, "give epsilon or rho, not both", epsilon=epsilon, rho=rho)
    log = None if prior is None else PriorFile.load(prior, allow_not_private=allow_data_dependent)
    beside = 0.0 if log is None else log.rho
    wished = rho_from(None, epsilon, delta, log=beside) if epsilon is not None else 1.0 if rho is None else rho
    length = dim if dim is not None else 6 if log is None else len(log.theta)
    shop: dict[str, Any] = {"items": items, "capacity": capacity, "dim": length, "conversion": conversion}
    visits: dict[str, Any] = {"visitors": visitors, "returns": returns, "shelves": shelves}
    wish = Wish(**shop, **visits, log=log, rho=wished, delta=delta, seed=seed)
    drawable(plot)
    writable(report)
    with progress("planning", unit="visitors") as moved:
        found = run(wish, workers=processes(workers), progress=moved)
    if as_json:
        typer.echo(strict_json(plain(found)))
    else:
        _print(found)
    _write(found, plot, report)


def _print(found: Planned) -> None:
    for each in tables(found):
        out.print(_table(each))
    for line in advice(found):
        out.print(f"• {line}", markup=False, highlight=False)


def _table(given: PlanTable) -> Table:
    first, *others = given.head
    left: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}
    drawn = Table(first, *figures(*others), title=given.title, caption=given.note, **left)
    for row in given.rows:
        drawn.add_row(*row)
    return drawn


def _write(found: Planned, plot: Path | None, report: Path | None) -> None:
    wish = found.wish
    came = f"{wish.visitors:,} visitors" + (f", {found.horizon:,} simulated" if found.horizon < wish.visitors else "")
    shop = f"{wish.capacity} of {wish.items:,} items shown, d = {wish.dim}, {100 * wish.conversion:.3g} % buy, {came}"
    if plot is not None:
        say(f"drawn: {plan_plot(price_curves(found), plot, title=shop)}")
    if report is not None:
        lead = f"{shop}, ρ = {rounded_up(wish.rho_with_log)}. Simulated visitors; none of yours were needed."
        number, conclusion = headline(found)
        page = plan_page(
            report,
            lead=lead,
            number=number,
            conclusion=conclusion,
            advice=advice(found)[1:],
            curves=price_curves(found),
            tables=tables(found),
        )
        say(f"written: {page}")
