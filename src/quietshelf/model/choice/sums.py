"""What Newton needs from rounds, however they are stored: sums over all of them at one theta."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from quietshelf.model.types import FloatArray


class Sums(NamedTuple):
    """Log-likelihood (...), its gradient (..., d) and the Fisher information (..., d, d), summed over rounds."""

    log_likelihood: FloatArray
    slope: FloatArray
    information: FloatArray


class Likelihood(Protocol):
    """Rounds of one problem or many, stored as dense features or otherwise."""

    @property
    def rounds(self) -> int:
        """Rounds per problem."""

    @property
    def largest(self) -> float:
        """The largest absolute entry of x, or a bound on it; it bounds rounding errors."""

    def sums(self, theta: FloatArray) -> Sums:
        """The sums over all rounds at theta, (..., d)."""
