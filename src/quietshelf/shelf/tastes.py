"""What the releases of a shelf say about visitors' tastes, and how surely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.logs.files import pandas
from quietshelf.release.quiet import Learner
from quietshelf.types import FloatArray, html_table

SHOWN = 20
"""Features that a notebook or a prompt shows at most."""


@dataclass(frozen=True)
class Tastes:
    """What the releases say about visitors' tastes.

    Attributes:
        theta: Estimate, (d,).
        standard_errors: Uncertainty of each coordinate, noise included, (d,). Early estimates also lean towards zero,
            which this does not count.
        precision: Information matrix, (d, d).
        releases: How many releases it rests on.
        health: One line on whether the releases stand above their noise.
    """

    theta: FloatArray
    standard_errors: FloatArray
    precision: FloatArray
    releases: int
    health: str

    @classmethod
    def of(cls, learner: Learner) -> Tastes:
        """From releases alone."""
        release = learner.release
        errors = np.sqrt(np.diagonal(release.covariance))
        return cls(release.theta, errors, release.precision, len(learner.records), learner.health)

    @property
    def labels(self) -> list[str]:
        """Of each coordinate: its name where the shelf knows one."""
        names = getattr(self, "names", None)
        return [f"theta[{place}]" for place in range(self.theta.size)] if names is None else list(names)

    def to_pandas(self) -> Any:
        """A DataFrame with a row per feature: estimate and standard_error. Needs the extra ``data``."""
        columns = {"estimate": self.theta, "standard_error": self.standard_errors}
        return pandas().DataFrame(columns, index=pandas().Index(self.labels, name="feature"))

    def plot(self, ax: Any = None, *, most: int = 30) -> Any:
        """Draw estimates ± 2 standard errors; the matplotlib axes. Needs the extra ``report``.

        Args:
            ax: Axes to draw on; a new figure by default.
            most: Features drawn: those with the largest estimates, in their own order.
        """
        from quietshelf.report.interactive import plot_tastes

        return plot_tastes(self.labels, self.theta, self.standard_errors, ax, most=most)

    def __repr__(self) -> str:
        rows = self._rows()
        width = max(len(label) for label, *_ in rows)
        lines = [f"  {label:{width}}  {estimate:>8} ± {error}" for label, estimate, error in rows]
        return "\n".join([f"<Tastes: {self._size}", *lines, *self._rest()]) + ">"

    def _repr_html_(self) -> str:
        note = " ".join([*self._rest(), self.health])
        return html_table(self._size, ("feature", "estimate", "± s.e."), self._rows(), note)

    @property
    def _size(self) -> str:
        releases = f"{self.releases} release{'' if self.releases == 1 else 's'}"
        return f"{self.theta.size} features, from {releases}"

    def _rows(self) -> list[tuple[str, str, str]]:
        figures = list(zip(self.labels, self.theta, self.standard_errors, strict=True))[:SHOWN]
        return [(label, f"{estimate:.3g}", f"{error:.2g}") for label, estimate, error in figures]

    def _rest(self) -> list[str]:
        left = self.theta.size - SHOWN
        return [f"... and {left} more"] if left > 0 else []
