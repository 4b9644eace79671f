"""The page of an audit: the verdict in words, each claim beside its measured bound, and the ROC curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quietshelf.report.charts import Curve, Words, line_chart
from quietshelf.report.document import (
    figure,
    folded,
    headline,
    scrolling,
    section,
    table,
    text,
    write_document,
)
from quietshelf.report.frame import Axis
from quietshelf.report.svg import BROAD, Markup, tag

LOWEST = 1e-3
"""The lowest false-alarm rate in the chart."""
LIMIT, GUESSING = 6, 5
"""Tones of the lines that are not attacks."""
NAMED = 0.12
"""The false-alarm rate at which curves are labelled: there they are furthest apart."""
LEAD = "What the attacks found, compared with what is promised."
READING = (
    "Claim: the promise, rounded up. Measured: a lower bound on the loss, from the attack, rounded down. Computed: the "
    "exact cost of the two worlds, where it can be computed, rounded down. A promise is refuted if either exceeds it."
)
CURVES = (
    "Each coloured curve is an attack: the share of true cases it recognises at each rate of false alarms. Its band "
    "holds for all its points at once. A dashed line is the most that a promise allows: the promise is broken where a "
    "whole band lies above its line."
)
LIMITS = (
    "These are lower bounds on the loss. They can refute a promise but never prove one: a better attack may find more. "
    "The promises rest on the proofs (docs/proofs.md).",
    "The audit attacks the code of this installation in small simulated worlds, not your database, settings, logs or "
    "dashboards. Run quietshelf ledger to see what was spent there, and read docs/sharp-edges.md on what leaks outside "
    "the releases and how to audit that.",
)


class AuditRow(NamedTuple):
    """One row of the table: what was audited, the two worlds, figures as text, the verdict, and a sentence."""

    name: str
    pair: str
    claimed: str
    measured: str
    exact: str
    verdict: str
    broken: bool
    words: str


def audit_page(
    path: Path,
    *,
    number: str,
    conclusion: str,
    broken: bool,
    summary: Sequence[str],
    rows: Sequence[AuditRow],
    curves: Sequence[Curve],
    facts: Sequence[tuple[str, str]],
) -> Path:
    """Write the page, verdict first. It is self-contained."""
    sections = [
        headline(conclusion, f"✘ {number}" if broken else number, refuted=broken),
        section("What an attacker can do", figure(_picture(curves), CURVES)),
        section("Promise by promise", _table(rows)),
        folded("How to read the table", text(READING)),
        folded("How it was tested", text(*summary)),
        folded("What this does not say", text(*LIMITS)),
        folded("What made this page", table(("what", "value"), facts, caption="What made this page", words=2)),
    ]
    return write_document(path, title="Privacy audit", lead=LEAD, sections=sections, kind="Audit")


def _table(rows: Sequence[AuditRow]) -> Markup:
    heads = ("audited", "the two worlds", "claim", "measured at least", "computed", "verdict")
    named = [tag("th", head, scope="col", class_="num" if 1 < n < 5 else "") for n, head in enumerate(heads)]
    lines = []
    for row in rows:
        figures = (tag("td", cell, class_="num") for cell in (row.claimed, row.measured, row.exact))
        verdict = tag("td", row.verdict, class_="fails" if row.broken else "")
        name, pair = tag("th", row.name, scope="row"), tag("td", row.pair, class_="said")
        lines.append(tag("tr", name, pair, *figures, verdict))
        lines.append(tag("tr", tag("td", tag("span", row.words), colspan="6"), class_="said"))
    return scrolling("Promise by promise", tag("thead", tag("tr", *named)), tag("tbody", *lines))


def _picture(curves: Sequence[Curve]) -> Markup:
    level = np.geomspace(LOWEST, 1.0, 100)
    guessing = Curve("guessing", level, level, 0 * level, GUESSING)
    words = Words(
        "roc", "True cases recognised against false alarms", "The higher a curve, the more is lost.",
        x="false alarms (log scale)", y="true cases recognised",
    )  # fmt: skip
    x = Axis(LOWEST, 1.0, (0.001, 0.01, 0.1, 1.0), log=True, name=_percent)
    y = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), name=_percent)
    return line_chart([*curves, guessing], words, x=x, y=y, at=NAMED, widest=BROAD, height=380)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
