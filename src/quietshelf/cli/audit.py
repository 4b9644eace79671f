"""``quietshelf audit``: attack private policies and mechanisms, and compare the measured loss with the claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from quietshelf.cli.console import Json, Workers, listed, out, processes, progress, say, strict_json, writable
from quietshelf.cli.console import figures as columns
from quietshelf.model.types import positive
from quietshelf.privacy.accounting.figures import rounded_down
from quietshelf.research.auditing.audit_report import deltas, figures, page, plain
from quietshelf.research.auditing.mechanisms import MECHANISMS
from quietshelf.research.auditing.plan import (
    RUNS,
    THOROUGH_POLICIES,
    THOROUGH_RUNS,
    Audit,
    Task,
    run_audit,
    tasks,
    usual,
)
from quietshelf.research.auditing.verdicts import summary, verdict
from quietshelf.research.loop.named import SPECS

Policy = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Attack only these policies, comma-separated or one per option: {', '.join(THOROUGH_POLICIES)}.",
        autocompletion=lambda: list(SPECS),
    ),
]
Mechanism = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Audit only these mechanisms, comma-separated or one per option: {', '.join(MECHANISMS)}.",
        autocompletion=lambda: [*MECHANISMS],
    ),
]
Rho = Annotated[float, typer.Option(help="The claimed budget rho (zCDP), which the audit tests.")]
Runs = Annotated[int | None, typer.Option(help=f"Runs in each of a test's two worlds; {RUNS:,} by default.")]
Thorough = Annotated[
    bool, typer.Option("--thorough", help=f"Test every calibration and policy, with {THOROUGH_RUNS:,} runs each.")
]
Seed = Annotated[int, typer.Option(help="Seed of simulated noise; a real shelf's noise is never seeded.")]
Report = Annotated[Path | None, typer.Option(help="Write the findings as one HTML page.")]


def audit(
    policy: Policy = None,
    mechanism: Mechanism = None,
    rho: Rho = 1.0,
    runs: Runs = None,
    thorough: Thorough = False,
    seed: Seed = 0,
    workers: Workers = 0,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Measure what leaks and compare it with what is promised; exit status 1 if a promise is refuted.

    Example: quietshelf audit --policy quiet,greedy --rho 1 --report audit.html
    """
    wanted = _wanted(mechanism, policy, positive("rho", rho), thorough)
    writable(report)
    with progress("auditing", unit="tests") as moved:
        found = run_audit(
            wanted,
            runs=(THOROUGH_RUNS if thorough else RUNS) if runs is None else runs,
            seed=seed,
            workers=processes(workers),
            progress=moved,
        )
    if as_json:
        typer.echo(strict_json(plain(found)))
    else:
        out.print(table(found))
        for line in summary(found):
            out.print(line)
    if report is not None:
        say(f"written: {page(found, report)}")
    if found.refuted:
        raise typer.Exit(1)


def table(found: Audit) -> Table:
    """One row per test: the claim, the measured lower bound, the verdict."""
    caption = f"measured: lower bound on the loss, ε at {deltas(found)}; computed: exact loss between the two worlds"
    right = columns("claim", "measured ≥", "ε ≥", "computed", "verdict", no_wrap=True)
    drawn = Table("audited", "the two worlds", *right, caption=caption)
    for finding in found.findings:
        word = verdict(finding)
        claimed, measured, computed = figures(finding)
        last = f"[red]{word}[/red]" if finding.refuted else word
        drawn.add_row(finding.name, finding.pair, claimed, measured, rounded_down(finding.epsilon), computed, last)
    return drawn


def _wanted(mechanism: list[str] | None, policy: list[str] | None, rho: float, thorough: bool) -> list[Task]:
    if not mechanism and not policy:
        return usual(rho, thorough=thorough)
    return tasks(listed(mechanism or []), listed(policy or []), rho)
