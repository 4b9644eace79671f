"""Choose the ridge by cross-validation. Looks at the data: not private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.model.choice import fit, log_likelihood, utilities
from quietshelf.model.types import FloatArray, integer, require

RIDGES = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0)


def best_ridge(rounds: EncodedRounds, *, ridges: Sequence[float] = RIDGES, folds: int = 5) -> float:
    """The ridge with the largest held-out likelihood; fold k holds every ``folds``-th round from the k-th on."""
    return float(ridges[int(np.argmax(held_out(rounds, ridges=ridges, folds=folds)))])


def held_out(rounds: EncodedRounds, *, ridges: Sequence[float] = RIDGES, folds: int = 5) -> FloatArray:
    """Held-out log-likelihood of every ridge, (len(ridges),); each fit starts from the previous ridge's."""
    count = len(rounds.choice)
    require(len(ridges) > 0, "ridges must not be empty")
    integer("folds", folds, low=2, high=max(count, 2), high_name="rounds")
    fold = np.arange(count) % folds
    total = np.zeros(len(ridges))
    for k in range(folds):
        seen, unseen = (rounds.only(mask) for mask in (fold != k, fold == k))
        theta: FloatArray = np.zeros(rounds.features.shape[-1])
        for place, ridge in sorted(enumerate(ridges), key=lambda pair: -pair[1]):
            theta = fit(*seen, ridge=ridge, start=theta).theta
            utility = utilities(unseen.features, theta)
            total[place] += log_likelihood(utility, unseen.choice, unseen.available).sum()
    return total
