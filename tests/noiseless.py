"""A source that draws zeros: to see the bare statistic."""

from __future__ import annotations

import numpy as np

from quietshelf.model.types import FloatArray, IntArray, positive
from quietshelf.privacy.accounting import Assumption


class Noiseless:
    """No noise at all; the ledger of what is released with it reads infinite."""

    grid = 0.0
    assumption = Assumption.REAL_ARITHMETIC
    noiseless = True

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """Zeros."""
        positive("scale", scale)
        return np.zeros(size)

    def only(self, worlds: IntArray) -> Noiseless:  # noqa: ARG002 - the same for all
        """The same source."""
        return self
