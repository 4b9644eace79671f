"""The learner of `quiet`: frozen batches, refused overspending, and a ledger that says rho in all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.release.learners import opened, released, simulated, started

from quietshelf.accounting import BudgetExceeded
from quietshelf.release.noise import DiscreteGaussian, Noiseless
from quietshelf.release.quiet import Learner, Quiet
from quietshelf.statistics import Shown, contribution, nothing, summed, svec


class Untouched(DiscreteGaussian):
    """A source that nobody may draw from."""

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        raise AssertionError(f"noise was drawn at {scale} for {size}")


def test_batches_follow_the_schedule() -> None:
    """ceil(7 d / sqrt(rho)), then ceil(1.5 times the one before), up to max_batch."""
    config = Quiet(rho=0.25)
    sizes = [config.batch_size(5, None)]
    for _ in range(3):
        sizes.append(config.batch_size(5, sizes[-1]))
    assert sizes == [70, 105, 158, 237]
    assert Quiet(rho=0.25, max_batch=100).batch_size(5, 70) == 100
    assert Quiet(rho=1e6).batch_size(1, None) == 1
    assert Quiet(rho=4.0, visits=4, unit="person").batch_size(5, None) == 35


def test_whole_run_costs_rho_whatever_its_length() -> None:
    """After every release the ledger reads rho: each visitor is in one batch."""
    source = simulated()
    learner = started(Quiet(rho=0.7), 3, source)
    assert learner.ledger.rho == 0.0
    batch = None
    for _ in range(5):
        batch = opened(learner, source, batch)
        learner = released(learner, batch, nothing((), 3), source)
        assert learner.ledger.rho == pytest.approx(0.7)
        assert learner.ledger.rho <= 0.7 * (1 + 1e-12)
    assert len(learner.ledger.events) == 5


def test_persons_with_a_cap_share_rho_over_their_visits() -> None:
    """At three visits a person each release costs a third, and the three dearest batches add up to rho."""
    source = simulated()
    learner = started(Quiet(rho=0.9, visits=3, unit="person"), 2, source)
    batch = None
    for done in range(1, 6):
        batch = opened(learner, source, batch)
        learner = released(learner, batch, nothing((), 2), source)
        assert learner.ledger.rho == pytest.approx(0.3 * min(done, 3))


def test_a_batch_is_released_once() -> None:
    """Releasing the same visitors again would cost them twice: refused, whatever the budget would still allow."""
    source = simulated()
    for config in (Quiet(rho=1.0), Quiet(rho=1.0, visits=3, unit="person")):
        learner = started(config, 2, source)
        batch = opened(learner, source)
        after = released(learner, batch, nothing((), 2), source)
        for again in (after, learner.charge(batch, source)):  # also where its noise was never drawn
            with pytest.raises(ValueError, match="a batch must be released once, got batch=0"):
                again.charge(batch, source)


def test_a_release_must_be_charged_first() -> None:
    """Noise is drawn for a cost that is in the ledger, never before."""
    source = Untouched()
    learner = started(Quiet(rho=1.0), 2, source)
    with pytest.raises(ValueError, match="a batch must be charged before it is released, got batch=0"):
        learner.learn(opened(learner, source), nothing((), 2), source)


def test_batches_waiting_for_answers_keep_what_they_were_opened_with() -> None:
    """A batch opened before an earlier one is released keeps the older theta and coordinates."""
    source = simulated()
    learner = started(Quiet(rho=1.0), 2, source)
    first = opened(learner, source)
    second = opened(learner, source, first)
    after = released(learner, first, nothing((), 2), source)
    np.testing.assert_array_equal(second.theta, first.theta)
    assert not np.array_equal(opened(after, source, second).theta, first.theta)
    both = released(after, second, nothing((), 2), source)
    assert both.ledger.rho == pytest.approx(1.0)
    assert not np.array_equal(opened(after, source, second).coordinates, second.coordinates)
    np.testing.assert_array_equal(both.records[1].theta, second.theta)
    np.testing.assert_array_equal(both.records[1].coordinates, second.coordinates)


def test_noise_calibrated_for_another_source_is_refused_before_anything_is_drawn() -> None:
    """A batch opened for unrounded sums cannot be released with rounded ones: it would cost more than rho."""
    learner = started(Quiet(rho=1.0), 2, simulated())
    with pytest.raises(BudgetExceeded):
        released(learner, opened(learner, simulated()), nothing((), 2), Untouched())
    assert learner.records == ()
    assert learner.ledger.events == ()


def test_a_public_prior_is_where_learning_starts() -> None:
    """A warm start is the first release, and silence leaves it where it is, to the noise's weight."""
    source = Noiseless()
    theta, precision = np.array([1.0, -2.0]), 50 * np.eye(2)
    learner = started(Quiet(rho=1.0), 2, source, prior=(theta, precision))
    np.testing.assert_array_equal(learner.release.theta, theta)
    batch = opened(learner, source)
    np.testing.assert_array_equal(batch.theta, theta)
    np.testing.assert_allclose(released(learner, batch, nothing((), 2), source).release.theta, theta, rtol=0.05)


