"""Simulated searches."""

from __future__ import annotations

import numpy as np

from quietshelf.data.logs.searches import Searches


def made_up(count: int = 600, items: int = 12, seed: int = 0, strength: float = 1.0) -> Searches:
    """Searches whose visitors choose by (1, u, v) with known tastes."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(count, 2)), rng.normal(size=(items, 3))
    shown = rng.random((count, items)) < 0.5
    shown[:, 0] = True
    utility = -1.0 + strength * ((u @ [0.5, -0.3])[:, None] + v @ [0.8, -0.5, 0.2])
    noisy = np.where(shown, utility, -np.inf) + rng.gumbel(size=shown.shape)
    choice = np.where(noisy.max(axis=1) > rng.gumbel(size=count), noisy.argmax(axis=1), -1)
    names = ("u1", "u2"), ("v1", "v2", "v3")
    return Searches(u, v, shown, choice, *names, np.arange(count), np.arange(items))
