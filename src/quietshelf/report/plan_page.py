"""The page of a plan, and its chart as a file: what privacy costs a shop at each budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quietshelf.report.charts import Curve, Words, line_chart, log_axis
from quietshelf.report.document import figure, folded, headline, note, section, table, text, write_document
from quietshelf.report.frame import Axis
from quietshelf.report.style import dots, look
from quietshelf.report.style import figure as drawing
from quietshelf.report.svg import BROAD

X_LABEL, Y_LABEL = "ρ of the shelf (log scale)", "sales lost (log scale)"


def plan_page(
    path: Path,
    *,
    lead: str,
    number: str,
    conclusion: str,
    advice: Sequence[str],
    curves: Sequence[Curve],
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]], str]],
) -> Path:
    """Write the page: conclusion, price at each budget, advice, and the tables, folded."""
    x = Axis.of([curve.x for curve in curves], log=True)
    words = Words("price", "Sales lost at each budget", "A line for quiet, levels beside it.", x=X_LABEL, y=Y_LABEL)
    chart = line_chart(curves, words, x=x, y=log_axis(curves), dots=True, widest=BROAD, height=320)
    caption = (
        "Sales lost by quiet at each budget, by no privacy, random offers and the paper's policy (dpmnl); bands "
        "and bars are 95 % confidence."
    )
    sections = [
        headline(conclusion, number),
        section("The price of privacy", figure(chart, caption)),
        *([section("What to do", text(*advice))] if advice else []),
        *(folded(title, table(head, rows, caption=title), note(says)) for title, head, rows, says in tables),
    ]
    return write_document(path, title="A plan for a private shelf", lead=lead, sections=sections, kind="Plan")


def plan_plot(curves: Sequence[Curve], path: Path, *, title: str) -> Path:
    """Draw the chart alone, as png, svg or pdf."""
    with drawing(path) as axes:
        for curve in curves:
            dots(axes, curve.x, curve.mean, curve.half, label=curve.label, **look(curve.tone))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(X_LABEL)
        axes.set_ylabel(Y_LABEL)
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="mean, 95 % bars")
    return path
