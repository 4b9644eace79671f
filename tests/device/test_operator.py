"""What docs/sharp-edges.md says of an operator who sets out to know: an exact contribution tells nearly everything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from quietshelf.curation.device import contribute
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray

TEAS = np.array([[1.5, -1.0], [-0.5, 0.5], [-1.0, 1.5], [0.0, -0.5]])
MAP = feature_map("full", intercept=True, effects=0)
DIM = MAP.dim(2, 2)
BATCH: dict[str, Any] = {
    "batch": 0,
    "size": 100,
    "theta": [0.0] * DIM,
    "coordinates": np.eye(DIM).tolist(),
    "bound": 0.4,
    "information_scale": 0.4,
    "score_grid": 2.0**-20,
}


def seen(features: FloatArray, shown: Sequence[int], chosen: int) -> dict[str, FloatArray]:
    """What the operator holds of this visitor."""
    found = contribute(BATCH, Catalogued(features, TEAS, MAP).rows(np.array(shown)), chosen)
    return {name: np.array(part).ravel() for name, part in found.items()}


def away(guess: FloatArray, rows: FloatArray, shown: Sequence[int]) -> FloatArray:
    """How far these rows are from those of somebody with these features, who was shown these items."""
    return np.asarray(seen(guess, shown, -1)["rows"] - rows)


def worked_out(held: dict[str, FloatArray]) -> tuple[FloatArray, tuple[int, ...], int]:
    """The features, items and choice that fit best."""
    count, nearest = len(held["rows"]) // DIM - 1, np.inf
    for some in combinations(range(len(TEAS)), count):
        for start in ((0.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)):
            fit = least_squares(away, start, diff_step=[1e-3], args=(held["rows"], some))
            if fit.cost < nearest:
                nearest, features, shown = fit.cost, fit.x, some
    fits = [np.abs(seen(features, shown, place)["score"] - held["score"]).sum() for place in range(-1, count)]
    return features, shown, int(np.argmin(fits)) - 1


def test_from_an_exact_contribution_features_items_and_choice_can_be_worked_out() -> None:
    """So nobody may take this mode for protection from the operator; the pages say as much."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        features = rng.uniform(-2.0, 2.0, 2)
        shown = tuple(sorted(rng.permutation(len(TEAS))[:3].tolist()))
        chosen = int(rng.integers(-1, 3))
        guess, items, choice = worked_out(seen(features, shown, chosen))
        assert (items, choice) == (shown, chosen)
        assert np.abs(guess - features).max() < 1e-5
