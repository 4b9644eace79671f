"""Estimated tastes with their uncertainty, beside the truth where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from quietshelf.report.style import COLOURS, figure
from quietshelf.types import FloatArray


def taste_plot(
    names: Sequence[str], theta: FloatArray, errors: FloatArray, path: Path, *, truth: FloatArray | None = None
) -> Path:
    """Draw each coordinate of theta with two standard errors."""
    places = np.arange(len(names))[::-1]
    with figure(path, height=1.2 + 0.45 * len(names)) as axes:
        axes.errorbar(theta, places, xerr=2 * errors, fmt="o", color=COLOURS[0], capsize=3, label="estimate ± 2 s.e.")
        if truth is not None:
            axes.plot(truth, places, "x", color=COLOURS[1], markersize=9, markeredgewidth=2, label="truth")
        axes.axvline(0.0, color="0.6", linewidth=0.8)
        axes.margins(y=0.2)
        axes.set_yticks(places, names)
        axes.set_xlabel("taste (change in utility)")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return path
