"""The subject of an audit: a name, a claim, and a callable that runs the shipped code in one of two worlds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, require
from quietshelf.privacy.accounting import DELTA, epsilon_of, epsilon_of_gaussian

Run = Callable[[bool, int, np.random.Generator], FloatArray]
"""(whether the target is the first neighbour, number of runs, generator) -> everything released, (runs, features)."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is promised of a mechanism.

    Attributes:
        rho: The claim in zCDP; infinite if nothing is promised.
        gaussian: Whether it also promises that no test does better than against one Gaussian release of that rho.
        delta: The delta that epsilon is stated for; the default one, unless the mechanism is calibrated at its own.
        epsilon: The claim at that delta; follows from rho unless given.
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
        """Whether nothing is promised."""
        return math.isinf(self.rho) and math.isinf(self.epsilon)


class ExactCost(NamedTuple):
    """The exact cost of a pair of neighbours: rho in zCDP, and epsilon at the claim's delta."""

    rho: float
    epsilon: float

    @classmethod
    def gaussian(cls, rho: float, delta: float) -> ExactCost:
        """The cost of telling two Gaussians of equal covariance apart."""
        return cls(rho, epsilon_of_gaussian(math.sqrt(2 * rho), delta))


@dataclass(frozen=True, eq=False, kw_only=True)
class Auditable:
    """Something that claims to be private, and two neighbouring worlds to test it in.

    Attributes:
        name: What is audited.
        pair: The two neighbours, in words.
        claim: What is promised.
        run: The shipped code path; rows must be independent draws.
        exact: Computes the exact cost of this pair, if that is possible.
        slow: Divide the number of runs by this.
    """

    name: str
    pair: str
    claim: Claim
    run: Run
    exact: Callable[[], ExactCost] | None = None
    slow: int = 1
