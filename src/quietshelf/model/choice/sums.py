"""What Newton asks of rounds, however they are kept: sums over all of them at one theta."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from quietshelf.model.types import FloatArray


class Sums(NamedTuple):
    """Log-likelihood (...), its gradient (..., d) and the Fisher information (..., d, d), added up over rounds."""

    log_likelihood: FloatArray
    slope: FloatArray
    information: FloatArray


class Likelihood(Protocol):
    """Rounds of one or many problems side by side, as dense features or otherwise."""

    @property
    def rounds(self) -> int:
        """How many, in each problem."""

    @property
    def largest(self) -> float:
        """The largest entry of x in size, or a bound on it: rounding is judged by it."""

    def sums(self, theta: FloatArray) -> Sums:
        """At theta, (..., d)."""
