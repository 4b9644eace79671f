"""Rows -> figures, tables and a self-contained page. Figures need the extra ``report`` (matplotlib)."""

from quietshelf.report.curves import regret_curves
from quietshelf.report.glance import Glance, GlanceCell, GlanceRow, draw_glance, write_glance_csv
from quietshelf.report.page import PageTable, Section, write_page
from quietshelf.report.panels import draw
from quietshelf.report.plotted import Plotted, plotted, write_csv
from quietshelf.report.series import Series

__all__ = [
    "Glance",
    "GlanceCell",
    "GlanceRow",
    "PageTable",
    "Plotted",
    "Section",
    "Series",
    "draw",
    "draw_glance",
    "plotted",
    "regret_curves",
    "write_csv",
    "write_glance_csv",
    "write_page",
]
