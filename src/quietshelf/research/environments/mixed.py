"""Visitors of several latent classes, whose tastes differ: their choices are no logit of the average tastes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.model.types import NOTHING, BoolArray, Context, FloatArray, IntArray
from quietshelf.research.environments.logit import KnownRound, check_allowed, taken


@dataclass(frozen=True, eq=False)
class MixedRound(KnownRound):
    """A visitor of each world who is of one of M latent classes, all equally likely; nobody knows of which.

    They choose by ``utility``, that of their own class. What an offer earns is averaged over the classes; regret is
    against ``known``, the revenue of `best_on_average`.

    Attributes:
        classes: Utilities of every class, (..., M, R, N).
    """

    classes: FloatArray

    def _cut(self, context: Context, index: Any) -> MixedRound:
        own = self.utility[index], self.draw[index], self.known[index]
        return MixedRound(context, *own, self.classes[index])

    def regret(self, assortment: IntArray) -> FloatArray:
        """Expected revenue lost, on average over the classes, (...)."""
        items = np.sort(assortment, axis=-1)
        check_allowed(self.context, items)
        earned = average_revenue(self.classes, self.context.revenue, items)
        return np.maximum(self.known - earned, 0.0)  # an offer may be better than the one that was found by steps


def average_revenue(classes: FloatArray, revenue: FloatArray, items: IntArray) -> FloatArray:
    """Expected revenue of items (..., R, K), (..., R), averaged over utilities (..., M, R, N) of the classes."""
    utility = taken(classes, items[..., None, :, :])
    utility = np.where(items[..., None, :, :] == NOTHING, -np.inf, utility)
    largest = utility.max(axis=-1, keepdims=True, initial=0.0)
    weight = np.exp(utility - largest)
    earned = (weight * taken(revenue, items)[..., None, :, :]).sum(axis=-1)
    value: FloatArray = (earned / (weight.sum(axis=-1) + np.exp(-largest[..., 0]))).mean(axis=-2)
    return value


def best_on_average(classes: FloatArray, revenue: FloatArray, capacity: int, available: BoolArray | None) -> FloatArray:
    """The revenue, (R,), of the assortment that grows by the item that adds most, until none does or K are shown.

    For one item this is the best there is. For more no fast method is exact; with equal revenues what is found is at
    least 1 - 1/e of the best, for revenue is then monotone and submodular in the set, and in fact nearly all of it.

    Args:
        classes: Utilities of equally likely classes, (M, R, N).
        revenue: Of the items, (R, N).
        capacity: K.
        available: Items that may be shown, (R, N); None means all.
    """
    weight = np.exp(classes)
    earned, total = np.zeros((*classes.shape[:-1], 1)), np.ones((*classes.shape[:-1], 1))
    value = np.zeros(classes.shape[1:-1])
    open_ = np.ones(classes.shape[1:], dtype=bool) if available is None else available.copy()
    for _ in range(capacity):
        after = ((earned + weight * revenue) / (total + weight)).mean(axis=0)
        after = np.where(open_, after, -np.inf)
        item = after.argmax(axis=-1)[..., None]
        found = np.take_along_axis(after, item, axis=-1)[..., 0]
        better = found > value
        if not better.any():
            break
        value = np.where(better, found, value)
        added = np.where(better[..., None], np.take_along_axis(weight, item[None], axis=-1), 0.0)
        earned, total = earned + added * np.take_along_axis(revenue, item, axis=-1), total + added
        np.put_along_axis(open_, item, False, axis=-1)
    return value
