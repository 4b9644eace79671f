"""Regret against visitors, one curve per contestant, with a band for the uncertainty of its mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.report.series import from_the_start, standard_error
from quietshelf.report.style import curve, figure, look

BANDS = "mean ± 2 s.e."
OUTSIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "title": BANDS}
"""A legend beside the axes, where it covers no curve."""


class Regrets(Protocol):
    """What is drawn: numbers of visitors, and each contestant's regret by then in every replicate."""

    @property
    def horizon(self) -> int: ...  # noqa: D102 - see above
    @property
    def times(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def regret(self) -> Mapping[str, FloatArray]: ...  # noqa: D102


def regret_curves(result: Regrets, path: Path, *, title: str = "") -> Path:
    """Draw cumulative regret; bands are two standard errors of the mean over replicates."""
    with figure(path) as axes:
        draw_regret(axes, result)
        axes.set_title(title)
        axes.legend(**OUTSIDE)
    return path


def draw_regret(axes: Any, result: Regrets) -> None:
    """Draw curves and axes, without title and legend."""
    times = [0, *result.times]
    for index, (label, regret) in enumerate(result.regret.items()):
        lost = from_the_start(regret)
        curve(axes, times, lost.mean(axis=0), 2 * np.nan_to_num(standard_error(lost)), label=label, **look(index))
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(bottom=0)
    ticks = ticks_up_to(axes.get_ylim()[1])
    axes.set_yticks(ticks, [f"{tick:,g}" if tick < 1 else f"{tick:,.0f}" for tick in ticks])
    axes.set_xlim(left=0, right=result.horizon)
    axes.set_xlabel("visitors")
    axes.set_ylabel("revenue lost so far (regret, log scale above 1)")


def ticks_up_to(top: float) -> list[float]:
    """Tick values for an axis that is linear below 1 and logarithmic above.

    >>> ticks_up_to(7.0), ticks_up_to(30_000)
    ([0, 0.5, 1, 2, 5], [0, 1, 10, 100, 1000, 10000])
    >>> ticks_up_to(0.3)
    [0.0, 0.1, 0.2, 0.3]
    """
    if top < 1:
        return [tenth / 10 for tenth in range(10) if tenth / 10 <= top] if top >= 0.1 else [0, top]
    decades = [10**power for power in range(math.floor(math.log10(top)) + 1)]
    if len(decades) > 3:
        return [0, *decades]
    return [0, 0.5, *(step * decade for decade in decades for step in (1, 2, 5) if step * decade <= top)]
