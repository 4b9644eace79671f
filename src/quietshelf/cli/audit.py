"""``quietshelf audit``: attack what claims to be private, and compare what was lost with what was promised."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from quietshelf import __version__
from quietshelf.accounting.figures import shown, shown_below
from quietshelf.auditing.bounds import power_under_gaussian, power_under_zcdp
from quietshelf.auditing.measure import CONFIDENCE, Finding
from quietshelf.auditing.mechanisms import MECHANISMS
from quietshelf.auditing.plan import RUNS, THOROUGH_POLICIES, THOROUGH_RUNS, Audit, Task, run_audit, tasks, usual
from quietshelf.auditing.words import conclusion, method, sentence, summary, verdict
from quietshelf.cli.console import Json, Workers, listed, out, processes, progress, say, strict_json
from quietshelf.loop.named import MAKERS
from quietshelf.types import positive


def audit(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Attack only these, separated by commas or one by one: {', '.join(THOROUGH_POLICIES)}.",
            autocompletion=lambda: list(MAKERS),
        ),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Audit only these, likewise: {', '.join(MECHANISMS)}.", autocompletion=lambda: [*MECHANISMS]
        ),
    ] = None,
    rho: Annotated[float, typer.Option(help="The budget that is claimed, in zCDP.")] = 1.0,
    runs: Annotated[int | None, typer.Option(help=f"In each of the two worlds of a test; {RUNS:,} by default.")] = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help=f"Every calibration and policy, {THOROUGH_RUNS:,} runs.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of simulated noise; a shelf's own noise has no seed.")] = 0,
    workers: Workers = 0,
    report: Annotated[Path | None, typer.Option(help="Write the findings as one HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Measure what leaks, and compare it with what is promised; the exit status is 1 if a promise is refuted.

    Example: quietshelf audit --policy quiet,greedy --rho 1 --report audit.html
    """
    wanted = _wanted(mechanism, policy, positive("rho", rho), thorough)
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
    """Claim against measured lower bound, as a person reads it."""
    drawn = Table(
        caption=f"measured: so much is lost at least, ε at {deltas(found)}; computed: what the two worlds cost"
    )
    for heading in ("audited", "the two worlds"):
        drawn.add_column(heading)
    for heading in ("claim", "measured ≥", "ε ≥", "computed", "verdict"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for finding in found.findings:
        word = verdict(finding)
        claimed, measured, computed = figures(finding)
        last = f"[red]{word}[/red]" if finding.refuted else word
        drawn.add_row(finding.name, finding.pair, claimed, measured, shown_below(finding.epsilon), computed, last)
    return drawn


def figures(finding: Finding) -> tuple[str, str, str]:
    """Claim (rounded upwards), measured and computed (downwards), in rho, or in epsilon where that is claimed."""
    claim, exact = finding.claim, finding.exact
    in_epsilon = math.isinf(claim.rho) and not claim.nothing
    sign, claimed, measured = (
        ("ε", claim.epsilon, finding.epsilon) if in_epsilon else ("ρ", claim.rho, sampled(finding))
    )
    computed = "-" if exact is None else f"{sign} {shown_below(exact.epsilon if in_epsilon else exact.rho)}"
    promised = "none" if claim.nothing else f"{sign} {shown(claimed)}"
    return promised, f"{sign} {shown_below(measured)}", computed


def deltas(found: Audit) -> str:
    """The delta, or deltas, that epsilon is stated for."""
    return " or ".join(f"δ = {delta:g}" for delta in sorted({finding.claim.delta for finding in found.findings}))


def sampled(finding: Finding) -> float:
    """The lower bound on rho from the runs alone."""
    return max(finding.rho, finding.gaussian_rho) if finding.claim.gaussian else finding.rho


def plain(found: Audit) -> dict[str, Any]:
    """Figures for machines."""
    return {
        "refuted": found.refuted,
        "version": __version__,
        "confidence": CONFIDENCE,
        "runs": found.runs,
        "seed": found.seed,
        "summary": summary(found),
        "findings": [
            {
                "kind": task.kind,
                "subject": task.name,
                "name": finding.name,
                "worlds": finding.pair,
                "runs": finding.runs,
                "claim": {"rho": finding.claim.rho, "epsilon": finding.claim.epsilon},
                "delta": finding.claim.delta,
                "gaussian_claim": finding.claim.gaussian,
                "measured": {"rho": finding.rho, "epsilon": finding.epsilon, "gaussian": finding.gaussian_rho},
                "computed": None if finding.exact is None else finding.exact._asdict(),
                "verdict": verdict(finding),
                "words": sentence(finding),
                "roc": {name: values.tolist() for name, values in finding.roc._asdict().items()},
            }
            for task, finding in zip(found.tasks, found.findings, strict=True)
        ],
    }


def page(found: Audit, path: Path) -> Path:
    """The findings as an HTML page."""
    from quietshelf.report.audit_page import AuditCurve, AuditRow, Limit, audit_page

    rows = [
        AuditRow(f.name, f.pair, *figures(f), verdict(f), f.refuted, sentence(f))
        for f in sorted(found.findings, key=lambda finding: not finding.refuted)
    ]
    curves = [AuditCurve(f"{f.name}: {f.pair}", *f.roc) for f in worst(found)]
    level = np.geomspace(1e-3, 1.0 - 1e-9, 120)
    budgets = sorted({f.claim.rho for f in found.findings if math.isfinite(f.claim.rho)})
    limits = [
        Limit(f"{words}, rho = {rho:g}", level, curve(level, rho))
        for rho in budgets
        for words, curve in (("most under zCDP", power_under_zcdp), ("most against quiet", power_under_gaussian))
    ]
    facts = [
        ("made", f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC"),
        ("quietshelf", __version__),
        ("seed of simulated noise", f"{found.seed}; a shelf's own noise has none"),
        ("runs in each of two worlds", f"up to {found.runs:,}"),
        ("epsilon is stated at", deltas(found)),
        ("again", f"quietshelf audit --seed {found.seed} --runs {found.runs}, with the same policies and mechanisms"),
    ]
    return audit_page(
        path,
        verdict=conclusion(found),
        broken=found.refuted,
        summary=method(found),
        rows=rows,
        curves=curves,
        limits=limits,
        facts=facts,
    )


def worst(found: Audit) -> list[Finding]:
    """Of each policy (or mechanism, where no policy was audited) the attack that tells most.

    That is the most successful one; but where nothing is promised the least successful one, which still succeeds.
    """
    kind = "policy" if any(task.kind == "policy" for task in found.tasks) else "mechanism"
    best: dict[str, Finding] = {}
    for task, finding in zip(found.tasks, found.findings, strict=True):
        sign = -1 if finding.claim.nothing else 1
        if task.kind == kind and (task.name not in best or sign * finding.rho > sign * best[task.name].rho):
            best[task.name] = finding
    return list(best.values())


def _wanted(mechanism: list[str] | None, policy: list[str] | None, rho: float, thorough: bool) -> list[Task]:
    if not mechanism and not policy:
        return usual(rho, thorough=thorough)
    return tasks(listed(mechanism or []), listed(policy or []), rho)
