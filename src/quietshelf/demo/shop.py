"""What ``quietshelf demo`` runs: a shop served by a real `Shelf`, the same shop under other policies, and an audit.

The shop is a usual one: the same products for everybody, and three in a hundred visitors buy from random offers. Next
to it is the paper's world, where nearly everybody buys and items look different to each visitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
from numpy.random import SeedSequence

from quietshelf.curation.coins import Coins
from quietshelf.model.assortment import best
from quietshelf.model.types import NOTHING, Context, FloatArray, IntArray, Random, Round
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import DiscreteGaussian
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics import svec
from quietshelf.research.auditing import Auditable, Claim, Finding, audit
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop import Contestant, SimulationContext, contestant
from quietshelf.research.loop.parallel import Progress, Throttled, spread
from quietshelf.serving.shelf import Shelf
from quietshelf.serving.shelf.testing import copied, state_of

RHO = 1.0
WORLD = Shop(items=100, capacity=10, conversion_rate=0.03, item_dim=5)
PAPER_WORLD = Synthetic(contexts="clipped")
"""The paper's world, its features moved to the unit ball as its theory assumes."""
SEED = 2026
TARGET = 7
"""The visitor in the first batch whom the attacker is after."""
RECENT = 300
"""Visitors in the "lately" window."""
LABELS = {
    "quiet": "quiet, ρ = 1",
    "sound": "dpmnl, ρ = 1",
    "printed": "dpmnl as printed, nominal ρ = 1",
    "greedy": "no privacy",
    "uniform": "random offers",
}


def contestants() -> list[Contestant]:
    """`quiet`, the paper's policy in its sound and its printed calibration, no privacy, and random offers."""
    return [
        contestant("quiet", rho=RHO, label=LABELS["quiet"]),
        contestant("dpmnl", rho=RHO, label=LABELS["sound"]),
        contestant("dpmnl", rho=RHO, calibration="paper", label=LABELS["printed"]),
        contestant("greedy", label=LABELS["greedy"]),
        contestant("uniform", label=LABELS["uniform"]),
    ]


def paper_contestants() -> list[Contestant]:
    """The contestants in the paper's world."""
    return [contestant("quiet", rho=RHO, label=LABELS["quiet"]), contestant("greedy", label=LABELS["greedy"])]


@dataclass(frozen=True, eq=False)
class Visit:
    """One visit: the release it was served from, the expected revenue of its offer and of the best one."""

    release: int
    earned: float
    best: float


@dataclass(frozen=True, eq=False)
class Served:
    """The shelf and its visits."""

    shelf: Shelf
    visits: tuple[Visit, ...]

    def share(self, begin: int, end: int) -> float:
        """The share of the best revenue earned over a range of visits."""
        part = self.visits[begin:end]
        return sum(visit.earned for visit in part) / sum(visit.best for visit in part)

    @property
    def releases(self) -> Iterator[tuple[int, int, float]]:
        """(release, visitors served from it, their share of the best revenue); 0 is before the first release."""
        served = np.array([visit.release for visit in self.visits])
        for release in range(int(served.max()) + 1):
            begin, end = np.searchsorted(served, [release, release + 1])
            yield release, int(end - begin), self.share(int(begin), int(end))


def new_shelf() -> Shelf:
    """A shelf for the shop, given its products and conversion rate."""
    catalogue = products()[:, 1:]  # without the intercept, which the shelf adds
    return Shelf(
        catalogue=catalogue, feature_map="item", capacity=WORLD.capacity, rho=RHO, conversion=WORLD.conversion_rate
    )


def products() -> FloatArray:
    """Features of every product, with an intercept, (N, d)."""
    context = WORLD.open([SeedSequence(SEED)]).context(0)
    return np.asarray(context.features.rows(np.arange(WORLD.items)[None])[0])


def serve(visitors: int, *, watch: Callable[[Served], None] | None = None) -> Served:
    """Serve this many visitors with a shelf whose noise comes from the operating system."""
    shelf, environment = new_shelf(), WORLD.open([SeedSequence(SEED)])
    visits: list[Visit] = []
    for t in range(visitors):
        context = environment.context(t)
        offer = shelf.offer()
        shown = np.array([offer.items])
        choice = int(environment.choose(context, shown)[0])
        shelf.choose(offer.id, None if choice == NOTHING else choice)
        worth = best(utility=context.features.utility(environment.theta), revenue=context.revenue, capacity=shown.size)
        most = float(worth.expected_revenue[0])
        visits.append(Visit(offer.release, most - float(environment.regret(context, shown)[0]), most))
        if watch is not None:
            watch(Served(shelf, tuple(visits[-RECENT:])))
    return Served(shelf, tuple(visits))


