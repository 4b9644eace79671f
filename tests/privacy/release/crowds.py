"""Visitors who choose by a multinomial logit, for curators to learn from."""

from __future__ import annotations

import numpy as np

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Round

ITEMS, PLACES, DIM = 8, 3, 2


def rounds(
    length: int,
    worlds: tuple[int, ...] = (),
    *,
    seed: int = 0,
    places: int = PLACES,
    dim: int = DIM,
    theta: float = 1.0,
    empty: bool = True,
) -> list[Round]:
    """Random assortments, some with an empty place, and choices from a logit with all tastes equal to ``theta``."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(length):
        x = rng.normal(size=(*worlds, ITEMS, dim))
        shown = np.argsort(rng.random((*worlds, ITEMS)), axis=-1)[..., :places]
        if empty and places > 1:
            shown[..., -1] = np.where(rng.random(worlds) < 0.3, -1, shown[..., -1])
        utility = theta * np.take_along_axis(x.sum(-1), np.maximum(shown, 0), axis=-1)
        utility = np.where(shown >= 0, utility, -np.inf)
        noisy = np.concatenate([utility, np.zeros((*worlds, 1))], axis=-1) + rng.gumbel(size=(*worlds, places + 1))
        bought = np.concatenate([shown, np.full((*worlds, 1), -1)], axis=-1)
        choice = np.take_along_axis(bought, noisy.argmax(-1)[..., None], axis=-1)[..., 0]
        made.append(Round(Context(Dense(x), np.ones(ITEMS), places), shown, choice))
    return made
