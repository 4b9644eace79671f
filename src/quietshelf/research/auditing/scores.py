"""One number per run, large if the target looks like the first neighbour; trained on runs that are then set aside.

Any score gives a valid audit; a better one finds more. The candidates are Fisher's linear discriminants, which are the
likelihood ratio for Gaussian outputs: with and without squares, at several ridges. The best one on a second part of the
training runs is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray

RIDGES = (1e-10, 1e-3, 0.3)
"""From trusting every direction, even those without noise, to using each feature by itself."""
MOST_SQUARED = 40
"""With more features than this, squares are not tried."""
CLIP = 1e6


class Score(NamedTuple):
    """Outputs (runs, features) -> scores (runs,): standardise, optionally add squares, project."""

    kept: BoolArray
    centre: FloatArray
    scale: FloatArray
    squares: bool
    weights: FloatArray

    def __call__(self, outputs: FloatArray) -> FloatArray:
        """The score of each run."""
        return np.asarray(self.expand(outputs) @ self.weights)

    def expand(self, outputs: FloatArray) -> FloatArray:
        """Standardised features, with their squares if the score uses them."""
        x = np.clip((outputs[:, self.kept] - self.centre) / self.scale, -CLIP, CLIP)
        return np.concatenate([x, x * x], axis=1) if self.squares else x


def candidates(first: FloatArray, second: FloatArray) -> Iterator[Score]:
    """Scores fitted to runs of the first and of the second neighbour."""
    both = np.concatenate([first, second])
    kept = _informative(both)
    if not kept.any():
        yield Score(kept, np.zeros(0), np.ones(0), False, np.zeros(0))
        return
    centre = both[:, kept].mean(axis=0)
    within = np.sqrt((first[:, kept].var(axis=0) + second[:, kept].var(axis=0)) / 2)
    apart = np.abs(first[:, kept].mean(axis=0) - second[:, kept].mean(axis=0))
    scale = np.maximum(within, 1e-6 * np.maximum(apart, np.finfo(float).tiny))
    for squares in (False, True) if kept.sum() <= MOST_SQUARED else (False,):
        blank = Score(kept, centre, scale, squares, np.zeros(0))
        x, y = blank.expand(first), blank.expand(second)
        covariance = np.atleast_2d((np.cov(x, rowvar=False) + np.cov(y, rowvar=False)) / 2)
        size = np.maximum(np.diagonal(covariance), 1e-12)
        for ridge in RIDGES:
            weights = np.linalg.solve(covariance + ridge * np.diag(size), x.mean(axis=0) - y.mean(axis=0))
            yield blank._replace(weights=weights)


def _informative(outputs: FloatArray) -> BoolArray:
    """Whether each feature varies and does not repeat an earlier one, (features,)."""
    varies, seen = np.ptp(outputs, axis=0) > 0, set()
    for place in np.flatnonzero(varies):
        column = outputs[:, place].tobytes()
        varies[place] = column not in seen
        seen.add(column)
    return np.asarray(varies)


def learn(first: FloatArray, second: FloatArray, worth: Callable[[FloatArray, FloatArray], float]) -> Score:
    """The candidate, fitted on one half of these runs, that is worth most on the other half."""
    cut = len(first) // 2
    tried = list(candidates(first[:cut], second[:cut]))
    worths = [worth(score(first[cut:]), score(second[cut:])) for score in tried]
    return tried[int(np.argmax(worths))]