def test_forgetting_weighs_old_records_less() -> None:
    """With forgetting the precision from old records fades; without, it only grows."""
    source = simulated(11)
    rng = np.random.default_rng(0)
    seen = Shown(rng.normal(size=(500, 3, 2)), np.ones((500, 3), bool), rng.integers(-1, 3, size=500))

    def closed(learner: Learner) -> Learner:
        batch = learner.open(len(learner.records), 500, source)
        return released(
            learner, batch, summed(contribution(seen, batch.theta, batch.coordinates, batch.scales.bound)), source
        )

    keep, fade = (started(Quiet(rho=50.0, forgetting=g, first=1e4, max_batch=500), 2, source) for g in (1.0, 0.5))
    for _ in range(6):
        keep, fade = closed(keep), closed(fade)
    assert np.trace(fade.release.precision) < 0.5 * np.trace(keep.release.precision)


def test_health_speaks_of_releases_alone() -> None:
    """Before a release, with drowned information, and with clear information."""
    source = simulated(12)
    learner = started(Quiet(rho=1.0, first=3.0), 2, source)
    assert learner.health == "no release yet: the first comes after 6 visitors"
    assert released(learner, opened(learner, source), nothing((), 2), source).health == (
        "information is below the noise in 2 of 2 directions: few visitors yet"
    )
    late = learner.open(0, 10**4, source)
    assert released(learner, late, nothing((), 2), source).health == (
        "information is below the noise in 2 of 2 directions: check the declared scales"
    )
    clear = nothing((), 2)._replace(information=svec(1e4 * np.eye(2)))
    patient = started(Quiet(rho=1.0, first=1e4), 2, source)
    full = released(patient, opened(patient, source), clear, source)
    assert full.health == "information is above the noise in all 2 directions"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"rho": -1.0}, "rho must be positive and finite, got rho=-1.0"),
        ({"rho": 1.0, "visits": 0}, "visits must be a whole number from 1 on, got visits=0"),
        ({"rho": 1.0, "visits": 2}, "visits above 1 need person ids, got visits=2"),
        ({"rho": 1.0, "growth": 0.5}, "growth must be at least 1 and finite, got growth=0.5"),
        ({"rho": 1.0, "forgetting": 0.0}, "forgetting must be in (0, 1], got forgetting=0.0"),
        ({"rho": 1.0, "max_batch": 0}, "max_batch must be a whole number from 1 on, got max_batch=0"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], message: str) -> None:
    """Each rule names the value that breaks it."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Quiet(**options)


def test_senseless_priors_are_refused() -> None:
    """A prior must be finite, of the right shape and positive definite."""
    for prior in ((np.zeros(3), np.eye(2)), (np.zeros(2), np.eye(3)), (np.zeros(2), -np.eye(2))):
        with pytest.raises(ValueError, match="prior"):
            started(Quiet(rho=1.0), 2, simulated(), prior=prior)
