"""What a shop can expect before it opens: noise, first useful release, revenue, and how to divide the budget.

Expectations come from simulating a shop of the same size and conversion, with normal features and the same products for
everybody; no data of the real shop are used. All variants face the same visitors, so luck does not separate them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from quietshelf.curation.prior_file import PriorFile
from quietshelf.model.types import Curator, FloatArray, Random, Release, Round, integer, positive, require
from quietshelf.privacy.accounting import DELTA, Ledger, epsilon_of
from quietshelf.privacy.accounting.figures import added_up
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.research.environments import Shop
from quietshelf.research.experiments.revenue import MeanInterval, best_revenue, kept_share, lost_share
from quietshelf.research.loop import Contestant, Result, SimulationContext, contestant, simulate
from quietshelf.research.loop.named import MakeQuiet
from quietshelf.research.loop.parallel import Progress

LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of the wished rho to simulate, to see what more or less of it would buy."""
CAPS = (1, 2, 5)
LONGEST, MOST, FEWEST = 10_000, 8, 4
"""The most visitors to simulate, and the most and fewest replicates."""
WORK = 80_000.0
"""Visitors, over all replicates, that take about half a minute on two cores at 100 items and d = 5."""
CHECKPOINTS = 200


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A shop and what it wants.

    Attributes:
        items: N.
        capacity: K.
        dim: d: an intercept and the features of a product.
        conversion: Share of visitors who choose something from random offers.
        visitors: Expected visitors over the shelf's lifetime.
        rho: The promise to one person over all shelves, in zCDP.
        delta: The delta that epsilon is stated for.
        returns: Visits per person; 1 if every visit is another person or there are no person ids.
        shelves: Shelves that the same persons visit; their promises add up.
        seed: Seed of the simulation.
        log: The prior the shelves start from, if any.
    """

    items: int = 100
    capacity: int = 10
    dim: int = 6
    conversion: float = 0.03
    visitors: int = 10_000
    rho: float = 1.0
    delta: float = DELTA
    returns: float = 1.0
    shelves: int = 1
    seed: int = 0
    log: PriorFile | None = None

    def __post_init__(self) -> None:
        integer("dim", self.dim, low=2)
        if self.log is not None:
            rule = f"dim must be that of the prior, {len(self.log.theta)}"
            require(self.dim == len(self.log.theta), rule, dim=self.dim)
            self.log.precision_in_units()  # refuses a prior without units
        integer("visitors", self.visitors, low=100)
        positive("rho", self.rho)
        require(0 < self.delta < 1, "delta must be in (0, 1)", delta=self.delta)
        require(1 <= self.returns < math.inf, "returns must be at least 1", returns=self.returns)
        integer("shelves", self.shelves)

    @property
    def world(self) -> Shop:
        """A shop of this size."""
        features = self.dim - 1
        return Shop(items=self.items, capacity=self.capacity, conversion_rate=self.conversion, item_dim=features)

    @property
    def rho_of_shelf(self) -> float:
        """What each shelf may promise."""
        return self.rho / self.shelves

    @property
    def rho_with_log(self) -> float:
        """The promise to somebody who is in the log as well."""
        return added_up([self.rho, 0.0 if self.log is None else self.log.rho])

    @property
    def rho_of_paper(self) -> float:
        """What `dpmnl` may spend per visit: it uses the whole history, where a person's n visits cost n² times one."""
        return self.rho_of_shelf / self.returns**2

    def quiet(self, *, level: float = 1.0, visits: int = 1) -> Quiet:
        """The settings of one variant."""
        unit = "person" if visits > 1 else "visit"
        rho = level * self.rho_of_shelf
        return Quiet(rho=rho, visits=visits, unit=unit, conversion=self.conversion)  # type: ignore[arg-type]

    def counted(self, visits: int) -> float:
        """The share of visits that count under a cap, if everybody comes equally often."""
        return min(1.0, visits / self.returns)


