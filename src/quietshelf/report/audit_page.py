"""An audit as one self-contained page: the verdict in words, claim against measured bound, and the ROC picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from quietshelf.report.document import image, section, table, text, write_document
from quietshelf.report.style import figure, look
from quietshelf.types import FloatArray

LOWEST = 1e-3
"""The least rate of false alarms in the picture."""
LEAD = "Attacks on what claims to be private: what they found, beside what is promised."
READING = (
    "Claim: what is promised, rounded upwards. Measured: what the attack showed to be lost at least, rounded "
    "downwards. Computed: what these two worlds cost without sampling, where that can be worked out, rounded "
    "downwards. A promise is refuted if either is above it."
)
CURVES = (
    "Each curve is an attack: how many true cases it recognises, at the price of how many false alarms. The shaded "
    "band holds for all points of a curve at once. A dashed line is the most that a promise allows; the dotted line is "
    "guessing. A promise is broken where a whole band lies above its dashed line."
)
LIMITS = (
    "These are lower bounds on what is lost. They can refute a promise; that none was refuted proves none: a better "
    "attack may find more. What is promised rests on the proofs (docs/proofs.md).",
    "Attacked is the code of this installation, in small made-up worlds: not your database, your settings, your logs "
    "or your dashboards. What was spent there the ledger says (quietshelf ledger); what leaves beside the releases is "
    "in docs/sharp-edges.md, with a way to audit it.",
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
    verdict: str,
    broken: bool,
    summary: Sequence[str],
    rows: Sequence[AuditRow],
    curves: Sequence[AuditCurve],
    limits: Sequence[Limit],
    facts: Sequence[tuple[str, str]],
) -> Path:
    """Write the page, the verdict first; nothing is loaded from anywhere when it is read."""
    mark = ("✘ ", ' class="refuted"') if broken else ("", "")
    sections = [
        f"<blockquote{mark[1]}>{mark[0]}{escape(verdict)}</blockquote>",
        section("How it was tested", text(*summary)),
        section("Promise by promise", text(READING), _table(rows)),
        section("What an attacker can do", _picture(curves, limits)),
        section("What this does not say", text(*LIMITS)),
        section("What made this page", table(("what", "value"), facts, words=2)),
    ]
    return write_document(path, title="Privacy audit", lead=LEAD, sections=sections, broad=True)


def _table(rows: Sequence[AuditRow]) -> str:
    heads = ("audited", "the two worlds", "claim", "measured at least", "computed", "verdict")
    named = "".join(f'<th class="{"figure" if 1 < n < 5 else "words"}">{head}</th>' for n, head in enumerate(heads))
    lines = [f'<div class="wide"><table><thead><tr>{named}</tr></thead><tbody>']
    for row in rows:
        words = "".join(f'<td class="words">{escape(cell)}</td>' for cell in (row.name, row.pair))
        figures = "".join(f'<td class="figure">{escape(cell)}</td>' for cell in (row.claimed, row.measured, row.exact))
        mark = "refuted" if row.broken else "words"
        lines.append(
            f'<tr class="noted">{words}{figures}<td class="{mark}">{escape(row.verdict)}</td></tr>'
            f'<tr class="note"><td colspan="6">{escape(row.words)}</td></tr>'
        )
    return "\n".join([*lines, "</tbody></table></div>"])


def _picture(curves: Sequence[AuditCurve], limits: Sequence[Limit]) -> str:
    with TemporaryDirectory() as folder:
        return image(draw_roc(curves, limits, Path(folder) / "roc.svg"), CURVES)


def draw_roc(curves: Sequence[AuditCurve], limits: Sequence[Limit], path: Path) -> Path:
    """The picture alone, to a file of its own."""
    with figure(path, width=7.5, height=6.0) as axes:
        for index, curve in enumerate(curves):
            style = look(index)
            axes.plot(np.maximum(curve.level, LOWEST / 10), curve.power, label=curve.label, **style)
            axes.fill(
                np.maximum([*curve.level_low, *curve.level_high[::-1]], LOWEST / 10),
                [*curve.power_high, *curve.power_low[::-1]],
                color=style["color"],
                alpha=0.15,
                linewidth=0,
            )
        for index, limit in enumerate(limits):
            axes.plot(limit.level, limit.power, label=limit.label, color="0.2", linestyle=("--", "-.")[index % 2])
        level = np.geomspace(LOWEST, 1.0, 100)
        axes.plot(level, level, color="0.6", linestyle=":", label="guessing")
        axes.set_xscale("log")
        axes.set_xlim(LOWEST, 1.0)
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("false alarms (log scale)")
        axes.set_ylabel("true cases recognised")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return path
