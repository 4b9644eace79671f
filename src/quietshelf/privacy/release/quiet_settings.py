"""How `quiet` learns: what alters the guarantee, and what does not.

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
"""Of a release's budget: a shelf that learns nothing needs no learner."""
LEAST_RHO = 1e-12
"""Of one release."""


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """How `quiet` learns. The first half alters the guarantee, the second does not.

    Attributes:
        rho: The promise to one person (or one visit) for the whole run, in zCDP.
        visits: How many visits of one person count, at most one a batch; each release spends rho / visits.
        unit: Whether visitors are told apart as persons, or only as visits.
        comparison: Share of each release's budget that goes to the comparison of two arms; 0 compares nothing.
        conversion: Declared share of visitors who choose something; None if nobody knows.
        first: The first batch has ``first sqrt(d) / conversion (1 + 1 / rho)`` visitors, rho of one release.
        growth: Each batch is so many times the one before.
        max_batch: No batch is larger; for tastes that drift.
        forgetting: Each older record counts so many times less at every release; 1 forgets nothing.
        optimism: Standard deviations added to utilities, and of tastes drawn for a visitor where all see the same.
        item_effects: How many of the last places of x are item effects.
        effect_spread: Their standard deviation, over that of utilities that features explain.
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
        """What one batch may cost."""
        return self.rho / self.visits

    @property
    def rho_to_learn(self) -> float:
        """What the pair of one batch may cost."""
        return self.rho_per_release * (1.0 - self.comparison)

    @property
    def rho_to_compare(self) -> float:
        """What the outcomes of one batch may cost."""
        return self.rho_per_release * self.comparison

    def ledger(self, source: NoiseSource) -> Ledger:
        """An empty ledger with this budget; without limit where the source is noiseless and all is lost anyway."""
        return Ledger(budget=None if source.noiseless else self.rho, visits=self.visits, unit=self.unit)

    def batch_size(self, dim: int, previous: int | None) -> int:
        """Visitors in the batch that follows one of size ``previous``."""
        share = min(self.conversion or UNDECLARED, 0.9)
        first = self.first * math.sqrt(dim) / share * (1.0 + 1.0 / self.rho_to_learn)
        exact = first if previous is None else self.growth * previous
        size = max(1, math.ceil(round(exact, 6)))  # 1.35 times 680 is 918 and a little
        return size if self.max_batch is None else min(size, self.max_batch)
