"""An audit as one self-contained page: the verdict in words, claim against measured bound, and the ROC picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.report.charts import COLOURS, Curve, Words, line_chart
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
"""The least rate of false alarms in the picture."""
LIMIT, GUESSING = 6, 5
"""Tones of lines that are no attack."""
NAMED = 0.12
"""The rate at which curves carry their names: there they are furthest apart."""
LEAD = "What the attacks found, compared with what is promised."
READING = (
    "Claim: the promise, rounded upwards. Measured: the loss that the attack showed at least, rounded downwards. "
    "Computed: the cost of these two worlds without sampling, where it can be computed, rounded downwards. A "
    "promise is refuted if either exceeds it."
)
CURVES = (
    "Each coloured curve is an attack: the share of true cases that it recognises at each rate of false alarms. Its "
    "band holds for all its points at once. A dashed line is the most that a promise allows: the promise is broken "
    "where a whole band lies above its line."
)
LIMITS = (
    "These are lower bounds on the loss. They can refute a promise, never prove one: a better attack may find more. "
    "Promises rest on the proofs (docs/proofs.md).",
    "The audit attacks the code of this installation in small simulated worlds, not your database, your settings, your "
    "logs or your dashboards. Run quietshelf ledger for what was spent there, and read docs/sharp-edges.md for what "
    "leaks outside the releases, and how to audit that.",
)


class AuditRow(NamedTuple):
    """One line of the table: what was audited, the neighbours, figures as text, the verdict, and a sentence."""

    name: str
    pair: str
    claimed: str
    measured: str
    exact: str
    verdict: str
    broken: bool
    words: str


class AuditCurve(NamedTuple):
    """A ROC curve with its band: false-alarm rates and powers, (points,), from below and from above."""

    label: str
    level: FloatArray
    power: FloatArray
    level_low: FloatArray
    level_high: FloatArray
    power_low: FloatArray
    power_high: FloatArray


class Limit(NamedTuple):
    """The largest power that a promise allows at each level."""

    label: str
    level: FloatArray
    power: FloatArray


def audit_page(
    path: Path,
    *,
    number: str,
    conclusion: str,
    broken: bool,
    summary: Sequence[str],
    rows: Sequence[AuditRow],
    curves: Sequence[AuditCurve],
    limits: Sequence[Limit],
    facts: Sequence[tuple[str, str]],
) -> Path:
    """Write the page, the verdict and its number first; nothing is loaded from anywhere when it is read."""
    sections = [
        headline(conclusion, f"✘ {number}" if broken else number, refuted=broken),
        section("What an attacker can do", figure(_picture(curves, limits), CURVES)),
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


def _picture(curves: Sequence[AuditCurve], limits: Sequence[Limit]) -> Markup:
    """Attacks with their bands in colours of their own; limits and guessing in grey."""
    drawn = [
        Curve(curve.label, _above(curve.level), curve.power, 0 * curve.power, place % COLOURS, _outline(curve))
        for place, curve in enumerate(curves)
    ]
    level = np.geomspace(LOWEST, 1.0, 100)
    drawn += [Curve(each.label, each.level, each.power, 0 * each.power, LIMIT) for each in limits]
    drawn.append(Curve("guessing", level, level, 0 * level, GUESSING))
    words = Words(
        "roc", "True cases recognised against false alarms", "The higher a curve, the more is lost.",
        x="false alarms (log scale)", y="true cases recognised",
    )  # fmt: skip
    x = Axis(LOWEST, 1.0, (0.001, 0.01, 0.1, 1.0), log=True, name=_percent)
    y = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), name=_percent)
    return line_chart(drawn, words, x=x, y=y, at=NAMED, widest=BROAD, height=380)


def _outline(curve: AuditCurve) -> FloatArray:
    """The corners of a band, (2, corners)."""
    level = _above(np.concatenate([curve.level_low, curve.level_high[::-1]]))
    return np.stack([level, np.concatenate([curve.power_high, curve.power_low[::-1]])])


def _above(level: FloatArray) -> FloatArray:
    return np.maximum(level, LOWEST)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
