"""Features divided by a number, without forming them."""

from __future__ import annotations

from dataclasses import dataclass

from quietshelf.types import Features, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Scaled:
    """The features ``x / scale``.

    Attributes:
        features: x, dense or structured.
        scale: Positive.
    """

    features: Features
    scale: float

    @property
    def items(self) -> int:
        """N, the number of items."""
        return self.features.items

    @property
    def dim(self) -> int:
        """d, the length of x."""
        return self.features.dim

    def utility(self, theta: FloatArray) -> FloatArray:
        """``x . theta / scale`` of every item, (..., N)."""
        return self.features.utility(theta / self.scale)

    def norm(self, metric: FloatArray) -> FloatArray:
        """``sqrt(x' metric x) / scale`` of every item, (..., N)."""
        return self.features.norm(metric) / self.scale

    def rows(self, items: IntArray) -> FloatArray:
        """The vectors of the given items, (..., K, d)."""
        return self.features.rows(items) / self.scale
