"""The settings of `quiet`: those that affect the guarantee, and those that do not.

Reference: docs/proofs.md, sections 3, 7 and 19.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from quietshelf.model.types import integer, positive, require
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.prior import EFFECT_SPREAD, UNDECLARED

MOST_COMPARISON = 0.9
"""The largest share of a release's budget for the comparison; learning needs the rest."""
LEAST_RHO = 1e-12
"""The least rho of one release."""


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """How `quiet` learns. The first half affects the guarantee, the second does not.

    Attributes:
        rho: The promise to one person (or one visit) for the whole run, in zCDP.
        visits: How many visits of one person count, at most one per batch; each release spends rho / visits.
        unit: Whether persons are identified, or only visits.
        comparison: Share of each release's budget for the comparison of two arms; 0 for no comparison.
        conversion: Declared share of visitors who choose something; None if unknown.
        first: The first batch has ``first sqrt(d) / conversion (1 + 1 / rho)`` visitors, rho of one release.
        growth: Size of each batch relative to the one before.
        max_batch: The largest batch; for tastes that drift.
        forgetting: Factor by which every release reduces the weight of older records; 1 forgets nothing.
        optimism: Standard deviations added to utilities, and of tastes drawn per visitor where all see the same items.
        item_effects: How many of the last places of x are item effects.
        effect_spread: Standard deviation of effects, relative to that of the utilities that features explain.
    """

    rho: float
    visits: int = 1
    unit: Literal["visit", "person"] = "visit"
    comparison: float = 0.0

    conversion: float | None = None
    first: float = 1.3
    growth: float = 1.35
    max_batch: int | None = None
    forgetting: float = 1.0
    optimism: float = 0.45
    item_effects: int = 0
    effect_spread: float = EFFECT_SPREAD

    def __post_init__(self) -> None:
        positive("rho", self.rho)
        integer("visits", self.visits)
        some = isinstance(self.comparison, (int, float)) and 0 <= self.comparison <= MOST_COMPARISON
        rule = f"comparison must be a share of the budget, from 0 to {MOST_COMPARISON:g}"
        require(some, rule, comparison=self.comparison)
        least = f"rho of one release, rho / visits, must be at least {LEAST_RHO:g}: more noise cannot be drawn exactly"
        drawn = [self.rho_to_learn, *([self.rho_to_compare] if self.comparison else [])]
        require(min(drawn) >= LEAST_RHO, least, rho=self.rho, visits=self.visits)
        require(self.unit == "person" or self.visits == 1, "visits above 1 need person ids", visits=self.visits)
        share = self.conversion
        known = share is None or (isinstance(share, (int, float)) and 0 < share < 1)
        require(known, "conversion must be a share of visitors, above 0 and below 1", conversion=self.conversion)
        positive("first", self.first)
        require(1 <= self.growth < math.inf, "growth must be at least 1 and finite", growth=self.growth)
        kept = isinstance(self.forgetting, (int, float)) and 0 < self.forgetting <= 1
        require(kept, "forgetting must be in (0, 1]", forgetting=self.forgetting)
        positive("optimism", self.optimism, zero=True)
        integer("item_effects", self.item_effects, low=0)
        positive("effect_spread", self.effect_spread)
        if self.max_batch is not None:
            integer("max_batch", self.max_batch)

    @property
    def rho_per_release(self) -> float:
        """The budget of one batch."""
        return self.rho / self.visits

    @property
    def rho_to_learn(self) -> float:
        """The budget for the pair of one batch."""
        return self.rho_per_release * (1.0 - self.comparison)

    @property
    def rho_to_compare(self) -> float:
        """The budget for the outcomes of one batch."""
        return self.rho_per_release * self.comparison

    def ledger(self, source: NoiseSource) -> Ledger:
        """An empty ledger with this budget; no limit if the source is noiseless, because rho is then infinite."""
        return Ledger(budget=None if source.noiseless else self.rho, visits=self.visits, unit=self.unit)

    def batch_size(self, dim: int, previous: int | None) -> int:
        """Size of the batch that follows one of size ``previous``."""
        share = min(self.conversion or UNDECLARED, 0.9)
        first = self.first * math.sqrt(dim) / share * (1.0 + 1.0 / self.rho_to_learn)
        exact = first if previous is None else self.growth * previous
        size = max(1, math.ceil(round(exact, 6)))  # 1.35 times 680 is 918 and a little
        return size if self.max_batch is None else min(size, self.max_batch)
