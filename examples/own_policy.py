"""Bring your own policy, world and curator: any object with the right methods works. Run this file as it is.

A bookshop shows three books to each visitor, who sees each book's price, its quality and whether it is of their
favourite genre; some books are out of stock. Our policy is greedy, but sometimes shows a random assortment. To stay
short, the curator here learns without privacy; those in ``quietshelf.privacy.release`` are used in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import SeedSequence

from quietshelf.choice import fit
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray, IntArray, Random, Release, Round, Streams
from quietshelf.policies import Greedy, Uniform
from quietshelf.research.environments import LogitRound
from quietshelf.research.loop import Contestant, SimulationContext, simulate, summary

BOOKS, PLACES, GENRES = 40, 3, 4
TASTES = (-1.0, 1.0, 1.5)  # price, quality, favourite genre
IN_STOCK = 0.8
COIN = 0.05
REPLICATES, SEED = 10, 1
HORIZON = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


@dataclass(frozen=True)
class CoinGreedy:
    """Greedy, but a random assortment with a small probability."""

    probability: float

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show in each world."""
        tossed = rng.random(release.explore.shape) < self.probability
        return Greedy().offer(context, replace(release, explore=tossed), rng)


@dataclass(frozen=True)
class Bookshop:
    """The world: its public facts, and how to open replicates of it."""

    items: int = BOOKS
    dim: int = len(TASTES)
    capacity: int = PLACES

    def open(self, seeds: Sequence[SeedSequence]) -> OpenShop:
        """One shop per seed, side by side."""
        return OpenShop(seeds)


class OpenShop:
    """Several shops with their own books, each serving one visitor per round."""

    def __init__(self, seeds: Sequence[SeedSequence]) -> None:
        self.shops, self.rng = len(seeds), Streams(seeds)
        self.theta = np.tile(TASTES, (self.shops, 1))
        self.price, self.quality = np.moveaxis(self.rng.random((self.shops, 2, BOOKS)), 1, 0)
        self.genre = np.arange(BOOKS) % GENRES

    def context(self, t: int) -> Context:  # noqa: ARG002 - this shop does not change with time
        """The next visitor of every shop."""
        taste, stock = self.rng.random((self.shops, 1)), self.rng.random((self.shops, BOOKS))
        match = self.genre == np.floor(GENRES * taste)
        features = Dense(np.stack([self.price, self.quality, match], axis=-1))
        context = Context(features, revenue=self.price, capacity=PLACES, available=stock < IN_STOCK)
        self.round = LogitRound(context, features.utility(self.theta), self.rng.random((self.shops,)))
        return context

    def choose(self, context: Context, assortment: IntArray) -> IntArray:  # noqa: ARG002 - of the open round
        """The book that each visitor buys, or -1."""
        return self.round.choose(assortment)

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:  # noqa: ARG002 - of the open round
        """Expected revenue lost against the best three books."""
        return self.round.regret(assortment)


class Refit:
    """The curator: refits all rounds each time their number has doubled."""

    def __init__(self, setting: SimulationContext, noise: Random) -> None:  # noqa: ARG002 - no privacy, no noise
        self.features: list[FloatArray] = []
        self.choice: list[IntArray] = []
        self.shown: list[IntArray] = []
        self.release = self.publish(np.zeros((setting.worlds, setting.dim)), first=True)

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Keep the round; refit when their number has doubled."""
        bought = round.assortment == round.choice[:, None]
        self.features.append(round.context.features.rows(round.assortment))
        self.choice.append(np.where(bought.any(-1), bought.argmax(-1), -1))
        self.shown.append(round.assortment)
        rounds = len(self.choice)
        if rounds >= 16 and rounds & (rounds - 1) == 0:
            x, choice, shown = (np.stack(part, axis=1) for part in (self.features, self.choice, self.shown))
            self.release = self.publish(fit(x, choice, shown >= 0, ridge=1.0).theta)
        return self.release

    def publish(self, theta: FloatArray, *, first: bool = False) -> Release:
        """A release that asks for random assortments until the first fit."""
        shops, dim = theta.shape
        precision, zero = np.broadcast_to(np.eye(dim), (shops, dim, dim)), np.zeros(shops)
        return Release(theta, precision, radius=zero, explore=np.full(shops, first), count=zero.astype(np.int64))


def main() -> None:
    """Compare three contestants."""
    contestants = [
        Contestant("coin", CoinGreedy(COIN), Refit),
        Contestant("greedy", Greedy(), Refit),
        Contestant("uniform", Uniform(), Refit),
    ]
    result = simulate(Bookshop(), contestants, horizon=HORIZON, replicates=REPLICATES, seed=SEED)
    print(f"regret after {HORIZON} visitors, mean of {REPLICATES} shops")
    for line in summary(result):
        print(f"{line.label:8s} {line.mean:7.2f} ± {line.standard_error:.2f}")


if __name__ == "__main__":
    main()
