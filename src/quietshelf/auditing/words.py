"""Findings for a privacy officer: what was tried, what came of it, what it means."""

from __future__ import annotations

import math

import numpy as np

from quietshelf.auditing.bounds import power_under_gaussian, power_under_zcdp
from quietshelf.auditing.measure import Finding
from quietshelf.auditing.plan import Audit
from quietshelf.types import FloatArray

NEAR = 0.01
"""The rate of false alarms at which an attack is described."""


def verdict(finding: Finding) -> str:
    """One word or two."""
    if finding.claim.nothing:
        return "no claim"
    return "REFUTED" if finding.refuted else "not refuted"


def allowed(finding: Finding, level: FloatArray) -> FloatArray | None:
    """The power that the claim allows at these levels; None where there is no claim in rho."""
    if math.isinf(finding.claim.rho):
        return None
    curve = power_under_gaussian if finding.claim.gaussian else power_under_zcdp
    return curve(level, finding.claim.rho)


def sentence(finding: Finding) -> str:
    """What the attack on one mechanism or policy achieved."""
    roc = finding.roc
    place = int(np.argmin(np.abs(roc.level - NEAR)))
    level, power = float(roc.level[place]), float(roc.power[place])
    found = f"At {_share(level)} false alarms the attacker recognised {_share(power)} of the true cases"
    limit = allowed(finding, np.array([max(level, 1e-6)]))
    if finding.claim.nothing:
        return f"{found}; nothing is promised here, and nothing limits an attacker."
    if limit is not None:
        found += f"; the promise allows up to {_share(float(limit[0]))}"
    if finding.refuted:
        return f"{found}. The promise cannot be true: more is lost than it says."
    return f"{found}. This is compatible with the promise."


def summary(audit: Audit) -> list[str]:
    """The whole audit in a few sentences."""
    claims = [finding for finding in audit.findings if not finding.claim.nothing]
    broken = sorted({finding.name for finding in claims if finding.refuted})
    lines = [
        f"{len(claims)} promises were put to the test, each by up to {audit.runs:,} runs in each of two worlds that "
        f"differ in one visitor only. Half of the runs taught the attacker, the other half judged.",
        f"With a confidence of {100 * audit.confidence:g} % for all tests together, no lower bound is too large.",
    ]
    if broken:
        lines.append(f"Refuted: {', '.join(broken)}. Do not rely on what it promises.")
    else:
        lines.append(
            "No promise was refuted. An audit can refute a promise, it cannot prove one: for that see the proofs."
        )
    open_ones = [finding for finding in audit.findings if finding.claim.nothing]
    if open_ones:
        best = max(open_ones, key=lambda finding: finding.rho)
        lines.append(f"Without privacy, for comparison ({best.name}): {sentence(best)}")
    return lines


def _share(value: float) -> str:
    percent = 100 * value
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"
