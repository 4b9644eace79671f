"""Findings in words, for a privacy officer: what was tested, the result, and what it means."""

from __future__ import annotations

import math

import numpy as np

from quietshelf.privacy.accounting.attackers import power_under_gaussian, power_under_zcdp
from quietshelf.research.auditing.measure import CONFIDENCE, Finding
from quietshelf.research.auditing.plan import Audit

NEAR = 0.01
"""The rate of false alarms at which an attack is described."""
NO_PROOF = "An audit can refute a promise but not prove one: for that, see the proofs."


def verdict(finding: Finding) -> str:
    """The verdict in one or two words."""
    if finding.claim.nothing:
        return "no claim"
    return "REFUTED" if finding.refuted else "not refuted"


def verdict_on_rates(finding: Finding) -> str:
    """The verdict, to stand beside the rates of `near`, which sampling error may put slightly above the limit."""
    above = not finding.refuted and _above(finding)
    return f"{verdict(finding)}, the difference is within sampling error" if above else verdict(finding)


def _above(finding: Finding) -> bool:
    """Whether the attack recognised more than the claim allows, significantly or not."""
    _, power, limit = near(finding)
    return limit is not None and power > limit


def near(finding: Finding) -> tuple[float, float, float | None]:
    """(false-alarm rate near `NEAR`, share of true cases recognised, the most allowed; None if not claimed in rho)."""
    place = int(np.argmin(np.abs(finding.roc.level - NEAR)))
    level, power = float(finding.roc.level[place]), float(finding.roc.power[place])
    if math.isinf(finding.claim.rho):
        return level, power, None
    curve = power_under_gaussian if finding.claim.gaussian else power_under_zcdp
    return level, power, float(curve(np.array([max(level, 1e-6)]), finding.claim.rho)[0])


def sentence(finding: Finding) -> str:
    """The result of one attack in a sentence."""
    level, power, limit = near(finding)
    found = f"At {_share(level)} false alarms the attacker recognised {_share(power)} of the true cases"
    if finding.claim.nothing:
        return f"{found}; nothing is promised here, and nothing limits an attacker."
    if limit is not None:
        found += f"; the promise allows up to {_share(limit)}"
    if finding.refuted:
        return f"{found}. The promise cannot be true: more is lost than it says."
    if _above(finding):
        return f"{found}. The difference is within sampling error: this is compatible with the promise."
    return f"{found}. This is compatible with the promise."


def conclusion(audit: Audit) -> str:
    """The result of the whole audit."""
    if broken := sorted({finding.name for finding in audit.findings if finding.refuted}):
        return f"Refuted: {', '.join(broken)}. Do not rely on what it promises."
    return f"No promise was refuted. {NO_PROOF}"


def headline(audit: Audit) -> tuple[str, str]:
    """How many of the tested promises were refuted, and which."""
    tested = [finding for finding in audit.findings if not finding.claim.nothing]
    broken = sorted({finding.name for finding in tested if finding.refuted})
    number = f"{sum(finding.refuted for finding in tested)} of {len(tested)}"
    rest = f": {', '.join(broken)}. Do not rely on them." if broken else f". {NO_PROOF}"
    return number, f"tested promises {'is' if number.startswith('1 ') else 'are'} refuted{rest}"


def method(audit: Audit) -> list[str]:
    """How the audit was done, its confidence, and for comparison its result where nothing is promised."""
    open_ones = [finding for finding in audit.findings if finding.claim.nothing]
    lines = [
        f"{len(audit.findings) - len(open_ones)} promises were tested, each with up to {audit.runs:,} runs in each of "
        f"two worlds that differ in a single visitor. Half of the runs trained the attacker, the other half tested it.",
        f"With {100 * CONFIDENCE:g} % confidence for all tests together, no lower bound is too large.",
    ]
    if open_ones:
        best = max(open_ones, key=lambda finding: finding.rho)
        lines.append(f"Without privacy, for comparison ({best.name}): {sentence(best)}")
    return lines


def summary(audit: Audit) -> list[str]:
    """The whole audit in a few sentences, the conclusion first."""
    return [conclusion(audit), *method(audit)]


def _share(value: float) -> str:
    percent = 100 * value
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"
