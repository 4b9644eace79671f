"""A plan as one page, or as one picture: what privacy costs a shop at each budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quietshelf.report.charts import Curve, line_chart
from quietshelf.report.document import figure, section, table, text, write_document
from quietshelf.report.style import dots, look
from quietshelf.report.style import figure as drawing

X_LABEL, Y_LABEL = "ρ of the shelf (log scale)", "revenue lost (log scale)"


def plan_page(
    path: Path,
    *,
    lead: str,
    advice: Sequence[str],
    curves: Sequence[Curve],
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]], str]],
) -> Path:
    """Write the page: advice, the price at each budget, and the tables (title, head, rows, note)."""
    chart = line_chart(curves, x_label=X_LABEL, y_label=Y_LABEL, log_x=True, log_y=True, points=True)
    caption = (
        "Revenue lost by quiet at each budget, beside no privacy, random offers and the paper's policy; 95 % bands."
    )
    sections = [
        section("In short", text(*advice)),
        section("The price of privacy", figure(chart, caption)),
        *(section(title, table(head, rows), text(note)) for title, head, rows, note in tables),
    ]
    return write_document(path, title="A plan for a private shelf", lead=lead, sections=sections)


def plan_plot(curves: Sequence[Curve], path: Path, *, title: str) -> Path:
    """The picture alone, as png, svg or pdf."""
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
