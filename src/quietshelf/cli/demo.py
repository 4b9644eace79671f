"""``quietshelf demo``: the product in two minutes."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from quietshelf.cli.console import (
    Json,
    Workers,
    figures,
    out,
    processes,
    progress,
    promised,
    say,
    strict_json,
    writable,
)
from quietshelf.cli.interrupts import NOTHING_KEPT, stoppable
from quietshelf.demo import shop
from quietshelf.demo.page import demo_page
from quietshelf.demo.story import Demonstration, plain, story
from quietshelf.privacy.accounting import DELTA
from quietshelf.report.numbers import number
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.experiments.revenue import best_revenue
from quietshelf.research.loop import Contestant, Result
from quietshelf.research.loop import simulate as run


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Output folder.")] = Path("out/demo"),
    horizon: Annotated[int, typer.Option(min=1, help="Visitors to each simulated shop.")] = 10_000,
    replicates: Annotated[int, typer.Option(min=2, help="Independent simulated shops.")] = 20,
    visitors: Annotated[int, typer.Option(min=1, help="Visitors that the real shelf serves.")] = 4_000,
    runs: Annotated[int, typer.Option(help="Runs of the audit in each of its two worlds.")] = 1_000,
    workers: Workers = 0,
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the report in a browser, if there is one.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Show what Quietshelf does in two minutes: a shop, the price of privacy, the promise, an audit, a report.

    Example: quietshelf demo --out my-demo
    """
    writable(folder / "report.html")
    with stoppable(NOTHING_KEPT):
        found = _demonstrate(visitors, horizon, replicates, runs, processes(workers))
        page = demo_page(folder / "report.html", story(found))
    if as_json:
        typer.echo(strict_json({**plain(found), "report": str(page)}))
    else:
        _print(found)
    _show(page, wanted=show and not as_json)


def _demonstrate(visitors: int, horizon: int, replicates: int, runs: int, workers: int) -> Demonstration:
    begin = time.monotonic()
    served = _serve(visitors)
    size = (horizon, replicates, workers)
    result = _contest("2. {} shops, {} policies", shop.WORLD, shop.contestants(), *size)
    paper = _contest("   {} of the paper's, {} policies", shop.PAPER_WORLD, shop.paper_contestants(), *size)
    worth, paper_worth = (
        best_revenue(world, replicates=replicates, seed=shop.SEED) for world in (shop.WORLD, shop.PAPER_WORLD)
    )
    with progress("3. attacking this very shop", unit="attacks") as moved:
        findings = shop.audit_all(runs=runs, progress=moved)
    return Demonstration(
        served=served,
        result=result,
        worth=worth,
        paper=paper,
        paper_worth=paper_worth,
        findings=findings,
        seconds=time.monotonic() - begin,
    )


def _serve(visitors: int) -> shop.Served:
    with progress("1. a shop opens", unit="visitors") as moved:

        def watch(served: shop.Served) -> None:
            lately = served.share(0, len(served.visits))
            note = f"release {served.visits[-1].release}, {100 * lately:.1f} % of the best revenue lately"
            moved(served.shelf.arrivals, visitors, note)

        return shop.serve(visitors, watch=watch)


def _contest(
    title: str, world: Shop | Synthetic, contestants: list[Contestant], horizon: int, replicates: int, workers: int
) -> Result:
    with progress(title.format(replicates, len(contestants)), unit="visitors") as moved:
        return run(
            world,
            contestants,
            horizon=horizon,
            replicates=replicates,
            seed=shop.SEED,
            workers=workers,
            progress=moved,
        )


def _print(found: Demonstration) -> None:
    world, share = shop.WORLD, f"{100 * shop.WORLD.conversion_rate:.3g} % buy from random offers"
    title = f"{world.items} products, {world.capacity} shown, {found.result.horizon:,} visitors, {share}"
    headings = ("revenue lost", "± 95 %", "of the best", "proven ρ", f"ε at δ = {DELTA:g}")
    drawn = Table(Column("policy", no_wrap=True), *figures(*headings, no_wrap=True), title=title)
    for line in found.lines:
        regret, lost = map(number, line.regret), f"{100 * line.lost.mean:.2f} %"
        drawn.add_row(line.label, *regret, lost, promised(line.rho), promised(line.epsilon))
    out.print(drawn)
    kept, paper = found.kept, found.paper_kept
    out.print(
        f"The price of privacy: quiet earns {100 * kept.mean:.2f} ± {100 * kept.half:.2f} % of the revenue without it, "
        f"in the paper's world, where nearly everybody buys, {100 * paper.mean:.2f} ± {100 * paper.half:.2f} %."
    )
    for row in story(found).attacks:
        attacked, pair, alarms, recognised, allowed, word = row
        found_out = f"{recognised} recognised at {alarms} false alarms, {allowed} allowed: {word}."
        out.print(f"Attack on {attacked} ({pair}): {found_out}", markup=False, highlight=False)


def _show(page: Path, *, wanted: bool) -> None:
    """Print where the page is, and open it if there is a screen."""
    say(f"report: {page.resolve()}")
    screen = sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if wanted and screen and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
