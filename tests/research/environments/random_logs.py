"""Logs of random assortments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def random_log(count: int, *, items: int = 4, shown: int = 2, seed: int = 0, marked: bool = True) -> Any:
    """A table whose assortments were drawn uniformly; visitors like cheap items, utility -0.5 - price."""
    rng = np.random.default_rng(seed)
    price = rng.normal(size=(count, items))
    place = rng.permuted(np.tile(np.arange(items), (count, 1)), axis=1)
    there = place < shown
    noisy = np.where(there, -0.5 - price, -np.inf) + rng.gumbel(size=price.shape)
    taken = (noisy == noisy.max(axis=1, keepdims=True)) & (noisy.max(axis=1) > rng.gumbel(size=count))[:, None]
    table = pd.DataFrame(
        {
            "round": np.repeat(np.arange(count), items),
            "item": np.tile(np.arange(items), count),
            "position": np.where(there, place + 1.0, np.nan).ravel(),
            "chosen": taken.ravel().astype(int),
            "price": price.ravel(),
        }
    )
    return table.assign(random=1) if marked else table
