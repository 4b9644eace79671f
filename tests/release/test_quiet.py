"""The learner of `quiet`: frozen batches, refused overspending, and a ledger that says rho in all."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from quietshelf.accounting import BudgetExceeded
from quietshelf.choice.features import Dense
from quietshelf.release.geometry import unknown_curvature
from quietshelf.release.noise import DiscreteGaussian, Noiseless, NoiseSource, Simulated
from quietshelf.release.quiet import Learner, OpenBatch, Quiet
from quietshelf.release.quiet_curator import QuietCurator
from quietshelf.statistics import Shown, contribution, nothing, summed, svec
from quietshelf.types import Context, Release, Round, Streams


def simulated(seed: int = 0) -> Simulated:
    return Simulated(np.random.default_rng(seed))


def started(config: Quiet, dim: int, source: NoiseSource, lead: tuple[int, ...] = (), **options: Any) -> Learner:
    return Learner.start(config, unknown_curvature(dim), source=source, lead=lead, **options)


def visitors(seed: int, rounds: int, lead: tuple[int, ...], capacity: int, dim: int, size: float = 1.0) -> list[Round]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rounds):
        x = size * rng.normal(size=(*lead, capacity + 2, dim))
        items = np.broadcast_to(np.arange(capacity), (*lead, capacity))
        choice = rng.integers(-1, capacity, size=lead)
        made.append(Round(Context(Dense(x), np.ones(x.shape[:-1]), capacity), items, np.asarray(choice)))
    return made


def visible(release: Release) -> list[Any]:
    return [release.theta, release.precision, release.radius, release.explore, release.count]


def test_batches_follow_the_schedule() -> None:
    """ceil(7 d / sqrt(rho)), then ceil(1.5 times the one before), up to the ceiling."""
    config = Quiet(rho=0.25)
    sizes = [config.batch_size(5, None)]
    for _ in range(3):
        sizes.append(config.batch_size(5, sizes[-1]))
    assert sizes == [70, 105, 158, 237]
    assert Quiet(rho=0.25, ceiling=100).batch_size(5, 70) == 100
    assert Quiet(rho=1e6).batch_size(1, None) == 1
    assert Quiet(rho=4.0, visits=4, unit="person").batch_size(5, None) == 35


def test_whole_run_costs_rho_whatever_its_length() -> None:
    """After every release the ledger reads rho: each visitor is in one batch."""
    source = simulated()
    learner = started(Quiet(rho=0.7), 3, source)
    assert learner.ledger.rho == 0.0
    batch = None
    for _ in range(5):
        batch = learner.open(batch, source)
        learner = learner.close(batch, nothing((), 3), source)
        assert learner.ledger.rho == pytest.approx(0.7)
        assert learner.ledger.rho <= 0.7 * (1 + 1e-12)
    assert len(learner.ledger.events) == 10


def test_persons_with_a_cap_share_rho_over_their_visits() -> None:
    """At three visits a person each release costs a third, and the three dearest batches add up to rho."""
    source = simulated()
    learner = started(Quiet(rho=0.9, visits=3, unit="person"), 2, source)
    batch = None
    for done in range(1, 6):
        batch = learner.open(batch, source)
        learner = learner.close(batch, nothing((), 2), source)
        assert learner.ledger.rho == pytest.approx(0.3 * min(done, 3))


def test_a_batch_is_released_once() -> None:
    """Releasing the same visitors again would cost them twice: refused, whatever the budget would still allow."""
    source = simulated()
    for config in (Quiet(rho=1.0), Quiet(rho=1.0, visits=3, unit="person")):
        learner = started(config, 2, source)
        batch = learner.open(None, source)
        after = learner.close(batch, nothing((), 2), source)
        with pytest.raises(ValueError, match="a batch must be released once, got batch=0"):
            after.close(batch, nothing((), 2), source)


def test_batches_waiting_for_answers_keep_what_they_were_opened_with() -> None:
    """A batch opened before an earlier one is released keeps the older theta and coordinates."""
    source = simulated()
    learner = started(Quiet(rho=1.0), 2, source)
    first = learner.open(None, source)
    second = learner.open(first, source)
    after = learner.close(first, nothing((), 2), source)
    np.testing.assert_array_equal(second.theta, first.theta)
    assert not np.array_equal(after.open(second, source).theta, first.theta)
    assert after.close(second, nothing((), 2), source).ledger.rho == pytest.approx(1.0)


def test_noise_calibrated_for_another_source_is_refused_before_anything_is_drawn() -> None:
    """A batch opened for unrounded sums cannot be released with rounded ones: it would cost more than rho."""
    learner = started(Quiet(rho=1.0), 2, simulated())

    class Untouched(DiscreteGaussian):
        def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
            raise AssertionError(f"noise was drawn at {scale} for {size}")

    with pytest.raises(BudgetExceeded):
        learner.close(learner.open(None, simulated()), nothing((), 2), Untouched())
    assert learner.records == ()
    assert learner.ledger.events == ()


def test_noiseless_learner_follows_the_statistic_and_reads_infinite() -> None:
    """With the injected source the record is the batch's exact sum, to 1e-10, and the ledger infinite."""
    source = Noiseless()
    rounds = visitors(1, 21, (), 3, 3)
    curator = QuietCurator(started(Quiet(rho=1.0), 3, source), source)
    opened = curator.batch
    for item in rounds:
        curator.observe(item)
    seen = [Shown(r.context.features.rows(r.assortment), r.assortment >= 0, r.choice) for r in rounds]
    pairs = [contribution(s, opened.theta, opened.coordinates) for s in seen]
    (latest,) = curator.learner.records
    np.testing.assert_allclose(latest.score, sum(p.score for p in pairs), atol=1e-10)
    assert curator.ledger.rho == math.inf
    assert curator.release.count == 1


