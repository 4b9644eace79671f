"""A round reduced to what statistics need: the features shown, and which item was chosen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray, Round


class ObservedChoice(NamedTuple):
    """What one visitor saw and did.

    Attributes:
        rows: Features of the items shown, (..., K, d); zero in empty places.
        offered: Which places hold an item, (..., K).
        position: The place chosen, (...), or -1 for none.
    """

    rows: FloatArray
    offered: BoolArray
    position: IntArray


def observed_choice(round: Round) -> ObservedChoice:  # noqa: A002 - the noun on the arrow
    """Reduce a round. A choice of an item that was not shown counts as no choice."""
    chosen = (round.assortment == round.choice[..., None]) & (round.choice[..., None] != NOTHING)
    position = np.where(chosen.any(-1), chosen.argmax(-1), NOTHING)
    return ObservedChoice(round.context.features.rows(round.assortment), round.assortment != NOTHING, position)
