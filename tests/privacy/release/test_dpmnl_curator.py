"""The curator of DPMNL: the paper's algorithm, with its counters, triggers and costs as they should be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Round, Streams
from quietshelf.privacy.accounting import BudgetExceeded
from quietshelf.privacy.release import theory
from quietshelf.privacy.release.dpmnl import Dpmnl, DpmnlEpsilonDelta
from quietshelf.privacy.release.dpmnl_curator import DpmnlCurator
from quietshelf.privacy.release.maximum_likelihood import MaximumLikelihood
from quietshelf.privacy.release.noise import NoiseSource, Simulated

D, K = 3, 4
T, T0 = 400, 30


def source(seed: int = 0) -> Simulated:
    return Simulated(np.random.default_rng(seed))


def curator(
    config: Dpmnl | DpmnlEpsilonDelta,
    noise: NoiseSource,
    *,
    worlds: tuple[int, ...] = (),
    horizon: int = T,
    dim: int = D,
    capacity: int = K,
) -> DpmnlCurator:
    plan = config.plan(dim=dim, capacity=capacity, horizon=horizon, source=noise)
    return DpmnlCurator(plan, noise, dim=dim, capacity=capacity, worlds=worlds)


def visitors(
    seed: int, rounds: int, worlds: tuple[int, ...] = (), *, dim: int = D, capacity: int = K, radius: float = 1.0
) -> list[Round]:
    """Random assortments of features in a ball, answered by a logit visitor who likes the first coordinate."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rounds):
        x = rng.normal(size=(*worlds, capacity, dim))
        x *= radius / np.maximum(1.0, np.linalg.norm(x, axis=-1, keepdims=True))
        noisy = np.concatenate([2 * x[..., 0] / radius, np.zeros((*worlds, 1))], axis=-1) + rng.gumbel(
            size=(*worlds, capacity + 1)
        )
        picked = noisy.argmax(-1)
        items = np.broadcast_to(np.arange(capacity), (*worlds, capacity))
        context = Context(Dense(x), np.ones(x.shape[:-1]), capacity)
        made.append(Round(context, items, np.where(picked == capacity, -1, picked)))
    return made


def test_noiseless_curator_equals_ucb_mnl_on_the_same_schedule() -> None:
    """Without noise and with equal ridges the paper's curator is UCB-MNL: theta, V and fit times agree to 1e-8."""
    noise = Noiseless()
    mine = curator(Dpmnl(rho=1e7, fits=6, explore=T0), noise, worlds=(3,))
    plan = mine._plan
    exact = MaximumLikelihood(
        D, K, worlds=(3,), explore=T0, ridge=2 * plan.shift, growth=1.0, radius=plan.radius, fits=plan.fits
    )
    exact._ridge = plan.perturbation.ridge  # one ridge serves UCB-MNL for V and for its fits; here they differ
    for item in visitors(1, T, (3,)):
        a, b = mine.observe(item), exact.observe(item)
        np.testing.assert_allclose(a.theta, b.theta, atol=1e-8)
        np.testing.assert_allclose(a.precision, b.precision, atol=1e-8)
        np.testing.assert_array_equal(a.count, b.count)
        np.testing.assert_array_equal(a.explore, b.explore)
        np.testing.assert_allclose(a.radius, b.radius)
    assert int(mine.release.count.max()) == 6
    assert mine.ledger.rho == math.inf


def test_sound_calibration_never_exceeds_rho_and_spends_it_fully_at_the_cap() -> None:
    """The Gram part, and one share for each fit: rho in all once D_MLE fits are made, and no fit beyond."""
    mine = curator(Dpmnl(rho=80.0, fits=3, explore=T0), source(), worlds=(4,))
    spent = []
    for item in visitors(2, T, (4,)):
        mine.observe(item)
        spent.append(mine.ledger.rho)
    assert spent[0] == pytest.approx(8.0)
    assert int(mine.release.count.max()) == 3
    assert spent[-1] == pytest.approx(80.0, rel=1e-3)
    assert spent[-1] <= 80.0
    assert spent == sorted(spent)


def test_exploration_fit_is_the_first_of_the_fits_counted() -> None:
    """Random assortments until T0, theta zero until then, and the T0 fit has number one."""
    mine = curator(Dpmnl(rho=5.0, fits=1, explore=T0), source())
    for t, item in enumerate(visitors(3, T0 + 100), start=1):
        release = mine.observe(item)
        assert bool(release.explore) == (t < T0)
        assert int(release.count) == (t >= T0)
    assert len(mine.ledger.events) == 2


