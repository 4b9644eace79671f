"""The ``.plot()`` methods: on the caller's axes, or on a new figure that a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quietshelf.model.types import FloatArray, integer
from quietshelf.report.curves import BANDS, OUTSIDE, Regrets, draw_regret
from quietshelf.report.style import COLOURS, on_axes

ROW, MARGINS = 0.26, 1.1
"""Inches per feature, and for everything else."""


def plot_regret(result: Regrets, ax: Any = None, *, title: str = "") -> Any:
    """Plot every contestant's regret over visitors; on the caller's axes the legend stays inside."""
    with on_axes(ax) as axes:
        draw_regret(axes, result)
        axes.set_title(title)
        axes.legend(**(OUTSIDE if ax is None else {"loc": "best", "title": BANDS}))
    return axes


def plot_tastes(
    labels: Sequence[str], theta: FloatArray, standard_errors: FloatArray, ax: Any = None, *, most: int = 30
) -> Any:
    """Plot estimates ± 2 standard errors, one row per feature, the first on top.

    Args:
        labels: Names of the features, (d,).
        theta: Estimates, (d,).
        standard_errors: (d,); an infinite one draws no bar.
        ax: Axes to draw on; a new figure by default.
        most: Draw this many features at most: those with the largest estimates, in their own order.
    """
    largest = np.argsort(-np.abs(theta), kind="stable")[: integer("most", most)]
    kept = np.sort(largest)
    bars = np.where(np.isfinite(standard_errors), 2 * standard_errors, 0.0)[kept]
    rows = np.arange(len(kept))
    with on_axes(ax, width=6.0, height=MARGINS + ROW * len(kept)) as axes:
        axes.axvline(0.0, color="0.35", linewidth=1)
        axes.errorbar(theta[kept], rows, xerr=bars, fmt="o", markersize=4, capsize=3, color=COLOURS[0])
        axes.set_yticks(rows, [labels[place] for place in kept])
        axes.set_ylim(len(kept) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("utility per unit of the feature, estimate ± 2 s.e.")
        if len(kept) < len(theta):
            axes.set_title(f"the {len(kept)} largest of {len(theta)} estimates", loc="left", fontsize="medium")
    return axes
