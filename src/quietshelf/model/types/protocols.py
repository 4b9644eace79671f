"""The three parties of the loop: policy, curator, environment. Anything that fits plugs in."""

from __future__ import annotations

from typing import Protocol

from quietshelf.model.types.nouns import Context, Release, Round
from quietshelf.model.types.streams import Random
from quietshelf.model.types.validation import FloatArray, IntArray


class Policy(Protocol):
    """A pure function of the present visitor, the last release and a generator: never of anybody's raw data."""

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""


class Curator(Protocol):
    """The trusted party: keeps raw statistics, spends the budget, hands out releases."""

    @property
    def release(self) -> Release:
        """The last release; before the first visitor, what is known publicly."""

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor of each world; return the release that the next one is served from."""


class Environment(Protocol):
    """A world of visitors whose true tastes are known, so that regret is exact.

    ``context`` opens a round; ``choose`` and ``regret`` speak of the round that is open, and may be asked by any number
    of contestants: all face the same visitor and the same randomness of choice.
    """

    def context(self, t: int) -> Context:
        """The visitor of round t (from 0, one after the other) in every world."""

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        """The item that visitor picks from the assortment, (...), or -1; equal sets of items give equal choices."""

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        """Expected revenue lost against the best assortment, (...)."""