def test_paper_calibration_states_proven_beside_nominal_cost() -> None:
    """On features declared bounded the printed Gram part costs K rho2; unbounded ones cost infinity."""
    declared = curator(Dpmnl(rho=1.0, calibration="paper", bounded=True, explore=T0), source())
    open_ended = curator(Dpmnl(rho=1.0, calibration="paper", explore=T0), source())
    for item in visitors(4, T0):
        declared.observe(item)
        open_ended.observe(item)
    gram, fit = declared.ledger.events
    assert gram.rho == pytest.approx(K * 0.1)
    assert gram.nominal_rho == pytest.approx(0.1)
    assert fit.nominal_rho == pytest.approx(0.09)
    assert fit.rho < 0.09
    assert declared.ledger.nominal_rho == pytest.approx(0.19)
    assert open_ended.ledger.rho == math.inf
    assert open_ended.ledger.nominal_rho == pytest.approx(0.19)


def test_declared_bounds_are_checked() -> None:
    """Features outside the ball that were declared inside are refused: the proven cost would be wrong."""
    mine = curator(Dpmnl(rho=1.0, calibration="paper", bounded=True, explore=T0), source())
    outside = visitors(5, 1, radius=3.0)[0]
    with pytest.raises(ValueError, match="trace"):
        mine.observe(outside)
    for item in visitors(5, T0):  # the refused visitor left no trace
        release = mine.observe(item)
    assert int(release.count) == 1


def test_clipping_divides_and_theta_comes_back_in_raw_units() -> None:
    """Features ten times as large with a public radius of ten give a tenth of theta, and the same offers."""
    small = curator(Dpmnl(rho=1e6, explore=T0, fits=2), source(7))
    large = curator(Dpmnl(rho=1e6, explore=T0, fits=2, clip=10.0), source(7))
    for a, b in zip(visitors(6, 80), visitors(6, 80, radius=10.0), strict=True):
        one, ten = small.observe(a), large.observe(b)
    np.testing.assert_allclose(one.theta, 10 * ten.theta, rtol=1e-6)
    np.testing.assert_allclose(100 * one.precision, ten.precision, rtol=1e-9)


def test_one_item_is_refused_as_printed_and_right_when_sound() -> None:
    """At K = 1 the printed ridge is zero and protects nobody; the sound calibration has the right constants."""
    with pytest.raises(ValueError, match="rank"):
        curator(Dpmnl(rho=1.0, calibration="paper", explore=T0), source(), capacity=1)
    mine = curator(Dpmnl(rho=1.0, explore=T0), source(), capacity=1)
    for item in visitors(8, T, capacity=1):
        release = mine.observe(item)
    assert np.isfinite(release.theta).all()
    assert mine.ledger.rho <= 1.0


def test_one_dimension_is_handled() -> None:
    """With d = 1 the printed lambda's third term is taken at its limit."""
    for calibration in ("paper", "sound"):
        settings: Any = {"calibration": calibration}
        mine = curator(Dpmnl(rho=1.0, explore=T0, **settings), source(), dim=1)
        for item in visitors(9, 60, dim=1):
            release = mine.observe(item)
        assert np.isfinite(release.theta).all()
        assert np.linalg.eigvalsh(release.precision)[0] > 0


def test_literal_trigger_never_fires_at_the_papers_sizes() -> None:
    """One visitor changes det V by a factor of at most exp(K / least eigenvalue of V) and the noise: far below two."""
    horizon, dim, capacity = 10_000, 5, 10
    literal = Dpmnl(rho=1.0, calibration="paper", trigger="literal", explore=50)
    mine = curator(literal, source(), worlds=(4,), horizon=horizon, dim=dim, capacity=capacity)
    largest, last = 0.0, None
    for item in visitors(10, 1000, (4,), dim=dim, capacity=capacity):
        release = mine.observe(item)
        size = np.linalg.slogdet(release.precision)[1]
        largest = max(largest, float((size - last).max())) if last is not None else 0.0
        last = size
    assert release.count.tolist() == [1, 1, 1, 1]
    assert largest < math.log(2) / 2
    plan = mine._plan
    assert plan.shift > 2 * capacity / math.log(2)  # lambda_min(V) >= lambda with high probability


def test_repaired_trigger_fires_at_most_as_often_as_its_bound() -> None:
    """Refits since the last update telescope: no more than d log2 of the growth of V, with noise and all."""
    horizon = 3000
    config = Dpmnl(rho=5.0, share=0.5, fits=40, explore=T0, continual="toeplitz")
    mine = curator(config, source(), worlds=(5,), horizon=horizon)
    for item in visitors(11, horizon, (5,)):
        release = mine.observe(item)
    bound = theory.refit_bound(dim=D, capacity=K, horizon=horizon, shift=mine._plan.shift, information=0.0)
    refits = release.count - 1
    assert int(refits.min()) >= 1
    assert int(refits.max()) <= bound


def test_doubling_trigger_fits_at_public_times() -> None:
    """With T0 = 30: after 30, 60, 120 and 240 visitors whatever the noise, within the cap."""
    for fits in (10, 3):
        mine = curator(Dpmnl(rho=5.0, fits=fits, explore=T0, trigger="doubling"), source(), worlds=(2,))
        counts = [mine.observe(item).count.tolist() for item in visitors(15, T, (2,))]
        expected = np.minimum(np.searchsorted([30, 60, 120, 240], np.arange(1, T + 1), side="right"), fits)
        np.testing.assert_array_equal(counts, np.stack([expected, expected], axis=-1))