def subjects() -> list[Auditable]:
    """What is audited: a visitor of this run, the worst-case visitor, and the same without privacy."""
    promise = Claim(rho=RHO, gaussian=True)
    of_run = f"visitor {TARGET + 1} of this run bought the first item shown, or nothing"
    worst = "a visitor who is shown only the most informative product bought it, or nothing"
    return [
        Auditable(name="quiet, this shop", pair=of_run, claim=promise, run=partial(shelf_runs, False)),
        Auditable(name="quiet, this shop", pair=worst, claim=promise, run=partial(shelf_runs, True)),
        Auditable(name="no privacy, this shop", pair=of_run, claim=Claim(), run=exact_runs),
    ]


def audit_all(*, runs: int, progress: Progress | None = None) -> list[Finding]:
    """Audit the subjects in parallel processes; the findings hold jointly."""
    parts = [range(place, place + 1) for place in range(len(subjects()))]
    report = Throttled(progress, len(parts))
    found = spread(partial(_finding, runs), parts, report)
    report.finish()
    return found


def _finding(runs: int, part: range, tick: Callable[[int], None]) -> Finding:
    every = subjects()
    rng = np.random.default_rng(SeedSequence(SEED, spawn_key=(part.start,)))
    finding = audit(every[part.start], runs=runs, rng=rng, tests=len(every))
    tick(1)
    return finding


def shelf_runs(worst: bool, secret: bool, runs: int, rng: Random) -> FloatArray:  # noqa: ARG001 - noise is secret
    """What a shelf releases from its first batch, with fresh noise in each run; all later screens follow from it."""
    ties = Coins(SEED.to_bytes(32, "big"))  # the same in both worlds, which differ in the target only
    shelf, seen = copied(new_shelf(), coins=ties), []
    for place, (_, choose) in enumerate(_visitors()):
        if any(batch.full for batch in shelf.batches):
            break
        offer = shelf.offer(candidates=[most_telling()] if worst and place == TARGET else None)
        bought = offer.items[0] if secret else NOTHING
        choice = bought if place == TARGET else choose(np.array([offer.items]))
        shelf.choose(offer.id, None if choice == NOTHING else choice)
    first, source = next(iter(state_of(shelf).slots)), DiscreteGaussian()
    total, frozen = first.finished("no-choice"), first.batch.frozen
    for _ in range(runs):
        noisy = batch_pair.release(total, scales=frozen.scales, size=frozen.size, source=source)
        seen.append(np.concatenate([noisy.score, svec(noisy.information)]))
    return np.stack(seen)


def most_telling() -> int:
    """The product whose purchase moves the sums most: the longest vector in the first batch's coordinates."""
    shelf = new_shelf()
    shelf.offer()
    return int(np.linalg.norm(products() @ shelf.batches[0].frozen.coordinates.T, axis=-1).argmax())


def exact_runs(secret: bool, runs: int, rng: Random) -> FloatArray:
    """The same visitors and target without privacy: no noise, so the same estimate in every run."""
    greedy = contestant("greedy")
    size = Quiet(rho=RHO, conversion=WORLD.conversion).batch_size(WORLD.dim, None)
    tastes = partial(np.zeros, (1, WORLD.dim))
    curator = greedy.curator(SimulationContext(world=WORLD, worlds=1, horizon=size, tastes=tastes), rng)
    fixed = np.random.default_rng(SEED)
    for place, (context, choose) in zip(range(size), _visitors(), strict=False):
        shown = greedy.policy.offer(context, curator.release, fixed)
        choice = (int(shown[0, 0]) if secret else NOTHING) if place == TARGET else choose(shown)
        curator.observe(Round(context, shown, np.array([choice])))
    return np.tile(curator.release.theta[0], (runs, 1))


def _visitors() -> Iterator[tuple[Context, Callable[[IntArray], int]]]:
    """The visitors of the run, each with their choice function."""
    environment = WORLD.open([SeedSequence(SEED)])
    for t in count():
        context = environment.context(t)
        yield context, lambda shown, context=context: int(environment.choose(context, shown)[0])  # type: ignore[misc]
