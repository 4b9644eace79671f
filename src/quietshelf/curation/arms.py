"""Which arm serves a slot, the learned policy or the shop's present ranking: decided by the slot's own coin (R3).

The share of the learned policy is public, and so is the guard, which reads releases alone. No visitor's data or answer
moves anyone to another arm (docs/proofs.md, section 19).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quietshelf.curation.coins import SlotCoins
from quietshelf.curation.decisions import Decision
from quietshelf.curation.settings import ShelfSettings
from quietshelf.model.types import Context
from quietshelf.privacy.release.comparison import Comparison, compare
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import if_chosen


def comparison(settings: ShelfSettings, learner: Learner | None) -> Comparison:
    """Compare the two arms from releases."""
    released = () if learner is None else learner.arms
    found = compare(released, most=settings.most_revenue or 1.0, conversion=settings.conversion)
    return replace(found, fallen_back=learner is not None and fallen_back(settings, learner))


def fallen_back(settings: ShelfSettings, learner: Learner) -> bool:
    """Whether the guard has switched the learned policy off, because releases show beyond doubt that it earns less."""
    return settings.guard and settings.comparison > 0 and learner.outsold


def share_of(settings: ShelfSettings, learner: Learner) -> float:
    """The share of visitors whom the learned policy serves now."""
    return 0.0 if fallen_back(settings, learner) else settings.learned_share


def present(share: float, coins: SlotCoins) -> list[bool]:
    """R3: which slots the present ranking serves; only the coin of a slot decides.

    ``share`` is that of the learned policy; at 1 no coin is tossed.
    """
    return [False] * len(coins) if share >= 1.0 else [each >= share for each in coins.arms()]


def policies(settings: ShelfSettings, arms: Sequence[bool]) -> list[str]:
    """The policy that serves each visitor."""
    return [settings.present if present else settings.policy for present in arms]


def kept(settings: ShelfSettings, decision: Decision, context: Context, *, present: bool) -> Decision:
    """Add to a decision, beside the features of each item shown, what its contribution to a comparison needs."""
    if settings.most_revenue is None or not settings.comparison:
        return decision
    sold = if_chosen(context.revenue[decision.items], present=present, most=settings.most_revenue)
    return decision._replace(rows=np.concatenate([decision.rows, sold], axis=1))