def test_only_fresh_curators_with_equal_settings_share_a_batch_key() -> None:
    """Those that differ in numbers are; those that clip otherwise, sum otherwise or have begun are not."""
    first = curator(Dpmnl(rho=1.0, explore=T0), source(), worlds=(2,))
    assert (
        first.batch_key
        == curator(Dpmnl(rho=2.0, share=0.5, fits=3, explore=T0), source(), worlds=(2,)).batch_key
        is not None
    )
    assert first.batch_key != curator(Dpmnl(rho=1.0, explore=T0, clip=2.0), source(), worlds=(2,)).batch_key
    assert curator(Dpmnl(rho=1.0, explore=T0, continual="toeplitz"), source(), worlds=(2,)).batch_key is None
    first.observe(visitors(16, 1, (2,))[0])
    assert first.batch_key is None


def test_budget_refuses_before_a_fit_is_drawn() -> None:
    """A fit too many, forced, is refused by the ledger before its noise is drawn, and theta stays."""
    mine = curator(Dpmnl(rho=1.0, fits=1, explore=T0), source())
    rounds = visitors(12, T0 + 1)
    for item in rounds[:-1]:
        mine.observe(item)
    before = mine.release.theta
    mine._mark = np.asarray(-1e9)
    mine._fits = np.asarray(2)
    with pytest.raises(BudgetExceeded):
        mine.observe(rounds[-1])
    assert mine.release.theta is before


def test_parallel_worlds_equal_each_world_alone() -> None:
    """Each world has its own noise of nodes and fits, whatever other worlds run and whenever it refits."""
    seeds = np.random.SeedSequence(5).spawn(3)
    config = Dpmnl(rho=3.0, fits=8, explore=T0, continual="toeplitz")
    together = curator(config, Simulated(Streams(seeds)), worlds=(3,))
    alone = curator(config, Simulated(Streams(seeds[1:2])), worlds=(1,))
    for item in visitors(13, 300, (3,)):
        x = item.context.features.rows(np.broadcast_to(np.arange(K), (3, K)))[1:2]
        many = together.observe(item)
        one = alone.observe(Round(Context(Dense(x), np.ones((1, K)), K), item.assortment[1:2], item.choice[1:2]))
    np.testing.assert_allclose(many.theta[1:2], one.theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(many.precision[1:2], one.precision, rtol=1e-9)


def test_v_is_positive_definite_however_loud_the_noise() -> None:
    """Eigenvalues that noise pushes below the floor are cut off: no radius is ever NaN."""
    mine = curator(Dpmnl(rho=1e-4, explore=T0), source(3), worlds=(20,))
    object.__setattr__(mine._plan, "shift", 1e-3)
    for item in visitors(14, 60, (20,)):
        release = mine.observe(item)
        assert np.linalg.eigvalsh(release.precision).min() > 0


def test_benchmark_runs() -> None:
    """Exploration, fits and V as in DPMNL, from its own numbers."""
    mine = curator(DpmnlEpsilonDelta(rho=50.0, fits=4, explore=T0), source(), worlds=(2,))
    for item in visitors(15, T, (2,)):
        release = mine.observe(item)
    assert 1 <= int(release.count.min()) <= int(release.count.max()) <= 4
    assert np.isfinite(release.theta).all()


def test_one_long_feature_among_short_ones_is_refused_by_the_fit() -> None:
    """The Gram matrix bears it, its trace being below K; the gradients of a fit are bounded only in the unit ball."""
    mine = curator(Dpmnl(rho=1.0, calibration="paper", bounded=True, explore=2), source())
    x = np.zeros((K, D))
    x[0, 0] = 1.5
    outside = Round(Context(Dense(x), np.ones(K), K), np.arange(K), np.asarray(-1))
    mine.observe(outside)
    with pytest.raises(ValueError, match="features must lie in the unit ball"):
        mine.observe(outside)


def test_a_fit_is_charged_before_its_noise_is_drawn() -> None:
    """A budget that bears the Gram matrix alone refuses the first fit; its source is not touched."""

    class Untouched(Simulated):
        def only(self, worlds: Any) -> Any:
            raise AssertionError(worlds)

        def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
            raise AssertionError(f"noise was drawn at {scale} for {size}")

    plan = Dpmnl(rho=1.0, explore=3).plan(dim=D, capacity=K, horizon=T, source=source())
    poor = replace(plan, budget=1.001 * plan.continual.event.rho)
    mine = DpmnlCurator(poor, Untouched(np.random.default_rng(0)), dim=D, capacity=K)
    *before, last = visitors(11, 3)
    for item in before:
        mine.observe(item)
    with pytest.raises(BudgetExceeded):
        mine.observe(last)
    assert len(mine.ledger.events) == 1
