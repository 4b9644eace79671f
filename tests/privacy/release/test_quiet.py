"""The learner of `quiet`: frozen batches, refused overspending, and a ledger that says rho in all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.privacy.release.learners import CAPACITY, opened, outlook_for, released, simulated, started, summed

from quietshelf.curation.outlook import VISITORS, MadeUp
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray
from quietshelf.policies import POLICIES
from quietshelf.privacy.release import records
from quietshelf.privacy.release.noise import DiscreteGaussian, Simulated
from quietshelf.privacy.release.outlook import FACTORS
from quietshelf.privacy.release.prior import UNDECLARED
from quietshelf.privacy.release.quiet import TRIALS, Learner, OpenBatch
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics import ObservedChoice, Total, contribution, nothing, svec


class Untouched(DiscreteGaussian):
    """A source that nobody may draw from."""

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        raise AssertionError(f"noise was drawn at {scale} for {size}")


class Still(Simulated):
    """A source that happens to draw zeros."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        return 0.0 * super().draw(scale, size)


def test_batches_follow_the_schedule() -> None:
    """ceil(1.3 sqrt(d) / conversion (1 + 1/rho)); then ceil(1.35 times the one before)."""
    config = Quiet(rho=2.0, conversion=0.25)
    sizes = [config.batch_size(5, None)]
    for _ in range(3):
        sizes.append(config.batch_size(5, sizes[-1]))
    assert sizes == [18, 25, 34, 46]
    assert Quiet(rho=2.0, max_batch=7).batch_size(5, 6) == 7
    assert Quiet(rho=2.0, conversion=0.1, max_batch=7).batch_size(5, None) == 7
    assert Quiet(rho=2.0, growth=1.0).batch_size(5, 6) == 6


def test_first_batches_are_long_enough_to_see_choices_above_the_noise() -> None:
    """Twice as many where half as many choose, or where a release has less to spend; never none."""
    of = {share: Quiet(rho=2.0, conversion=share).batch_size(10, None) for share in (0.5, 0.25, 0.125)}
    assert of == {0.5: 13, 0.25: 25, 0.125: 50}
    assert Quiet(rho=2.0).batch_size(10, None) == Quiet(rho=2.0, conversion=UNDECLARED).batch_size(10, None)
    assert Quiet(rho=0.5, conversion=0.5).batch_size(10, None) == 25
    assert Quiet(rho=2.0, visits=4, unit="person", conversion=0.5).batch_size(10, None) == 25
    assert Quiet(rho=1e6, conversion=0.5).batch_size(10, None) == 9
    assert Quiet(rho=1e6, conversion=0.999).batch_size(1, None) == 2


def test_whole_run_costs_rho_whatever_its_length() -> None:
    """After every release the ledger reads rho: each visitor is in one batch."""
    source = simulated()
    learner = started(Quiet(rho=0.7), 3, source)
    assert learner.ledger.rho == 0.0
    batch = None
    for _ in range(5):
        batch = opened(learner, batch)
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
        batch = opened(learner, batch)
        learner = released(learner, batch, nothing((), 2), source)
        assert learner.ledger.rho == pytest.approx(0.3 * min(done, 3))


def test_a_batch_is_released_once() -> None:
    """Releasing the same visitors again would cost them twice: refused, whatever the budget would still allow."""
    source = simulated()
    for config in (Quiet(rho=1.0), Quiet(rho=1.0, visits=3, unit="person")):
        learner = started(config, 2, source)
        batch = opened(learner)
        after = released(learner, batch, nothing((), 2), source)
        for again in (after, learner.charge(batch, source)):  # also where its noise was never drawn
            with pytest.raises(ValueError, match="a batch must be released once, got batch=0"):
                again.charge(batch, source)


def test_a_release_must_be_charged_first() -> None:
    """Noise is drawn for a cost that is in the ledger, never before."""
    source = Untouched()
    learner = started(Quiet(rho=1.0), 2, source)
    with pytest.raises(ValueError, match="a batch must be charged before it is released, got batch=0"):
        learner.learn(opened(learner), nothing((), 2), source)


def test_batches_waiting_for_answers_keep_what_they_were_opened_with() -> None:
    """A batch opened before an earlier one is released keeps the older theta and coordinates."""
    source = simulated()
    learner = started(Quiet(rho=1.0), 2, source)
    first = opened(learner)
    second = opened(learner, first)
    after = released(learner, first, nothing((), 2), source)
    np.testing.assert_array_equal(second.theta, first.theta)
    assert not np.array_equal(opened(after, second).theta, first.theta)
    both = released(after, second, nothing((), 2), source)
    assert both.ledger.rho == pytest.approx(1.0)
    assert not np.array_equal(opened(after, second).coordinates, second.coordinates)
    np.testing.assert_array_equal(both.records[1].theta, second.theta)
    np.testing.assert_array_equal(both.records[1].coordinates, second.coordinates)


