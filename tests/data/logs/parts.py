"""Logs cut into Parquet files, for tests of logs in partitions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from quietshelf.model.types import FloatArray, IntArray

VARIED = {"price": (0.5, 2.0), "stars": (0.0, 1.0), "visitor_age": (0.2, 1.5)}
"""Declared centre and spread of the features of `varied_log`."""


def varied_log(rounds: int, *, seed: int = 0, text: bool = False) -> Any:
    """Rounds of 1 to 7 items, some not shown, and persons who come again and again, in any order."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 8, size=rounds)
    owner = np.repeat(np.arange(rounds), length)
    place = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length)
    shown = place < rng.integers(1, 5, size=rounds)[owner]
    price, stars, age = rng.normal(size=owner.size), rng.uniform(size=owner.size), rng.normal(size=rounds)
    utility = np.where(shown, 0.3 - price + 0.5 * stars + 0.4 * age[owner], -np.inf) + rng.gumbel(size=owner.size)
    top = np.maximum.reduceat(utility, np.cumsum(length) - length)
    taken = (utility == top[owner]) & (top > rng.gumbel(size=rounds))[owner]
    number = rng.permutation(10 * rounds)[:rounds]
    person = rng.integers(max(1, rounds // 3), size=rounds)
    table = pd.DataFrame(
        {
            "round": number[owner],
            "item": place,
            "position": np.where(shown, place + 1.0, np.nan),
            "chosen": taken.astype(int),
            "person": person[owner],
            "price": price,
            "stars": stars,
            "visitor_age": age[owner],
        }
    )
    if text:
        table = table.assign(**{name: "id " + table[name].astype(str) for name in ("round", "item", "person")})
    return table


def in_parts(table: Any, folder: Path, cuts: list[int], **options: Any) -> Path:
    """The table as files that begin at these rounds, counted in the order of the table."""
    folder.mkdir(parents=True)
    code = pd.factorize(table["round"])[0]
    edges = [0, *cuts, int(code.max()) + 1]
    for number, (low, high) in enumerate(pairwise(edges)):
        part = table[(code >= low) & (code < high)]
        part.to_parquet(folder / f"part-{number:03d}.parquet", index=False, **options)
    return folder


class Counted:
    """Noise of fixed numbers on a grid: two fits that draw alike have the same noise."""

    noiseless = False

    def __init__(self, grid: float) -> None:
        from quietshelf.privacy.accounting import Assumption

        self.grid, self.draws, self.assumption = grid, 0, Assumption.EXACT_GRID
        self._rng = np.random.default_rng(11)

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        self.draws += 1
        noise = scale * self._rng.standard_normal(size)
        return np.asarray(np.round(noise / self.grid) * self.grid if self.grid else noise)

    def only(self, worlds: IntArray) -> Counted:
        raise NotImplementedError(worlds)
