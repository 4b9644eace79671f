"""Rows -> figures, tables, one page. Figures need the extra ``report`` (matplotlib), imported when one is drawn."""

from quietshelf.report.curves import regret_curves
from quietshelf.report.page import Section, Table, write_page
from quietshelf.report.panels import draw
from quietshelf.report.plotted import Plotted, plotted, write_csv
from quietshelf.report.series import Series

__all__ = [
    "Plotted",
    "Section",
    "Series",
    "Table",
    "draw",
    "plotted",
    "regret_curves",
    "write_csv",
    "write_page",
]