def test_open_batch_is_frozen_until_it_is_full() -> None:
    """Nothing that offers or contributions use changes before the last slot is taken."""
    source = simulated()
    curator = QuietCurator(started(Quiet(rho=1.0), 2, source, (4,)), source)
    opened, first = curator.batch, curator.release
    for item in visitors(2, opened.size - 1, (4,), 2, 2):
        assert curator.observe(item) is first
    assert curator.batch is opened
    after = curator.observe(visitors(3, 1, (4,), 2, 2)[0])
    assert after.count.tolist() == [1, 1, 1, 1]
    assert curator.batch.size == math.ceil(1.5 * opened.size)


def test_silent_and_over_cap_visitors_take_their_slot_and_add_nothing() -> None:
    """A batch of visitors who do not count closes on time and releases noise alone."""
    source = Noiseless()
    curator = QuietCurator(started(Quiet(rho=1.0), 2, source), source)
    for item in visitors(4, curator.batch.size, (), 2, 2):
        curator.observe(Round(item.context, item.assortment, item.choice, counts=np.asarray(False)))
    (latest,) = curator.learner.records
    assert not latest.score.any()
    np.testing.assert_array_equal(latest.values, 1e-3)


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
    rounds = visitors(5, 40, (), 2, 2)
    replaced = list(rounds)
    replaced[3] = visitors(99, 1, (), 2, 2, size=3.0)[0]
    frozen = started(Quiet(rho=1.0), 2, simulated()).open(None, simulated())

    def pair(item: Round) -> tuple[np.ndarray, np.ndarray]:
        shown = Shown(item.context.features.rows(item.assortment), item.assortment >= 0, item.choice)
        found = contribution(shown, frozen.theta, frozen.coordinates)
        return found.score, svec(found.information)

    difference = [a - b for a, b in zip(pair(rounds[3]), pair(replaced[3]), strict=True)]
    later = [np.ones(2), np.ones(3)]
    histories = {
        "as it was": (rounds, Cancelling([np.zeros(2), np.zeros(3), *later])),
        "one replaced": (replaced, Cancelling([*difference, *later])),
    }
    seen = {}
    for name, (history, source) in histories.items():
        curator = QuietCurator(started(Quiet(rho=1.0), 2, source), source)
        seen[name] = [visible(curator.observe(item)) for item in history]
        assert curator.release.count == 2
    for before, after in zip(*seen.values(), strict=True):
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_parallel_worlds_equal_each_world_alone() -> None:
    """Five worlds side by side give what the third gives by itself, noise included."""
    seeds = np.random.SeedSequence(3).spawn(5)
    together, alone = Simulated(Streams(seeds)), Simulated(Streams(seeds[2:3]))
    many = QuietCurator(started(Quiet(rho=1.0), 2, together, (5,)), together)
    one = QuietCurator(started(Quiet(rho=1.0), 2, alone, (1,)), alone)
    for item in visitors(6, 60, (5,), 3, 2):
        x = item.context.features.rows(np.broadcast_to(np.arange(5), (5, 5)))
        many.observe(item)
        one.observe(Round(Context(Dense(x[2:3]), np.ones((1, 5)), 3), item.assortment[2:3], item.choice[2:3]))
    np.testing.assert_allclose(many.release.theta[2:3], one.release.theta, rtol=1e-9)
    assert many.release.count[0] == 2


@pytest.mark.parametrize("rho", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("capacity", "dim"), [(1, 1), (1, 3), (4, 1), (4, 3)])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
def test_extreme_shops_stay_finite(rho: float, capacity: int, dim: int, size: float) -> None:
    """K = 1, d = 1, tiny and huge rho, identical items, features of 1e6: theta is finite and the precision definite."""
    source = simulated(7)
    learner = started(Quiet(rho=rho, first=0.01, ceiling=40), dim, source)
    curator = QuietCurator(learner, source)
    for item in visitors(8, 150, (), capacity, dim, size):
        curator.observe(item)
    assert curator.release.count >= 2
    assert np.isfinite(curator.release.theta).all()
    assert np.linalg.eigvalsh(curator.release.precision)[0] > 0
    assert curator.ledger.rho <= rho * (1 + 1e-12)