def test_a_public_prior_is_where_learning_starts() -> None:
    """A given prior is the first release, unchanged; a batch without evidence leaves it where it is."""
    source = Noiseless()
    theta, precision = np.array([1.0, -2.0]), 50 * np.eye(2)
    learner = started(Quiet(rho=1.0), 2, source, prior=(theta, precision))
    np.testing.assert_array_equal(learner.release.theta, theta)
    np.testing.assert_array_equal(learner.release.precision, precision)
    batch = opened(learner)
    np.testing.assert_array_equal(batch.theta, theta)
    after = released(learner, batch, nothing((), 2), source)
    np.testing.assert_allclose(after.release.theta, theta, rtol=1e-9)
    assert (np.linalg.eigvalsh(after.release.precision - precision) > 0).all()


def test_a_given_prior_is_neither_strengthened_nor_weakened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the releases say of how strong tastes are: what they add stands beside the precision that was given."""
    monkeypatch.setattr(records, "REBUILDS", 1)
    source, precision = simulated(2), np.diag([1.0, 2.0, 3.0])
    for prior, kept in (((np.zeros(3), precision), True), (None, False)):
        learner = started(Quiet(rho=50.0), 3, source, prior=prior)
        batch = learner.open(0, 5000, outlook_for(learner))
        total = sums_of(batch, 1.0, 5000, 0)._replace(score=np.zeros(3))  # no tastes at all
        after = released(learner, batch, total, source)
        told = records.evidence(after.records, after.moments.second[2], learner.estimate, 1.0)
        left = after.estimate.precision - told.precision
        assert np.allclose(left, learner.estimate.precision, rtol=1e-6, atol=1e-6) == kept


def test_forgetting_weighs_old_records_less() -> None:
    """With forgetting the precision from old records fades; without, it only grows."""
    source = simulated(11)
    rng = np.random.default_rng(0)
    seen = ObservedChoice(rng.normal(size=(500, 3, 2)), np.ones((500, 3), bool), rng.integers(-1, 3, size=500))

    def closed(learner: Learner) -> Learner:
        batch = learner.open(len(learner.records), 500, outlook_for(learner))
        return released(
            learner, batch, summed(contribution(seen, batch.theta, batch.coordinates, batch.scales.bound)), source
        )

    keep, fade = (started(Quiet(rho=50.0, forgetting=g, first=1e4, max_batch=500), 2, source) for g in (1.0, 0.5))
    for _ in range(6):
        keep, fade = closed(keep), closed(fade)
    assert np.trace(fade.release.precision) < 0.5 * np.trace(keep.release.precision)


def sums_of(batch: OpenBatch, factor: float, visitors: int, seed: int) -> Total:
    """Sums of visitors whose features are ``factor`` times as large as declared, with random choices."""
    rng = np.random.default_rng(seed)
    rows = factor * rng.normal(size=(visitors, CAPACITY, 3)) / np.sqrt(3)
    seen = ObservedChoice(rows, np.ones((visitors, CAPACITY), bool), rng.integers(-1, CAPACITY, size=visitors))
    return summed(contribution(seen, batch.theta, batch.coordinates, batch.scales.bound))


def after_releases(factor: float, releases: int = 3, lead: tuple[int, ...] = ()) -> Learner:
    """A learner in three dimensions after long batches of visitors with features of another scale than declared."""
    source = simulated(4)
    learner = started(Quiet(rho=50.0), 3, source, lead)
    for number in range(releases):
        batch = learner.open(number, 500, outlook_for(learner))
        learner = released(learner, batch, sums_of(batch, factor, 500, number), source)
    return learner


@pytest.mark.parametrize("factor", FACTORS)
def test_wrong_scales_are_found_and_the_prior_follows_them(factor: float) -> None:
    """Long batches of features of another scale than declared: the factor is believed, utilities keep their size."""
    learner = after_releases(factor)
    assert learner.factor == factor
    usual = after_releases(1.0).prior.precision
    np.testing.assert_allclose(learner.prior.precision, factor**2 * usual, rtol=1e-9, atol=1e-12)


def test_a_drowned_sum_leaves_what_the_factor_believed_in_made_likely() -> None:
    """What was expected of a batch is what features of the scale found so far would hold."""
    for factor in (1.0, 10.0):
        learner = after_releases(factor, 2)
        batch = learner.open(2, 500, outlook_for(learner))
        frozen = batch._replace(scales=batch.scales._replace(score=1e9, information=1e9))
        item = released(learner, frozen, nothing((), 3), Still()).records[-1]
        likely = np.linalg.eigvalsh(500 * batch.expected[FACTORS.index(factor)])
        np.testing.assert_allclose(item.values, likely, rtol=1e-4)


def test_factors_are_tried_for_the_first_releases_only() -> None:
    """Then a batch expects what the factor that is believed makes likely, and nothing else."""
    for done, tried in ((0, 5), (TRIALS - 1, 5), (TRIALS, 1)):
        learner = after_releases(10.0, done)
        batch = learner.open(done, 500, outlook_for(learner))
        assert batch.expected.shape == (tried, 3, 3)
    assert after_releases(10.0, TRIALS + 2).factor == 10.0


def test_items_alone_have_no_scale_to_be_wrong_about() -> None:
    """Without visitor features no scale can be declared wrongly: the only factor is 1."""
    items = np.random.default_rng(0).normal(size=(8, 2))

    def sample(factor: FloatArray) -> Context:
        x = np.broadcast_to(items, (*factor.shape, VISITORS, 8, 2))
        return Context(Dense(x), np.ones(x.shape[:-1]), CAPACITY)

    source, outlook = simulated(), MadeUp(sample, POLICIES["quiet"], (1.0,))
    learner = Learner.start(Quiet(rho=1.0), outlook, capacity=CAPACITY, source=source)
    huge = nothing((), 2)._replace(information=svec(1e4 * np.eye(2)))
    for number in range(TRIALS + 1):
        batch = learner.open(number, 100, outlook)
        assert batch.expected.shape == (1, 2, 2)
        learner = released(learner, batch, huge, source)
        assert learner.factor == 1.0
        assert "declare" not in learner.health


def test_health_speaks_of_releases_alone() -> None:
    """Before a release, with drowned information, and with clear information."""
    source = Noiseless()
    learner = started(Quiet(rho=0.1), 3, source)
    assert learner.health == "no release yet: the first comes after 124 visitors"
    batch = learner.open(0, 10, outlook_for(learner))
    early = released(learner, batch, sums_of(batch, 1.0, 10, 0), source)
    level = r"information is below the noise in 3 of 3 directions: a batch would need about [\d,]+ visitors"
    assert re.fullmatch(level, early.health)
    full = after_releases(1.0)
    assert full.health == "information is above the noise in all 3 directions"


def test_advice_on_the_size_of_a_batch_can_be_followed() -> None:
    """A batch of as many visitors as health asks for stands above the noise; one half as long does not."""
    source = Noiseless()
    learner = started(Quiet(rho=0.5), 3, source)

    def after(size: int) -> Learner:
        batch = learner.open(0, size, outlook_for(learner))
        total = Total(np.zeros(3), svec(size * batch.expected[2]))
        return released(learner, batch, total, source)

    found = re.search(r"need about ([\d,]+) visitors", after(10).health)
    assert found is not None
    needed = int(found[1].replace(",", ""))
    assert "below the noise" in after(needed // 2).health
    assert "above the noise in all" in after(2 * needed).health


@pytest.mark.parametrize(
    ("factor", "said"),
    [(0.1, "10 times smaller than"), (0.316, "3 times smaller than"), (3.16, "3 times as large as"),
     (10.0, "10 times as large as")],
)  # fmt: skip
def test_health_asks_for_other_scales_only_where_some_look_wrong(factor: float, said: str) -> None:
    """It says by how much, and what to do."""
    advice = f"; features look about {said} declared: declare their scales anew to learn faster"
    assert after_releases(factor).health.endswith(advice)
    assert "declare" not in after_releases(1.0).health
    assert "declare" not in after_releases(factor, 0).health


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"rho": -1.0}, "rho must be positive and finite, got rho=-1.0"),
        ({"rho": 1.0, "visits": 0}, "visits must be a whole number from 1 on, got visits=0"),
        ({"rho": 1.0, "visits": 2}, "visits above 1 need person ids, got visits=2"),
        *(
            ({"rho": 1.0, "conversion": wrong}, f"a share of visitors, above 0 and below 1, got conversion={wrong}")
            for wrong in (0.0, 1.0, -0.1, 20.0, float("nan"))
        ),
        ({"rho": 1.0, "first": 0.0}, "first must be positive and finite, got first=0.0"),
        ({"rho": 1.0, "optimism": -1.0}, "optimism must be"),
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
