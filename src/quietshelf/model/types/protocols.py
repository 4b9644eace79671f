"""The three parties of the loop: policy, curator, environment. Any object with these methods will do."""

from __future__ import annotations

from typing import Protocol

from quietshelf.model.types.nouns import Context, Release, Round
from quietshelf.model.types.streams import Random
from quietshelf.model.types.validation import FloatArray, IntArray


class Policy(Protocol):
    """A pure function of the present visitor, the last release and a generator; it never sees raw data."""

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""


class Curator(Protocol):
    """The trusted party: keeps raw statistics, spends the budget, hands out releases."""

    @property
    def release(self) -> Release:
        """The last release; before the first visitor, public knowledge only."""

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor per world; return the release from which the next visitor is served."""


class Environment(Protocol):
    """A world of visitors whose true tastes are known, so that regret is exact.

    ``context`` opens a round; ``choose`` and ``regret`` refer to the open round. Any number of contestants may call
    them: all face the same visitor and the same randomness of choice.
    """

    def context(self, t: int) -> Context:
        """The visitor of round t in every world; rounds are asked for in order, from 0."""

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        """The item that this visitor picks from the assortment, (...), or -1; equal sets give equal choices."""

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        """Expected revenue lost compared with the best assortment, (...)."""
