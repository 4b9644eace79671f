"""Crowds of visitors, and parts of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.privacy.statistics import Factors, ObservedChoice, Pair

SIZES = np.array([1.0, 1.0, 1.0, 0.0, 1e-320, 1e-8, 1e5, 1e150, 1e200, 1e307])


def part_of(values: ObservedChoice | Pair | Factors, who: Any) -> Any:
    return type(values)(*(np.array(each[who]) for each in values))


def some_crowd(rng: np.random.Generator, visitors: int, places: int, dim: int) -> ObservedChoice:
    """Visitors of any size, shown any number of items."""
    size = rng.choice(SIZES, size=(visitors, 1, 1))
    offered = rng.random((visitors, places)) < rng.choice([0.6, 1.0], size=(visitors, 1))
    rows = np.where(offered[..., None], size * rng.normal(size=(visitors, places, dim)), 0.0)
    position = np.array([rng.choice([-1, *np.flatnonzero(held)]) for held in offered])
    return ObservedChoice(rows, offered, position)
