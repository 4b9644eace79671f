"""`Shelf`, with the operating system's exact discrete noise, loses what the simulation says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.studies.kept import QUIET, RHOS, SEED, kept
from tests.studies.size import FULL

from quietshelf import Shelf, simulate
from quietshelf.model.types import NOTHING, Context, IntArray, Random, Release, Round
from quietshelf.privacy.accounting import Ledger
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, SimulationContext

pytestmark = pytest.mark.study
HORIZON, REPLICATES = (10_000, 100) if FULL else (400, 12)
BUDGETS = RHOS if FULL else (1.0,)


@dataclass(frozen=True)
class Asked(Release):
    """Says nothing, but leads to the shelves, since a shelf also decides."""

    shelves: Any = None


class Shelves:
    """One shelf for each world, in a curator's place."""

    def __init__(self, setting: SimulationContext, noise: Random, *, rho: float) -> None:
        del noise  # a shelf draws from the operating system
        world: Any = setting.world
        known: dict[str, Any] = {"curvature": world.second_moment, "conversion": world.conversion}
        size: dict[str, Any] = {"items": setting.items, "dim": setting.dim, "capacity": setting.capacity}
        self.shelves = [Shelf(**size, rho=rho, **known) for _ in range(setting.worlds)]
        self.everything = np.broadcast_to(np.arange(setting.items), (setting.worlds, setting.items))
        self.open: list[str] = []
        worlds, dim = setting.worlds, setting.dim
        none, unit = np.zeros(worlds), np.broadcast_to(np.eye(dim), (worlds, dim, dim))
        self.release = Asked(np.zeros((worlds, dim)), unit, none, none > 0, none.astype(int), shelves=self)

    def offer(self, context: Context) -> IntArray:
        """Ask every shelf for an offer to its visitor."""
        features = context.features.rows(self.everything)
        offers = [shelf.offer(rows) for shelf, rows in zip(self.shelves, features, strict=True)]
        self.open = [offer.id for offer in offers]
        return np.array([offer.items for offer in offers])

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Tell every shelf what its visitor chose."""
        for shelf, offer, choice in zip(self.shelves, self.open, round.choice.tolist(), strict=True):
            shelf.choose(offer, None if choice == NOTHING else choice)
        return self.release

    @property
    def ledger(self) -> Ledger:
        """The ledger of the shelf that has spent most."""
        most = max((shelf.privacy() for shelf in self.shelves), key=lambda promise: promise.rho)
        return Ledger(events=most.events)


@dataclass(frozen=True)
class AskTheShelves:
    """The policy beside `Shelves`."""

    def offer(self, context: Context, release: Any, rng: Random) -> IntArray:  # noqa: ARG002
        offered: IntArray = release.shelves.offer(context)
        return offered


@pytest.mark.parametrize("contexts", QUIET)
def test_shelf_meets_the_targets_of_quiet(contexts: str) -> None:
    """The same targets as in simulation, met when mean - 2 s.e. is at or below; in short runs far below random."""
    shelves = [Contestant(f"shelf {rho:g}", AskTheShelves(), partial(Shelves, rho=rho)) for rho in BUDGETS]
    result = simulate(
        Synthetic(contexts=contexts),
        [*shelves, "uniform"],
        horizon=HORIZON,
        replicates=REPLICATES,
        seed=SEED,
        workers=2 if FULL else 1,
    )
    found = kept(f"shelf-{contexts}", result)
    for rho in BUDGETS:
        label = f"shelf {rho:g}"
        assert result.ledgers[label]
        assert max(ledger.rho for ledger in result.ledgers[label]) <= rho * (1 + 1e-12)
        mean, error = found[label]
        if FULL:
            assert mean - 2 * error <= QUIET[contexts][RHOS.index(rho)]
        assert mean < found["uniform"][0] / 2
