"""The curator of `quiet`: slots taken by arrivals, frozen batches, and releases that noise alone decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.privacy.release.learners import opened, outlook_for, simulated, started

from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Release, Round, Streams
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import DiscreteGaussian, NoiseSource, Simulated
from quietshelf.privacy.release.quiet import Learner, OpenBatch
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics import ObservedChoice, contribution, svec


def visitors(seed: int, rounds: int, lead: tuple[int, ...], capacity: int, dim: int, size: float = 1.0) -> list[Round]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rounds):
        x = size * rng.normal(size=(*lead, capacity + 2, dim))
        items = np.broadcast_to(np.arange(capacity), (*lead, capacity))
        choice = rng.integers(-1, capacity, size=lead)
        made.append(Round(Context(Dense(x), np.ones(x.shape[:-1]), capacity), items, np.asarray(choice)))
    return made


def curator_of(config: Quiet, dim: int, source: NoiseSource, lead: tuple[int, ...] = ()) -> QuietCurator:
    learner = started(config, dim, source, lead)
    return QuietCurator(learner, source, outlook_for(learner))


def visible(release: Release) -> list[Any]:
    return [getattr(release, name) for name in Release.arrays]


def test_noiseless_learner_follows_the_statistic_and_reads_infinite() -> None:
    """With the injected source the record is the batch's exact sum, to 1e-10, and the ledger infinite."""
    source = Noiseless()
    curator = curator_of(Quiet(rho=1.0), 3, source)
    frozen = curator.batch.frozen
    rounds = visitors(1, frozen.size, (), 3, 3)
    for item in rounds:
        curator.observe(item)
    seen = [ObservedChoice(r.context.features.rows(r.assortment), r.assortment >= 0, r.choice) for r in rounds]
    pairs = [contribution(s, frozen.theta, frozen.coordinates, frozen.scales.bound) for s in seen]
    (latest,) = curator.learner.records
    np.testing.assert_allclose(latest.score, sum(p.score for p in pairs), atol=1e-10)
    assert curator.ledger.rho == math.inf
    assert curator.release.count == 1


def test_open_batch_is_frozen_until_it_is_full() -> None:
    """Nothing that offers or contributions use changes before the last slot is taken."""
    source = simulated()
    curator = curator_of(Quiet(rho=1.0), 2, source, (4,))
    frozen, first = curator.batch.frozen, curator.release
    for item in visitors(2, frozen.size - 1, (4,), 2, 2):
        assert curator.observe(item) is first
    assert curator.batch.frozen is frozen
    after = curator.observe(visitors(3, 1, (4,), 2, 2)[0])
    assert after.count.tolist() == [1, 1, 1, 1]
    assert curator.batch.frozen.size == math.ceil(1.35 * frozen.size)


def test_silent_and_over_cap_visitors_take_their_slot_and_add_nothing() -> None:
    """A batch of visitors who do not count closes on time and releases noise alone, taken for little information."""
    source = Noiseless()
    curator = curator_of(Quiet(rho=1.0), 2, source)
    frozen = curator.batch.frozen
    for item in visitors(4, frozen.size, (), 2, 2):
        curator.observe(Round(item.context, item.assortment, item.choice, counts=np.asarray(False)))
    (latest,) = curator.learner.records
    assert not latest.score.any()
    expected = np.linalg.eigvalsh(latest.size * frozen.expected[2])
    assert (latest.values < 0.5 * expected).all()


class Cancelling:
    """Noise that cancels a given difference: two neighbouring histories then release the very same sums."""

    grid, noiseless, assumption = 0.0, False, Simulated.assumption

    def __init__(self, shifts: list[np.ndarray]) -> None:
        self.shifts = list(shifts)

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        shift = self.shifts.pop(0)
        assert shift.shape == size
        assert np.linalg.norm(shift) < scale * 1e6
        return shift

    def only(self, worlds: np.ndarray) -> Cancelling:
        raise AssertionError(worlds)