def sizes(wish: Wish) -> tuple[int, int]:
    """(visitors, replicates) to simulate: what half a minute allows at the shop's size."""
    weight = (3.0 + wish.items * wish.dim / 500.0) / 4.0
    horizon = min(wish.visitors, LONGEST)
    replicates = int(WORK / weight / horizon)
    if replicates < FEWEST:
        horizon = max(100, int(WORK / weight / FEWEST))
    return horizon, min(max(replicates, FEWEST), MOST)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run the shelf: settings of `quiet` (None for other policies) and the share of visits that count."""

    label: str
    policy: str
    quiet: Quiet | None = None
    counted: float = 1.0
    log: PriorFile | None = None

    def contestant(self, rho_of_paper: float) -> Contestant:
        """The variant as a contestant of the simulation."""
        if self.quiet is None:
            return contestant(self.policy, rho=rho_of_paper if self.policy == "dpmnl" else None, label=self.label)
        options = {name: getattr(self.quiet, name) for name in ("rho", "visits", "unit", "conversion")}
        made = contestant("quiet", label=self.label, **options)
        if self.log is not None:
            told = tuple(map(tuple, self.log.precision_in_units().tolist()))
            made = replace(made, curator=replace(cast("MakeQuiet", made.curator), head_start=told))
        return made if self.counted == 1 else replace(made, curator=Capped(made.curator, self.counted))


def variants(wish: Wish) -> Iterator[Variant]:
    """All variants to simulate."""
    quiet = partial(Variant, policy="quiet", log=wish.log)
    for level in LEVELS:
        yield quiet(label=f"rho x {level:g}", quiet=wish.quiet(level=level), counted=wish.counted(1))
    for cap in CAPS[1:]:
        yield quiet(label=f"cap {cap}", quiet=wish.quiet(visits=cap), counted=wish.counted(cap))
    if wish.log is not None:
        yield Variant(label=WITHOUT_LOG, policy="quiet", quiet=wish.quiet(), counted=wish.counted(1))
    for policy in ("dpmnl", "greedy", "uniform"):
        yield Variant(label=policy, policy=policy)


AS_WISHED, WITHOUT_LOG = "rho x 1", "without the log"
"""Labels of the variant as wished, and of the same without the prior."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Expected:
    """The simulated results of one variant.

    Attributes:
        variant: Which variant.
        final: Revenue lost after the simulated visitors, (replicates,).
        regret: Its mean.
        lost: The same as a share of the best revenue.
        kept: Revenue as a share of that without privacy.
        useful: Visitors after which offers lose less than half as much as random ones; None if never.
        later: Regret after all expected visitors, extrapolated at the rate of the last tenth simulated.
    """

    variant: Variant
    final: FloatArray
    regret: MeanInterval
    lost: MeanInterval
    kept: MeanInterval
    useful: int | None
    later: float


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A plan: the wish, the size of the simulation, and its results."""

    wish: Wish
    horizon: int
    replicates: int
    expected: dict[str, Expected]

    @property
    def wished(self) -> Expected:
        """The results of `quiet` as wished."""
        return self.expected[AS_WISHED]

    @property
    def epsilon(self) -> float:
        """Epsilon of the whole promise, over all shelves and the log they start from."""
        return epsilon_of(self.wish.rho_with_log, self.wish.delta)


def plan(wish: Wish, *, workers: int = 1, progress: Progress | None = None) -> Planned:
    """Simulate every variant."""
    horizon, replicates = sizes(wish)
    every = list(variants(wish))
    result = simulate(
        wish.world,
        [variant.contestant(wish.rho_of_paper) for variant in every],
        horizon=horizon,
        replicates=replicates,
        seed=wish.seed,
        workers=workers,
        checkpoints=CHECKPOINTS,
        progress=progress,
    )
    worth = best_revenue(wish.world, replicates=replicates, seed=wish.seed)
    expected = {variant.label: _expected(variant, result, worth, wish.visitors) for variant in every}
    return Planned(wish=wish, horizon=horizon, replicates=replicates, expected=expected)


def _expected(variant: Variant, result: Result, worth: FloatArray, visitors: int) -> Expected:
    regret, open_ = result.regret[variant.label], result.regret["greedy"][:, -1]
    times = np.array([0, *result.times])
    mean = np.array([0.0, *regret.mean(axis=0)])
    slope = np.diff(mean) / np.diff(times)
    chance = float(result.regret["uniform"][:, -1].mean()) / result.horizon
    bad = np.flatnonzero(slope >= chance / 2)
    after = int(times[bad[-1] + 1]) if bad.size else 0  # after the last bad stretch: an earlier good one may be luck
    tail = max(1, len(slope) // 10)
    return Expected(
        variant=variant,
        final=regret[:, -1],
        regret=MeanInterval.of(regret[:, -1]),
        lost=lost_share(regret[:, -1], worth, result.horizon),
        kept=kept_share(regret[:, -1], open_, worth, result.horizon),
        useful=after if after < result.horizon and variant.policy != "uniform" else None,
        later=float(mean[-1] + slope[-tail:].mean() * max(0, visitors - result.horizon)),
    )


@dataclass(frozen=True)
class Capped:
    """Makes a curator that counts only a share of the visits; the others are of persons beyond their cap."""

    make: Callable[[SimulationContext, Random], Curator]
    counted: float

    def __call__(self, setting: SimulationContext, rng: Random) -> Curator:
        """Make the curator."""
        return _CappedCurator(self.make(setting, rng), self.counted, rng)


class _CappedCurator:
    def __init__(self, inner: Curator, counted: float, rng: Random) -> None:
        self._inner, self._counted, self._rng = inner, counted, rng

    @property
    def ledger(self) -> Ledger:
        """The ledger of the curator inside."""
        ledger: Ledger = self._inner.ledger  # type: ignore[attr-defined]  # that of `quiet` keeps one
        return ledger

    @property
    def release(self) -> Release:
        return self._inner.release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        counts = self._rng.random(round.choice.shape) < self._counted
        return self._inner.observe(replace(round, counts=counts))
