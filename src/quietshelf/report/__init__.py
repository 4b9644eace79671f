"""Rows -> figures and tables. Needs the extra ``report`` (matplotlib), imported only where something is drawn."""

from quietshelf.report.curves import regret_curves
from quietshelf.report.tastes import taste_plot

__all__ = ["regret_curves", "taste_plot"]