def test_policies_see_the_same_when_a_visitor_is_replaced_and_the_release_is_not() -> None:
    """Neighbouring histories whose noise makes the released sums equal: all that a policy can see is equal, always."""
    rounds = visitors(5, 20, (), 2, 2)  # of batches of 6, 9 and 13
    replaced = list(rounds)
    replaced[3] = visitors(99, 1, (), 2, 2, size=3.0)[0]
    frozen = opened(started(Quiet(rho=1.0, conversion=0.62), 2, simulated()))

    def pair(item: Round) -> tuple[np.ndarray, np.ndarray]:
        shown = ObservedChoice(item.context.features.rows(item.assortment), item.assortment >= 0, item.choice)
        found = contribution(shown, frozen.theta, frozen.coordinates, frozen.scales.bound)
        return found.score, svec(found.information)

    difference = [a - b for a, b in zip(pair(rounds[3]), pair(replaced[3]), strict=True)]
    later = [np.ones(2), np.ones(3)]
    histories = {
        "as it was": (rounds, Cancelling([np.zeros(2), np.zeros(3), *later])),
        "one replaced": (replaced, Cancelling([*difference, *later])),
    }
    seen = {}
    for name, (history, source) in histories.items():
        curator = curator_of(Quiet(rho=1.0, conversion=0.62), 2, source)
        seen[name] = [visible(curator.observe(item)) for item in history]
        assert curator.release.count == 2
    for before, after in zip(*seen.values(), strict=True):
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_parallel_worlds_equal_each_world_alone() -> None:
    """Five worlds side by side give what the third gives by itself, to the bit, noise included."""
    seeds = np.random.SeedSequence(3).spawn(5)
    together, alone = Simulated(Streams(seeds)), Simulated(Streams(seeds[2:3]))
    many = curator_of(Quiet(rho=1.0, conversion=0.62), 2, together, (5,))
    one = curator_of(Quiet(rho=1.0, conversion=0.62), 2, alone, (1,))
    for item in visitors(6, 60, (5,), 3, 2):
        x = item.context.features.rows(np.broadcast_to(np.arange(5), (5, 5)))
        many.observe(item)
        one.observe(Round(Context(Dense(x[2:3]), np.ones((1, 5)), 3), item.assortment[2:3], item.choice[2:3]))
    for mine, other in zip(visible(many.release), visible(one.release), strict=True):
        np.testing.assert_array_equal(mine[2:3], other)
    assert many.release.count[0] == 4


@pytest.mark.parametrize("rho", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("capacity", "dim"), [(1, 1), (1, 3), (4, 1), (4, 3)])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
def test_extreme_shops_stay_finite(rho: float, capacity: int, dim: int, size: float) -> None:
    """K = 1, d = 1, tiny and huge rho, identical items, features of 1e6: theta is finite and the precision definite."""
    source = simulated(7)
    curator = curator_of(Quiet(rho=rho, first=0.01, max_batch=40), dim, source)
    for item in visitors(8, 150, (), capacity, dim, size):
        curator.observe(item)
    assert curator.release.count >= 2
    assert np.isfinite(curator.release.theta).all()
    assert np.linalg.eigvalsh(curator.release.precision)[0] > 0
    assert curator.ledger.rho <= rho * (1 + 1e-12)


def test_collinear_features_leave_the_unseen_direction_to_the_prior() -> None:
    """Items that differ along one line teach nothing across it; nothing blows up."""
    source = simulated(9)
    curator = curator_of(Quiet(rho=5.0), 2, source)
    rng = np.random.default_rng(10)
    for _ in range(300):
        x = rng.normal(size=(3, 1)) * np.array([1.0, 1.0])
        curator.observe(Round(Context(Dense(x), np.ones(3), 3), np.arange(3), np.asarray(rng.integers(-1, 3))))
    assert np.isfinite(curator.release.theta).all()
    assert np.linalg.norm(curator.release.theta) < 10


