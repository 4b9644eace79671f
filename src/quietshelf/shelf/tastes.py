"""What the releases of a shelf say about visitors' tastes, and how surely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quietshelf.release.quiet import Learner
from quietshelf.types import FloatArray


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
