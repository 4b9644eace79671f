"""What the releases of a shelf say about visitors' tastes, and how surely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quietshelf.release.quiet import Learner
from quietshelf.types import FloatArray

PRINTED = 20
"""Features that are printed; all of them are in ``theta``."""


@dataclass(frozen=True, repr=False)
class Tastes:
    """What the releases say about visitors' tastes.

    Attributes:
        theta: Estimate, (d,).
        standard_errors: Uncertainty of each coordinate, noise included, (d,). Early estimates also lean towards zero,
            which this does not count.
        precision: Information matrix, (d, d).
        releases: How many releases it rests on.
        health: One line on whether the releases stand above their noise.
        names: What each coordinate is called, (d,); "age:price" is how price matters more with age.
    """

    theta: FloatArray
    standard_errors: FloatArray
    precision: FloatArray
    releases: int
    health: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, learner: Learner, names: tuple[str, ...]) -> Tastes:
        """From releases alone."""
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
        count = f"{self.releases} release{'' if self.releases == 1 else 's'}"
        return "\n".join([f"tastes after {count}", *lines, *rest, self.health])
