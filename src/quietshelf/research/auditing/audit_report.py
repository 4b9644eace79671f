"""An audit as figures for a table, as plain data for a machine, and as a page for a privacy officer."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from quietshelf.__about__ import __version__
from quietshelf.privacy.accounting.attackers import power_under_gaussian, power_under_zcdp
from quietshelf.privacy.accounting.figures import rounded_down, rounded_up
from quietshelf.report.audit_page import AuditCurve, AuditRow, Limit, audit_page
from quietshelf.research.auditing.measure import CONFIDENCE, Finding
from quietshelf.research.auditing.plan import Audit
from quietshelf.research.auditing.verdicts import headline, method, sentence, summary, verdict


def figures(finding: Finding) -> tuple[str, str, str]:
    """Claim (rounded upwards), measured and computed (downwards), in rho, or in epsilon where that is claimed."""
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
    rows = [
        AuditRow(f.name, f.pair, *figures(f), verdict(f), f.refuted, sentence(f))
        for f in sorted(found.findings, key=lambda finding: not finding.refuted)
    ]
    curves = [AuditCurve(f.name, *f.roc) for f in worst(found)]
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
        curves=curves,
        limits=limits(found),
        facts=facts,
    )


def limits(found: Audit) -> list[Limit]:
    """The largest power at each rate of false alarms that the claims in rho allow."""
    level = np.geomspace(1e-3, 1.0 - 1e-9, 120)
    budgets = sorted({f.claim.rho for f in found.findings if math.isfinite(f.claim.rho)})
    return [
        Limit(f"{words}, ρ = {rounded_up(rho)}", level, curve(level, rho))
        for rho in budgets
        for words, curve in (("most under zCDP", power_under_zcdp), ("most against quiet", power_under_gaussian))
    ]


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