def test_rounds_of_another_shape_are_refused_or_summed_apart() -> None:
    """A wrong dimension is refused and changes nothing; fewer places than before are no problem."""
    source = simulated()
    curator = curator_of(Quiet(rho=1.0), 2, source)
    curator.observe(visitors(1, 1, (), 3, 2)[0])
    with pytest.raises(ValueError, match="a round must have leading axes"):
        curator.observe(visitors(1, 1, (), 3, 5)[0])
    for item in visitors(2, curator.batch.frozen.size - 1, (), 2, 2):
        curator.observe(item)
    assert curator.release.count == 1


def test_those_who_do_not_count_add_nothing_beside_those_who_do() -> None:
    """Every third visitor is over the cap, others are told to count or told nothing: the sum is that of the others."""
    source = Noiseless()
    curator = curator_of(Quiet(rho=1.0), 3, source)
    frozen, expected = curator.batch.frozen, np.zeros(3)
    rounds = visitors(11, frozen.size, (), 3, 3)
    for place, item in enumerate(rounds):
        counts = [np.asarray(False), np.asarray(True), None][place % 3]
        curator.observe(Round(item.context, item.assortment, item.choice, counts=counts))
        if place % 3:
            seen = ObservedChoice(item.context.features.rows(item.assortment), item.assortment >= 0, item.choice)
            expected += contribution(seen, frozen.theta, frozen.coordinates, frozen.scales.bound).score
    (latest,) = curator.learner.records
    np.testing.assert_allclose(latest.score, expected, atol=1e-12)


def test_contributions_are_rounded_to_the_grid_of_the_noise() -> None:
    """With discrete noise every released sum is a whole number of grid steps: no fraction leaves without noise."""
    source = DiscreteGaussian()
    curator = curator_of(Quiet(rho=1.0), 3, source)
    for item in visitors(12, curator.batch.frozen.size, (), 3, 3):
        curator.observe(item)
    (latest,) = curator.learner.records
    steps = latest.score / source.grid
    np.testing.assert_array_equal(steps, np.rint(steps))


def round_of(x: Any, choice: Any) -> Round:
    """All of the rows x (..., K, d) shown."""
    items = np.broadcast_to(np.arange(x.shape[-2]), x.shape[:-1])
    return Round(Context(Dense(x), np.ones(x.shape[:-1]), x.shape[-2]), items, np.asarray(choice))


def test_each_world_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three worlds with three bounds release what three curators of one world each do."""
    bounds, source, as_shipped = np.array([0.05, 1.0, 20.0]), Noiseless(), Learner.open

    def of_their_own(learner: Learner, *args: Any) -> OpenBatch:
        batch = as_shipped(learner, *args)
        mine = bounds if batch.theta.ndim > 1 else float(bounds[which])
        return batch._replace(scales=batch_pair.scales(rho=1.0, bound=mine))

    monkeypatch.setattr(Learner, "open", of_their_own)
    rng, which = np.random.default_rng(12), 0
    x, choice = 3 * rng.normal(size=(40, 3, 2, 2)), rng.integers(-1, 2, size=(40, 3))
    together = curator_of(Quiet(rho=1.0), 2, source, (3,))
    for rows, picked in zip(x, choice, strict=True):
        together.observe(round_of(rows, picked))
    for which in range(3):
        alone = curator_of(Quiet(rho=1.0), 2, source)
        for rows, picked in zip(x, choice, strict=True):
            alone.observe(round_of(rows[which], picked[which]))
        assert len(alone.learner.records) >= 1
        for mine, other in zip(together.learner.records, alone.learner.records, strict=True):
            np.testing.assert_allclose(mine.score[which], other.score, atol=1e-12)
            np.testing.assert_allclose(mine.values[which], other.values, rtol=1e-9)
