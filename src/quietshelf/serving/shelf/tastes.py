"""What a shelf's releases say about visitors' tastes, and how certain that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.data.logs.files import pandas
from quietshelf.model.types import FloatArray, html_table
from quietshelf.privacy.release.quiet import Learner

PRINTED = 20
"""Most features that are printed; ``theta`` has all of them."""


@dataclass(frozen=True, repr=False)
class Tastes:
    """What the releases say about visitors' tastes.

    Attributes:
        theta: Estimate, (d,).
        standard_errors: Uncertainty of each coordinate, noise included, (d,). Early estimates also lean towards zero,
            which this does not count.
        precision: Information matrix, (d, d).
        releases: The number of releases used.
        health: One line on whether the releases stand above their noise.
        names: Names of the coordinates, (d,); "age:price" says how the effect of price grows with age.
    """

    theta: FloatArray
    standard_errors: FloatArray
    precision: FloatArray
    releases: int
    health: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, learner: Learner, names: tuple[str, ...]) -> Tastes:
        """Read them from a learner's releases."""
        release = learner.release
        errors = np.sqrt(np.diagonal(release.covariance))
        return cls(release.theta, errors, release.precision, len(learner.records), learner.health, names)

    def __repr__(self) -> str:
        """A line per feature."""
        shown = self.names[:PRINTED]
        wide = max(map(len, shown), default=0)
        lines = [
            f"  {name:{wide}}  {value:+9.3f} ± {error:.3f}"
            for name, value, error in zip(shown, self.theta, self.standard_errors, strict=False)
        ]
        more = len(self.names) - len(shown)
        rest = [f"  … and {more:,} more"] if more else []
        return "\n".join([self._after, *lines, *rest, self.health])

    def to_pandas(self) -> Any:
        """A DataFrame with a row per feature: estimate and standard_error. Needs the extra ``data``."""
        columns = {"estimate": self.theta, "standard_error": self.standard_errors}
        return pandas().DataFrame(columns, index=pandas().Index(self.names, name="feature"))

    def plot(self, ax: Any = None, *, most: int = 30) -> Any:
        """Draw estimates ± 2 standard errors; the matplotlib axes. Needs the extra ``report``.

        Args:
            ax: Axes to draw on; a new figure by default.
            most: Features drawn: those with the largest estimates, in their own order.
        """
        from quietshelf.report.interactive import plot_tastes

        return plot_tastes(self.names, self.theta, self.standard_errors, ax, most=most)

    def _repr_html_(self) -> str:
        figures = zip(self.names[:PRINTED], self.theta, self.standard_errors, strict=False)
        rows = [(name, f"{value:+.3f}", f"{error:.3f}") for name, value, error in figures]
        more = len(self.names) - len(rows)
        note = f"… and {more:,} more; {self.health}" if more else self.health
        return html_table(self._after, ("feature", "estimate", "± s.e."), rows, note)

    @property
    def _after(self) -> str:
        return f"tastes after {self.releases} release{'' if self.releases == 1 else 's'}"
