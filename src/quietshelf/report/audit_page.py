"""An audit as one self-contained page: the verdict in words, claim against measured bound, and the ROC picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from quietshelf.report.style import figure, look
from quietshelf.types import FloatArray

LOWEST = 1e-3
"""The least rate of false alarms in the picture."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.35rem 0.6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.refuted { color: #a00; font-weight: 700; }
.banner { padding: 0.8rem 1rem; border-left: 0.4rem solid #009E73; background: #f3f8f6; }
.banner.broken { border-color: #a00; background: #fbf1f1; }
svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd; } .banner { background: #222; } th, td { border-color: #444; }
  figure { background: #fff; padding: 0.5rem; }
}
"""


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
    title: str,
    summary: Sequence[str],
    broken: bool,
    rows: Sequence[AuditRow],
    curves: Sequence[AuditCurve],
    limits: Sequence[Limit],
) -> Path:
    """Write the page; nothing is loaded from anywhere when it is read."""
    body = "\n".join(
        [
            f"<h1>{escape(title)}</h1>",
            f'<div class="banner{" broken" if broken else ""}">',
            *(f"<p>{escape(line)}</p>" for line in summary),
            "</div>",
            _table(rows),
            "<h2>What an attacker can do</h2>",
            "<p>Each curve is an attack: how many true cases it recognises, at the price of how many false alarms. "
            "The shaded band holds for all points of a curve at once. A dashed line is the most that a promise allows; "
            "the dotted line is guessing. A promise is broken where a whole band lies above its dashed line.</p>",
            f"<figure>{_picture(curves, limits)}</figure>",
        ]
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _table(rows: Sequence[AuditRow]) -> str:
    heads = ("audited", "the two worlds", "claim", "measured at least", "computed", "verdict")
    lines = [f"<table><thead><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead><tbody>"]
    for row in rows:
        figures = "".join(f'<td class="number">{escape(text)}</td>' for text in (row.claimed, row.measured, row.exact))
        mark = ' class="refuted"' if row.broken else ""
        lines.append(
            f"<tr><td>{escape(row.name)}</td><td>{escape(row.pair)}</td>{figures}"
            f'<td{mark}>{escape(row.verdict)}</td></tr><tr><td></td><td colspan="5">{escape(row.words)}</td></tr>'
        )
    return "\n".join([*lines, "</tbody></table>"])


def _picture(curves: Sequence[AuditCurve], limits: Sequence[Limit]) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "roc.svg"
        draw_roc(curves, limits, path)
        text = path.read_text(encoding="utf-8")
    return text[text.index("<svg") :]


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
