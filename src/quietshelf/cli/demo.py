"""``quietshelf demo``: the product in two minutes."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from quietshelf.cli.console import Json, Workers, out, processes, progress, promised, say, strict_json, writable
from quietshelf.cli.stopping import NOTHING_KEPT, stoppable
from quietshelf.experiments import demo as shop
from quietshelf.experiments.demo_report import Demonstration, plain, story
from quietshelf.experiments.revenue import best_revenue
from quietshelf.loop import Result
from quietshelf.loop import simulate as run
from quietshelf.report.demo_page import demo_page
from quietshelf.report.numbers import number


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the report goes.")] = Path("out/demo"),
    horizon: Annotated[int, typer.Option(min=1, help="Visitors of each simulated shop.")] = 10_000,
    replicates: Annotated[int, typer.Option(min=2, help="Independent simulated shops.")] = 20,
    visitors: Annotated[int, typer.Option(min=1, help="Visitors of the shop that a real shelf serves.")] = 2_000,
    runs: Annotated[int, typer.Option(help="Of the audit, in each of two worlds.")] = 1_000,
    workers: Workers = 0,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the report where there is a browser.")] = True,
    as_json: Json = False,
) -> None:
    """Show in two minutes what Quietshelf does: a shop, the price of privacy, the promise, an audit, a report.

    Example: quietshelf demo --out my-demo
    """
    writable(folder / "report.html")
    begin, many = time.monotonic(), processes(workers)
    with stoppable(NOTHING_KEPT):
        served = _serve(visitors)
        result = _contest(horizon, replicates, many)
        worth = best_revenue(shop.WORLD, replicates=replicates, seed=shop.SEED)
        with progress("3. attacking this very shop", unit="attacks") as moved:
            findings = shop.audit_all(runs=runs, progress=moved)
        seconds = time.monotonic() - begin
        found = Demonstration(served=served, result=result, worth=worth, findings=findings, seconds=seconds)
        page = demo_page(folder / "report.html", story(found))
    if as_json:
        typer.echo(strict_json({**plain(found), "report": str(page)}))
    else:
        _print(found)
    _show(page, wanted=show and not as_json)


def _serve(visitors: int) -> shop.Served:
    with progress("1. a shop opens", unit="visitors") as moved:

        def watch(served: shop.Served) -> None:
            lately = served.share(0, len(served.visits))
            note = f"release {served.visits[-1].release}, {100 * lately:.1f} % of the best revenue lately"
            moved(served.shelf.arrivals, visitors, note)

        return shop.serve(visitors, watch=watch)


def _contest(horizon: int, replicates: int, workers: int) -> Result:
    entrants = shop.contestants()
    with progress(f"2. {replicates} shops, {len(entrants)} policies", unit="visitors") as moved:
        return run(
            shop.WORLD,
            entrants,
            horizon=horizon,
            replicates=replicates,
            seed=shop.SEED,
            workers=workers,
            progress=moved,
        )


def _print(found: Demonstration) -> None:
    drawn = Table(title=f"{shop.WORLD.items} items, {shop.WORLD.capacity} shown, {found.result.horizon:,} visitors")
    drawn.add_column("policy", no_wrap=True)
    for heading in ("revenue lost", "± 95 %", "of the best", "proven ρ", f"ε at δ = {shop.DELTA:g}"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for line in found.lines:
        lost = f"{100 * line.lost.mean:.2f} %"
        figures = (number(value) for value in (line.regret.mean, line.regret.half))
        drawn.add_row(line.label, *figures, lost, promised(line.rho), promised(line.epsilon))
    out.print(drawn)
    kept = found.kept
    out.print(
        f"The price of privacy: quiet earns {100 * kept.mean:.2f} ± {100 * kept.half:.2f} % of the revenue without it."
    )
    for row in story(found).attacks:
        attacked, pair, alarms, recognised, allowed, word = row
        found_out = f"{recognised} recognised at {alarms} false alarms, {allowed} allowed: {word}."
        out.print(f"Attack on {attacked} ({pair}): {found_out}", markup=False, highlight=False)


def _show(page: Path, *, wanted: bool) -> None:
    """Open the page for somebody who sits in front of a screen; tell everybody where it is."""
    say(f"report: {page.resolve()}")
    screen = sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if wanted and screen and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
