"""What can be audited: a name, a claim, and a callable that runs the shipped code in one of two neighbouring worlds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, require
from quietshelf.privacy.accounting import DELTA, epsilon_of, epsilon_of_gaussian

Run = Callable[[bool, int, np.random.Generator], FloatArray]
"""(whether the target is the first neighbour, how many runs, chance) -> all that leaves, (runs, features)."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is promised of a mechanism.

    Attributes:
        rho: In zCDP; infinite where nothing is promised.
        gaussian: Whether it is also promised that no test does better than against one Gaussian release of that rho.
        delta: At which epsilon is stated; the one of all statements, unless the mechanism is calibrated at its own.
        epsilon: Claimed at that delta; follows from rho unless given.
    """

    rho: float = math.inf
    gaussian: bool = False
    delta: float = DELTA
    epsilon: float = math.nan

    def __post_init__(self) -> None:
        require(self.rho >= 0, "rho must be at least zero", rho=self.rho)
        require(0 < self.delta < 1, "delta must be in (0, 1)", delta=self.delta)
        if math.isnan(self.epsilon):
            object.__setattr__(self, "epsilon", epsilon_of(self.rho, self.delta))

    @property
    def nothing(self) -> bool:
        """Whether there is no promise that could be broken."""
        return math.isinf(self.rho) and math.isinf(self.epsilon)


class ExactCost(NamedTuple):
    """What a pair of neighbours costs, computed without sampling: rho in zCDP, and epsilon at the claim's delta."""

    rho: float
    epsilon: float

    @classmethod
    def gaussian(cls, rho: float, delta: float) -> ExactCost:
        """Of two Gaussians with the same covariance."""
        return cls(rho, epsilon_of_gaussian(math.sqrt(2 * rho), delta))


@dataclass(frozen=True, eq=False, kw_only=True)
class Auditable:
    """Something that claims to be private, and two neighbouring worlds to try it in.

    Attributes:
        name: What is audited.
        pair: The two neighbours, in words.
        claim: What is promised.
        run: The shipped code path; draws must be independent, one a row.
        exact: What this pair of neighbours really costs, where that can be computed without sampling.
        slow: How many times fewer runs it gets than others.
    """

    name: str
    pair: str
    claim: Claim
    run: Run
    exact: Callable[[], ExactCost] | None = None
    slow: int = 1
