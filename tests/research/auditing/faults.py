"""Planted faults: the shipped code with one plausible mistake each."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.types import BoolArray, FloatArray, IntArray, Release, Round
from quietshelf.privacy.accounting import Assumption
from quietshelf.privacy.release import batch_pair, tree
from quietshelf.privacy.release.dpmnl import Dpmnl
from quietshelf.privacy.release.dpmnl_curator import DpmnlCurator
from quietshelf.privacy.release.noise import NoiseSource, Simulated
from quietshelf.privacy.statistics import Factors, Grids, ObservedChoice, factors, gram, outcome, outcomes
from quietshelf.research.auditing import Auditable, Claim, releases
from quietshelf.research.auditing.linear import Mechanism, sampled
from quietshelf.research.auditing.mechanisms import MANY, linear
from quietshelf.research.auditing.neighbours import (
    Neighbours,
    far_gram,
    far_information,
    far_pairs,
    far_scores,
    visitor,
)
from quietshelf.research.auditing.shelves import copy_of, full_shelf
from quietshelf.serving.shelf import Shelf
from quietshelf.serving.shelf.errors import OpenBatchDropped
from quietshelf.serving.shelf.saved import ResumeToken
from quietshelf.serving.shelf.testing import state_of

RHO, DIM, CAPACITY, HORIZON = 1.0, 2, 3, 8
CLAIM = Claim(rho=RHO, gaussian=True)


@dataclass(frozen=True)
class Altered:
    """A source whose draws are tampered with."""

    source: NoiseSource
    change: Callable[[FloatArray], FloatArray]
    grid: float = 0.0
    assumption: Assumption = Assumption.REAL_ARITHMETIC
    noiseless: bool = False

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        return self.change(self.source.draw(scale, size))

    def only(self, worlds: IntArray) -> NoiseSource:
        return replace(self, source=self.source.only(worlds))


class Seeded:
    """A source that starts from the same seed at every node: equal shapes get equal noise."""

    grid = 0.0
    assumption = Assumption.REAL_ARITHMETIC
    noiseless = False

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self._drawn: dict[tuple[int, ...], FloatArray] = {}

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        if size not in self._drawn:
            self._drawn[size] = self._source.draw(1.0, size)
        return scale * self._drawn[size]

    def only(self, worlds: IntArray) -> NoiseSource:  # noqa: ARG002 - all the same
        return self


def altered(mechanism: Mechanism, wrap: Callable[[NoiseSource], NoiseSource]) -> Mechanism:
    """A mechanism whose noise is tampered with."""
    return lambda secret, source, runs: mechanism(secret, wrap(source), runs)


def half(source: NoiseSource) -> NoiseSource:
    """Half the noise."""
    return Altered(source, lambda noise: 0.5 * noise)


def sound_tree(source: NoiseSource) -> tree.Tree:
    """The shipped tree."""
    return tree.sound(RHO, horizon=HORIZON, dim=DIM, capacity=CAPACITY, source=source)


def tree_run(make: releases.Make = sound_tree) -> Mechanism:
    """The shipped continual release."""
    return partial(releases.continual, make, far_gram(CAPACITY, DIM))


def batch_run() -> Mechanism:
    """The shipped release of a batch."""
    return partial(releases.batch, far_scores(DIM), RHO)


def short_of_noise(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """Noise of the score that has C² in place of 2 C² as its variance, by rho."""

    def short(**given: Any) -> batch_pair.Scales:
        found = scales(**given)
        return found._replace(score=found.score / 2**0.5)

    scales = batch_pair.scales
    with patch.object(batch_pair, "scales", short):
        return releases.batch(far_pairs(MANY, 3), RHO, secret, source, runs)


def bound_ignored(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """Contributions bounded by B = 1 with the noise of B = 1/4."""

    def ignorant(
        shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: float, grids: Grids
    ) -> Factors:
        return factors(shown, theta, coordinates, max(1.0, bound), grids)

    with patch.object(releases, "factors", ignorant):
        return releases.batch(far_information(DIM), RHO, secret, source, runs, bound=0.25)


def unweighted(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """Score and information each within its own bound, as if a visitor could not have both."""

    def apart(shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: float, grids: Grids) -> Factors:
        score = factors(shown, theta, coordinates, 1e6, grids).score
        return Factors(
            score, factors(ObservedChoice(1e6 * shown.rows, *shown[1:]), theta, coordinates, bound, grids).rows
        )

    with patch.object(releases, "factors", apart):
        return releases.batch(far_pairs(MANY, 3), RHO, secret, source, runs)


def counted_in_both_arms(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """A visitor who counts in the arm that served them and in the other."""

    def twice(worth: FloatArray, position: IntArray) -> FloatArray:
        found = outcome(worth, position)
        return found + np.roll(found, 2, axis=-1)

    with patch.object(releases, "outcome", twice):
        return releases.comparison(RHO, secret, source, runs)


def revenue_uncut(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """An item that earns three times the declared most."""
    with patch.object(outcomes, "bounded", np.nan_to_num):
        return releases.comparison(RHO, secret, source, runs, worth=3.0)


def whole_budget_twice(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """Pair and comparison, each with all of rho."""
    pair = releases.batch(far_scores(DIM), RHO, secret, source, runs)
    return np.concatenate([pair, releases.comparison(RHO, secret, source, runs)], axis=-1)


class Restarted:
    """A tree that is restarted before every round and draws the noise of the nodes in use again."""

    def __init__(self, source: NoiseSource) -> None:
        self._tree = sound_tree(source)
        self.horizon, self.event = self._tree.horizon, self._tree.event
        self.diagonal, self.widest = self._tree.diagonal, self._tree.widest

    def start(self, lead: tuple[int, ...] = ()) -> tree.State:
        return self._tree.start(lead)

    def add(self, state: tree.State, one: FloatArray) -> tuple[tree.State, FloatArray]:
        noise = state.noise.copy()
        for level in range(len(noise)):
            if state.time >> level & 1:
                noise[level] = self._tree._draw(noise.shape[1:-1])
        return self._tree.add(state._replace(noise=noise), one)


def paper_tree(source: NoiseSource) -> tree.Tree:
    """As printed; shipped to reproduce the paper."""
    return tree.paper(RHO, horizon=HORIZON, dim=DIM, capacity=CAPACITY, source=source)


def unclipped_tree(source: NoiseSource) -> tree.Tree:
    """The sound noise with unclipped features."""
    return replace(sound_tree(source), bounded=False)


def long_pair() -> Neighbours:
    """Features three times longer than the unit ball."""
    first, second, words = far_gram(CAPACITY, DIM)
    return Neighbours(visitor(3 * first.rows), visitor(3 * second.rows), words)


def counted_twice(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """The same person twice in a batch."""
    pair = far_scores(DIM)
    target = pair.first if secret else pair.second
    return releases.batch_of([target, target], RHO, source, runs)


def resumed_twice(secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """A copy of the state that holds an open batch: both copies release it."""
    pair = far_scores(DIM)
    curators = [releases.quiet_curator(RHO, DIM, 1, source, runs)]
    frozen = curators[0].batch.frozen
    target = pair.first if secret else pair.second
    back = np.linalg.inv(frozen.coordinates[0]).T  # with room for twice the usual information, longer scores fit
    target = target._replace(rows=1.2 * target.rows @ back)
    size = frozen.size
    for t in range(size):
        if t == size - 1:
            curators.append(_copied(curators[0], source))
        rows, picked = (target.rows, int(target.position)) if t == 1 else (np.zeros((1, DIM)), -1)
        for curator in curators:
            curator.observe(releases.round_of(rows, picked, runs))
    records = [curator.learner.records[0] for curator in curators]
    return np.concatenate([record.score for record in records], axis=-1)


def _copied(curator: QuietCurator, source: NoiseSource) -> QuietCurator:
    twin = copy.copy(curator)
    twin._waiting, twin._source = list(curator._waiting), source
    return twin


SHELF_RHO = 4.0
"""Where it takes the fewest runs to tell two releases from one."""


def shelf_resumed(everybody: bool, secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
    """A shelf saved with a full batch and loaded twice: the sum of the scores that both shelves then release of it.

    All releases have the same noise, so their sum is their likelihood ratio.

    Args:
        everybody: The fault: the right to resume is given to all who ask.
        secret: Which neighbour.
        runs: How many.
        rng: Chance.
    """
    source = Simulated(rng)
    shelves, rows = _loaded_twice(full_shelf(SHELF_RHO, secret, source), everybody, source), []
    for _ in range(runs):
        twins = [copy_of(shelf, rng, source) for shelf in shelves]
        for twin in twins:
            state_of(twin)._release_due(source)  # as the next arrival does, who need not be served
        learners = [twin.learner for twin in twins]
        records = [learner.records[0] for learner in learners if learner is not None and learner.records]
        rows.append(np.sum([record.score for record in records], axis=0))
    return np.stack(rows)


def _loaded_twice(shelf: Shelf, everybody: bool, source: NoiseSource) -> list[Shelf]:
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenBatchDropped)
        path = Path(folder) / "shelf"
        shelf.save(path)
        if not everybody:
            return [Shelf._loaded(path, source), Shelf._loaded(path, source)]
        with patch.object(ResumeToken, "take", lambda _: True):
            return [Shelf._loaded(path, source), Shelf._loaded(path, source)]


class ExactTrigger(DpmnlCurator):
    """Refits when the exact Gram matrix, which is not released, has doubled."""

    exact = np.eye(DIM)

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        rows = round.context.features.rows(round.assortment)
        self.exact = gram(rows) + self.exact
        return super().observe(round)

    def _due(self, size: FloatArray) -> BoolArray:  # noqa: ARG002 - not the released one
        return super()._due(np.asarray(np.linalg.slogdet(self.exact)[1])[None])

    def _shifted(self, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
        precision, _ = super()._shifted(noisy)
        return precision, np.asarray(np.linalg.slogdet(self.exact)[1])


def fits_at(curator: Callable[..., DpmnlCurator], secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """When DPMNL fitted: public, and harmless only if the trigger looked at releases."""
    config = Dpmnl(rho=RHO, explore=3, fits=3)
    plan = config.plan(dim=DIM, capacity=CAPACITY, horizon=12, source=source)
    at_work = curator(plan, source, dim=DIM, capacity=CAPACITY, worlds=(runs,))
    pair, seen = far_gram(CAPACITY, DIM), []
    target = (pair.first if secret else pair.second).rows
    for t in range(12):
        rows = target if t == 4 else np.tile([0.6, 0.0], (CAPACITY, 1))
        rows = np.tile([0.0, 0.6], (CAPACITY, 1)) if t == 0 else rows
        release = at_work.observe(releases.round_of(rows, -1, runs))
        seen.append(release.count.astype(np.float64))
    return np.stack(seen, axis=-1)


class ByPurchases(QuietCurator):
    """Closes a batch when enough has been bought, in the first world's eyes: all worlds are alike here."""

    bought = 0
    enough = 5

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        self.bought += int(round.choice.flat[0] >= 0)
        last = self.batch.frozen.size - 1
        if self.bought == self.enough:
            self.bought = 0
            self._batch = self.batch._replace(taken=last)  # the next slot is made the last
        elif self.batch.taken == last:
            self._batch = self.batch._replace(taken=last - 1)
        return super().observe(round)


