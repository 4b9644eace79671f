"""A service that is cut short: noise that counts its draws, and the error that stands for a lost process."""

from __future__ import annotations

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.noise import DiscreteGaussian


class Cut(Exception):  # noqa: N818 - the power is cut
    """Everything ends here."""


class Counting(DiscreteGaussian):
    """Real noise, counted."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = 0

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        self.draws += 1
        return super().draw(scale, size)