def test_collinear_features_leave_the_unseen_direction_to_the_prior() -> None:
    """Items that differ along one line teach nothing across it; nothing blows up."""
    source = simulated(9)
    curator = QuietCurator(started(Quiet(rho=5.0), 2, source), source)
    rng = np.random.default_rng(10)
    for _ in range(300):
        x = rng.normal(size=(3, 1)) * np.array([1.0, 1.0])
        curator.observe(Round(Context(Dense(x), np.ones(3), 3), np.arange(3), np.asarray(rng.integers(-1, 3))))
    assert np.isfinite(curator.release.theta).all()
    assert np.linalg.norm(curator.release.theta) < 10


def test_a_public_prior_is_where_learning_starts() -> None:
    """A warm start is the first release, and silence leaves it where it is, to the noise's weight."""
    source = Noiseless()
    theta, precision = np.array([1.0, -2.0]), 50 * np.eye(2)
    learner = started(Quiet(rho=1.0), 2, source, prior=(theta, precision))
    np.testing.assert_array_equal(learner.release.theta, theta)
    batch = learner.open(None, source)
    np.testing.assert_array_equal(batch.theta, theta)
    np.testing.assert_allclose(learner.close(batch, nothing((), 2), source).release.theta, theta, rtol=0.05)


def test_forgetting_weighs_old_records_less() -> None:
    """With forgetting the precision from old records fades; without, it only grows."""
    source = simulated(11)
    rng = np.random.default_rng(0)
    seen = Shown(rng.normal(size=(500, 3, 2)), np.ones((500, 3), bool), rng.integers(-1, 3, size=500))

    def closed(learner: Learner) -> Learner:
        batch = learner.open(OpenBatch(len(learner.records) - 1, 500, *first[2:]), source)
        return learner.close(batch, summed(contribution(seen, batch.theta, batch.coordinates)), source)

    keep, fade = (started(Quiet(rho=50.0, forgetting=g, first=1e4, ceiling=500), 2, source) for g in (1.0, 0.5))
    first = keep.open(None, source)
    for _ in range(6):
        keep, fade = closed(keep), closed(fade)
    assert np.trace(fade.release.precision) < 0.5 * np.trace(keep.release.precision)


def test_health_speaks_of_releases_alone() -> None:
    """Before a release, with drowned information, and with clear information."""
    source = simulated(12)
    learner = started(Quiet(rho=1.0), 2, source)
    assert learner.health == "no release yet: the first comes after 14 visitors"
    assert learner.close(learner.open(None, source), nothing((), 2), source).health == (
        "information is below the noise in 2 of 2 directions: few visitors yet"
    )
    late = learner.open(None, source, size=10**4)
    assert learner.close(late, nothing((), 2), source).health == (
        "information is below the noise in 2 of 2 directions: check the declared scales"
    )
    clear = nothing((), 2)._replace(information=svec(1e4 * np.eye(2)))
    patient = started(Quiet(rho=1.0, first=1e4), 2, source)
    full = patient.close(patient.open(None, source), clear, source)
    assert full.health == "information is above the noise in all 2 directions"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"rho": -1.0}, "rho must be positive and finite, got rho=-1.0"),
        ({"rho": 1.0, "visits": 0}, "visits must be a whole number from 1 on, got visits=0"),
        ({"rho": 1.0, "visits": 2}, "visits above 1 need person ids, got visits=2"),
        ({"rho": 1.0, "share": 1.0}, "share must be between 0 and 1, got share=1.0"),
        ({"rho": 1.0, "growth": 0.5}, "growth must be at least 1 and finite, got growth=0.5"),
        ({"rho": 1.0, "forgetting": 0.0}, "forgetting must be in (0, 1], got forgetting=0.0"),
        ({"rho": 1.0, "ceiling": 0}, "ceiling must be a whole number from 1 on, got ceiling=0"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], message: str) -> None:
    """Each rule names the value that breaks it."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Quiet(**options)


def test_rounds_of_another_shape_are_refused_or_summed_apart() -> None:
    """A wrong dimension is refused and changes nothing; fewer places than before are no problem."""
    source = simulated()
    curator = QuietCurator(started(Quiet(rho=1.0), 2, source), source)
    curator.observe(visitors(1, 1, (), 3, 2)[0])
    with pytest.raises(ValueError, match="a round must have leading axes"):
        curator.observe(visitors(1, 1, (), 3, 5)[0])
    for item in visitors(2, curator.batch.size - 1, (), 2, 2):
        curator.observe(item)
    assert curator.release.count == 1


def test_senseless_priors_are_refused() -> None:
    """A prior must be finite, of the right shape and positive definite."""
    for prior in ((np.zeros(3), np.eye(2)), (np.zeros(2), np.eye(3)), (np.zeros(2), -np.eye(2))):
        with pytest.raises(ValueError, match="prior"):
            started(Quiet(rho=1.0), 2, simulated(), prior=prior)