def released_at(curator: type[QuietCurator], secret: bool, source: NoiseSource, runs: int) -> FloatArray:
    """When `quiet` released, and what."""
    start = releases.quiet_curator(RHO, DIM, DIM, source, runs)
    at_work, seen = curator(start.learner, source, start._outlook), []
    for t in range(20):
        picked = 0 if (secret if t == 1 else t % 3 == 0) else -1
        release = at_work.observe(releases.round_of(np.eye(DIM), picked, runs))
        seen += [release.count.astype(np.float64)[:, None], release.theta]
    return np.concatenate(seen, axis=-1)


def subject(name: str, mechanism: Mechanism, pair: str = "") -> Auditable:
    """Sampling only, where outputs are not linear in the noise."""
    return Auditable(name=name, pair=pair, claim=CLAIM, run=sampled(mechanism))


def bought() -> Neighbours:
    """A visitor who bought, or did not."""
    return Neighbours(*far_scores(DIM)[:2], "bought the dearest item of its arm, or nothing")


def planted() -> Sequence[Auditable]:
    """Every fault, under the claim that it costs rho = 1."""
    words = far_gram(CAPACITY, DIM)
    return [
        linear("paper-calibrated tree", CLAIM, words, tree_run(paper_tree)),
        linear("half the noise, batch", CLAIM, far_scores(DIM), altered(batch_run(), half)),
        linear("half of the score's variance", CLAIM, far_pairs(MANY, 3), short_of_noise),
        linear("noise for another bound", CLAIM, far_information(DIM), bound_ignored),
        linear("score and information bounded apart", CLAIM, far_pairs(MANY, 3), unweighted),
        linear("half the noise, comparison", CLAIM, bought(), altered(partial(releases.comparison, RHO), half)),
        linear("counted in both arms", CLAIM, bought(), counted_in_both_arms),
        linear("revenue beyond the most", CLAIM, bought(), revenue_uncut),
        linear("counted twice in an arm", CLAIM, bought(), partial(releases.comparison, RHO, bought=(0, 0))),
        linear("the budget spent twice in a batch", CLAIM, bought(), whole_budget_twice),
        linear("half the noise, tree", CLAIM, words, altered(tree_run(), half)),
        linear("a seed reused at every node", CLAIM, words, altered(tree_run(), Seeded)),
        linear("a node redrawn after restart", CLAIM, words, tree_run(Restarted)),
        linear("an open batch resumed twice", CLAIM, far_scores(DIM), resumed_twice),
        Auditable(
            name="an open shelf resumed twice",
            pair="",
            claim=Claim(rho=SHELF_RHO, gaussian=True),
            run=partial(shelf_resumed, True),
        ),
        linear("a person counted twice", CLAIM, far_scores(DIM), counted_twice),
        subject("an update triggered by the exact matrix", partial(fits_at, ExactTrigger)),
        subject("a batch closed by the number of purchases", partial(released_at, ByPurchases)),
        linear("clipping forgotten", CLAIM, long_pair(), partial(releases.continual, unclipped_tree, long_pair())),
    ]
