"""The shipped releases, run with the target in one of two neighbouring worlds and all other visitors fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quietshelf.curation.outlook import normal_outlook
from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, Context, FloatArray, Round
from quietshelf.policies import POLICIES
from quietshelf.privacy.release import arm_sales, batch_pair
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.release.tree import ContinualSum
from quietshelf.privacy.statistics import (
    ObservedChoice,
    Total,
    factors,
    gram,
    if_chosen,
    on_grid,
    outcome,
    svec,
    totalled,
)
from quietshelf.research.auditing.neighbours import Neighbours, far_scores, visitor

SEED = 20
"""Seed of the other visitors, who are the same in both worlds and known to the attacker."""
OTHERS = 4
Make = Callable[[NoiseSource], ContinualSum]


def batch(
    neighbours: Neighbours, rho: float, secret: bool, source: NoiseSource, runs: int, *, bound: float = batch_pair.BOUND
) -> FloatArray:
    """One batch of `quiet` with the target: noisy sums of scores and information."""
    return batch_of([neighbours.target(secret)], rho, source, runs, bound=bound)


def batch_of(
    targets: Sequence[ObservedChoice], rho: float, source: NoiseSource, runs: int, *, bound: float = batch_pair.BOUND
) -> FloatArray:
    """One batch of these visitors and a few others, with contributions, sums and noise as shipped."""
    places, dim = targets[0].rows.shape
    rows = np.random.default_rng(SEED).standard_normal((OTHERS, places, dim))
    everybody = ObservedChoice(
        np.concatenate([*(target.rows[None] for target in targets), rows]),
        np.ones((len(targets) + OTHERS, places), dtype=bool),
        np.concatenate([np.array([int(target.position) for target in targets]), np.full(OTHERS, NOTHING)]),
    )
    scales, size = batch_pair.scales(rho=rho, bound=bound), len(everybody.position)
    grids = batch_pair.grids(scales, size, source.grid)
    total = totalled(factors(everybody, np.zeros(dim), np.eye(dim), bound, grids))
    wide = Total(*(np.broadcast_to(part, (runs, *part.shape)) for part in (total.score, total.information)))
    noisy = batch_pair.release(wide, scales=scales, size=size, source=source)
    return np.concatenate([noisy.score, svec(noisy.information)], axis=-1)


def comparison(
    rho: float, secret: bool, source: NoiseSource, runs: int, *, bought: Sequence[int] = (0,), worth: float = 1.0
) -> FloatArray:
    """One batch's outcomes; the target bought the dearest item of its arm, or nothing.

    Args:
        rho: The budget of the release.
        secret: Whether the target bought.
        source: Noise.
        runs: Number of runs.
        bought: Items on the target's screen that it buys; one, unless a planted fault counts more.
        worth: The item's revenue, in units of the declared maximum.
    """
    sold = if_chosen(np.full(1 + OTHERS, worth), present=False, most=1.0)
    places = [0 if secret else NOTHING for _ in bought] + [0] * OTHERS
    each = outcome(np.broadcast_to(sold, (len(places), *sold.shape)), np.array(places))
    total = (on_grid(each, source.grid) if source.grid else each).sum(0)
    scale, served = arm_sales.scale(rho), (len(places), 0)
    found = arm_sales.release(np.broadcast_to(total, (runs, total.size)), visitors=served, scale=scale, source=source)
    return found.sums.reshape(runs, -1)


def both(rho: float, secret: bool, source: NoiseSource, runs: int, *, share: float = 0.25) -> FloatArray:
    """A batch's pair and outcomes from one budget: opposite scores, and something bought or nothing."""
    pair = batch(far_scores(2), (1 - share) * rho, secret, source, runs)
    return np.concatenate([pair, comparison(share * rho, secret, source, runs)], axis=-1)


def learner(neighbours: Neighbours, rho: float, secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """Two batches of `quiet` through its curator: all records, estimates and precision matrices."""
    target = neighbours.target(secret)
    places, dim = target.rows.shape
    curator = quiet_curator(rho, dim, places, source, runs)
    others, seen = np.random.default_rng(SEED), []
    for t in range(curator.batch.frozen.size + curator.learner.config.batch_size(dim, curator.batch.frozen.size)):
        came = target if t == 1 else visitor(others.standard_normal((places, dim)))
        before, after = curator.release, curator.observe(round_of(came.rows, int(came.position), runs))
        if after is not before:
            seen += [curator.learner.records[-1].score, after.theta, svec(after.precision)]
    return np.concatenate(seen, axis=-1)


def quiet_curator(rho: float, dim: int, places: int, source: NoiseSource, runs: int) -> QuietCurator:
    """The curator of `quiet` with nothing declared, over many runs side by side."""
    outlook = normal_outlook(None, dim, items=places, capacity=places, policy=POLICIES["quiet"], lead=(runs,))
    start = Learner.start(Quiet(rho=rho), outlook, capacity=places, source=source, lead=(runs,))
    return QuietCurator(start, source, outlook)


def round_of(rows: FloatArray, picked: int, runs: int) -> Round:
    """A round, the same in every run: all items, (K, d), are shown and ``picked`` is chosen."""
    places = len(rows)
    context = Context(Dense(np.broadcast_to(rows, (runs, *rows.shape))), np.ones((runs, places)), places)
    return Round(context, np.broadcast_to(np.arange(places), (runs, places)), np.full(runs, picked))


def continual(make: Make, neighbours: Neighbours, secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """All prefix sums of a continual Gram release; the target comes first, and so counts in all of them."""
    target = neighbours.target(secret)
    sums = make(source)
    state, seen = sums.start((runs,)), []
    for rows in history(target, sums.horizon):
        one = gram(rows)
        state, noisy = sums.add(state, np.broadcast_to(one, (runs, *one.shape)))
        seen.append(svec(noisy))
    return np.concatenate(seen, axis=-1)


def history(target: ObservedChoice, horizon: int) -> list[FloatArray]:
    """Features shown to each visitor, (K, d): the target, then others within the unit ball."""
    others = np.random.default_rng(SEED).standard_normal((horizon - 1, *target.rows.shape))
    return [target.rows, *(others / np.maximum(np.linalg.norm(others, axis=-1, keepdims=True), 1.0))]
