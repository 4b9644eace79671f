"""An audit as figures for a table, as plain data, and as a page for a privacy officer."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.__about__ import __version__
from quietshelf.privacy.accounting.attackers import power_under_gaussian, power_under_zcdp
from quietshelf.privacy.accounting.figures import rounded_down, rounded_up
from quietshelf.report.audit_page import LIMIT, LOWEST, AuditRow, audit_page
from quietshelf.report.charts import COLOURS, Curve
from quietshelf.research.auditing.measure import CONFIDENCE, Finding, Roc
from quietshelf.research.auditing.plan import Audit
from quietshelf.research.auditing.verdicts import headline, method, sentence, summary, verdict


def figures(finding: Finding) -> tuple[str, str, str]:
    """The claim (rounded up), the measured and the computed loss (rounded down), in rho, or epsilon if claimed so."""
    claim, exact = finding.claim, finding.exact
    in_epsilon = math.isinf(claim.rho) and not claim.nothing
    sign, claimed, measured = ("ε", claim.epsilon, finding.epsilon) if in_epsilon else ("ρ", claim.rho, finding.sampled)
    computed = "-" if exact is None else f"{sign} {rounded_down(exact.epsilon if in_epsilon else exact.rho)}"
    promised = "none" if claim.nothing else f"{sign} {rounded_up(claimed)}"
    return promised, f"{sign} {rounded_down(measured)}", computed


def deltas(found: Audit) -> str:
    """The delta, or deltas, that epsilon is stated for."""
    return " or ".join(f"δ = {delta:g}" for delta in sorted({finding.claim.delta for finding in found.findings}))


def plain(found: Audit) -> dict[str, Any]:
    """The audit as plain data."""
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
    """Write the findings as an HTML page."""
    rows = [
        AuditRow(f.name, f.pair, *figures(f), verdict(f), f.refuted, sentence(f))
        for f in sorted(found.findings, key=lambda finding: not finding.refuted)
    ]
    attacks = [roc_curve(f.name, f.roc, place % COLOURS) for place, f in enumerate(worst(found))]
    facts = [
        ("made", f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC"),
        ("quietshelf", __version__),
        ("seed of simulated noise", f"{found.seed}; a shelf's own noise has none"),
        ("runs in each of two worlds", f"up to {found.runs:,}"),
        ("epsilon is stated at", deltas(found)),
        (
            "again",
            f"quietshelf audit --seed {found.seed} --runs {found.runs}, with the same policies, mechanisms and rho",
        ),
    ]
    number, conclusion = headline(found)
    return audit_page(
        path,
        number=number,
        conclusion=conclusion,
        broken=found.refuted,
        summary=method(found),
        rows=rows,
        curves=[*attacks, *_limits(found)],
        facts=facts,
    )


def roc_curve(name: str, roc: Roc, tone: int) -> Curve:
    """A ROC curve with the outline of its band, from the lowest false-alarm rate of the chart on."""
    outline = (
        np.maximum(np.concatenate([roc.level_low, roc.level_high[::-1]]), LOWEST),
        np.concatenate([roc.power_high, roc.power_low[::-1]]),
    )
    return Curve(name, np.maximum(roc.level, LOWEST), roc.power, 0 * roc.power, tone, np.stack(outline))


def _limits(found: Audit) -> list[Curve]:
    """The largest power that the claims in rho allow at each false-alarm rate."""
    level = np.geomspace(LOWEST, 1.0 - 1e-9, 120)
    budgets = sorted({f.claim.rho for f in found.findings if math.isfinite(f.claim.rho)})
    return [
        Curve(f"{words}, ρ = {rounded_up(rho)}", level, power(level, rho), 0 * level, LIMIT)
        for rho in budgets
        for words, power in (("most under zCDP", power_under_zcdp), ("most against quiet", power_under_gaussian))
    ]


def worst(found: Audit) -> list[Finding]:
    """The most telling attack on each policy, or on each mechanism if no policy was audited.

    That is the most successful one; where nothing is promised, the least successful one, since even that succeeds.
    """
    kind = "policy" if any(task.kind == "policy" for task in found.tasks) else "mechanism"
    best: dict[str, Finding] = {}
    for task, finding in zip(found.tasks, found.findings, strict=True):
        sign = -1 if finding.claim.nothing else 1
        if task.kind == kind and (task.name not in best or sign * finding.rho > sign * best[task.name].rho):
            best[task.name] = finding
    return list(best.values())
