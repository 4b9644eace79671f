"""What the shop shows today: its own ranking, best first, under the same constraints as every other offer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from quietshelf.model.assortment import items_for
from quietshelf.model.types import Context, IntArray, Random, Release


@dataclass(frozen=True)
class Ranking:
    """The first items of ``context.ranks`` that may be shown; items without a rank only if required."""

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:  # noqa: ARG002 - it learns nothing
        """The assortment to show, (..., K) item indices with -1 for empty places; ties go to the lower index."""
        if context.ranks is None:
            raise ValueError("ranks must be given to serve the present ranking, got ranks=None")
        ranks = np.broadcast_to(context.ranks, context.revenue.shape)
        ranked = np.isfinite(ranks)
        wanted = ranked if context.required is None else ranked | context.required
        allowed = wanted if context.available is None else wanted & context.available
        utility = -np.where(ranked, ranks, 0.0)
        return items_for(replace(context, available=allowed), utility, np.ones_like(utility))
