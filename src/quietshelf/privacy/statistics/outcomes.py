"""What one visitor contributes to a comparison of two arms: whether they chose something, and what it earned.

Both numbers lie between 0 and 1, in the two places of the arm that served the visitor; the other arm's are zero. The
arm is decided before the visitor is looked at, so replacing a visitor moves one arm by (1, 1) at most.
Reference: docs/proofs.md, section 19.
"""

from __future__ import annotations

import math

import numpy as np

from quietshelf.model.types import NOTHING, FloatArray, IntArray, positive

ARMS = ("learned", "present")
"""The two arms: the learned policy, and what the shop does today."""
OUTCOMES = ("chosen", "revenue")
"""What is compared; revenue is in units of the declared most."""
OUTCOME_NUMBERS = len(ARMS) * len(OUTCOMES)
OUTCOME_SENSITIVITY = math.sqrt(len(OUTCOMES))
"""The most that replacing one visitor moves the sums. Rounding to a power of two below 1 preserves it: 0 and 1 stay."""


@np.errstate(all="ignore")  # overflowing revenue is clipped, and no warning may show it
def if_chosen(revenue: FloatArray, *, present: bool, most: float) -> FloatArray:
    """What each item shown, (k,), would add to the sums if it were chosen, (k, OUTCOME_NUMBERS).

    >>> if_chosen(np.array([3.0, 30.0]), present=True, most=20.0)
    array([[0.  , 0.  , 1.  , 0.15], [0.  , 0.  , 1.  , 1.  ]])
    """
    worth = np.zeros((len(revenue), len(ARMS), len(OUTCOMES)))
    worth[:, int(present)] = np.stack([np.ones(len(revenue)), revenue / positive("most", most)], axis=-1)
    return bounded(worth).reshape(len(revenue), OUTCOME_NUMBERS)


def bounded(worth: FloatArray) -> FloatArray:
    """Clip each number to [0, 1]; NaN becomes 0."""
    return np.clip(np.nan_to_num(worth, nan=0.0), 0.0, 1.0)


def outcome(worth: FloatArray, position: IntArray) -> FloatArray:
    """The contribution of each visitor, (..., OUTCOME_NUMBERS), given the worth of the items shown, (..., k, .).

    Args:
        worth: From `if_chosen`; bounded here again, in case it was stored in between.
        position: The place chosen, (...), -1 for none.
    """
    taken = np.take_along_axis(worth, np.maximum(position, 0)[..., None, None], axis=-2)[..., 0, :]
    return np.where((position == NOTHING)[..., None], 0.0, bounded(taken))
