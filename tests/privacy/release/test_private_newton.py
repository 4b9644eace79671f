"""The private fit of a log: what it costs, how good it is, and that its errors are honest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.privacy.release.curvatures import catalogue_curvature

from quietshelf.model.choice import fit
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import Assumption, BudgetExceeded, Ledger
from quietshelf.privacy.release import private_newton as module
from quietshelf.privacy.release.batch_pair import Noisy
from quietshelf.privacy.release.geometry import scaled_curvature, unknown_curvature
from quietshelf.privacy.release.noise import DiscreteGaussian, Simulated
from quietshelf.privacy.release.private_newton import (
    BOUND,
    LAST,
    SQUARES,
    STEPS,
    PrivateTastes,
    first_rounds,
    private_newton,
)
from quietshelf.privacy.statistics import Grids, ObservedChoice, Total

THETA = np.array([-2.0, 1.5, -1.0, 0.5])
CURVATURE = scaled_curvature(feature_map("item"), visitor_scale=np.zeros(0), item_scale=np.ones(3), capacity=8)


def log(count: int, rng: np.random.Generator) -> ObservedChoice:
    """Visitors who see eight items and choose by THETA."""
    x = np.concatenate([np.ones((count, 8, 1)), rng.normal(size=(count, 8, 3))], axis=-1)
    noisy = np.concatenate([x @ THETA, np.zeros((count, 1))], axis=1) + rng.gumbel(size=(count, 9))
    picked = noisy.argmax(axis=1)
    return ObservedChoice(x, np.ones((count, 8), dtype=bool), np.where(picked == 8, -1, picked))


def test_without_noise_it_is_the_maximum_likelihood_of_weighted_rounds() -> None:
    """Newton gets to where the weighted score is zero, far from its start; the ledger then reads infinite."""
    shown = log(3000, np.random.default_rng(1))
    found = private_newton(shown, rho=1.0, curvature=CURVATURE, source=Noiseless())
    exact = fit(shown.rows, shown.position)
    assert np.abs(found.theta - exact.theta).max() < 3 * exact.standard_errors.max()
    assert found.ledger.rho == np.inf


def test_it_costs_rho_in_all_and_everybody_is_in_every_release() -> None:
    """Twelve releases of a pair, one of squares, all of one batch: the ledger adds them up to rho."""
    shown = log(200, np.random.default_rng(2))
    found = private_newton(shown, rho=0.5, curvature=CURVATURE, source=DiscreteGaussian(), unit="person")
    assert found.ledger.rho == pytest.approx(0.5, rel=1e-9)
    assert found.ledger.rho <= 0.5
    assert found.ledger.budget == 0.5
    assert found.ledger.unit == "person"
    assert {event.batch for event in found.ledger.events} == {0}
    assert len(found.ledger.events) == STEPS + 1
    assert {event.assumption for event in found.ledger.events} == {Assumption.EXACT_GRID}


def test_noise_is_that_of_each_share() -> None:
    """The last release has its share of the budget, the others the rest in equal parts."""
    found = private_newton(
        log(50, np.random.default_rng(3)), rho=2.0, curvature=CURVATURE, source=Simulated(np.random.default_rng(4))
    )
    noise = [event.noise for event in found.ledger.events if event.name == "pair"]
    assert noise[-1] == pytest.approx((2 * LAST) ** -0.5)
    assert noise[:-1] == pytest.approx([(2 * (1 - LAST - SQUARES) / (STEPS - 1)) ** -0.5] * (STEPS - 1))
    for one, unit in zip(found.releases, noise, strict=True):
        assert one.scales == pytest.approx((math.sqrt(2) * unit, BOUND * unit, BOUND))


def scores(rho: float, curvature: FloatArray, *, declared: bool) -> FloatArray:
    """Errors over standard errors in 60 logs of 1200 visitors."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tastes = private_newton(log(1200, rng), rho=rho, curvature=curvature, source=Simulated(rng), declared=declared)
        found.append((tastes.theta - THETA) / tastes.standard_errors)
    return np.array(found)


def honest(z: FloatArray) -> bool:
    """Whether at least 217 of 240 errors lie within 1.96 standard errors, and they are not far within."""
    return bool((np.abs(z) <= 1.96).sum() >= 217 and np.sqrt((z**2).mean()) > 0.8)


@pytest.mark.parametrize(("rho", "declared"), [(0.5, True), (2.0, True), (2.0, False)])
def test_standard_errors_count_sampling_and_noise(rho: float, declared: bool) -> None:
    """60 logs, 4 tastes: accepts the standard errors given, rejects two thirds and one and a half of them.

    At a coverage of 95 % fewer than 217 of 240 would be seen once in 700 times.
    """
    z = scores(rho, CURVATURE if declared else unknown_curvature(4), declared=declared)
    assert honest(z)
    assert not honest(1.5 * z)
    assert not honest(z / 1.5)


def test_scaled_curvature_is_that_of_a_large_catalogue_of_such_items() -> None:
    """100,000 items drawn with the declared scales agree to 3 %."""
    rng = np.random.default_rng(5)
    u, v = np.array([2.0, 0.5]), np.array([0.3, 1.0, 3.0])
    made = feature_map("full")
    exact = scaled_curvature(made, visitor_scale=u, item_scale=v, capacity=5)
    drawn = catalogue_curvature(v * rng.normal(size=(100_000, 3)), made, visitor_scale=u, capacity=5)
    size = np.sqrt(np.outer(np.diagonal(exact), np.diagonal(exact)))
    assert np.abs((exact - drawn) / size).max() < 0.03


def test_one_round_a_person_counts_in_an_order_that_no_round_can_move() -> None:
    """Adding visits of a person changes nobody else's place."""
    once = first_rounds(np.array([2, 0, 1]))
    more = first_rounds(np.array([2, 0, 1, 0, 0]))
    np.testing.assert_array_equal(once, more)
    np.testing.assert_array_equal(once, [1, 2, 0])


def scripted(shown: ObservedChoice, patch: pytest.MonkeyPatch) -> PrivateTastes:
    """A fit whose noise makes every release what the script says, whatever the log is."""
    rng, exact, total = np.random.default_rng(6), [0.0], module._total

    def release(*_: Any, **__: Any) -> Noisy:
        noise = rng.normal(size=(4, 4))
        return Noisy(30 * rng.normal(size=4), 100 * np.eye(4) + noise + noise.T)

    def spied(*given: Any) -> Any:
        found = total(*given)
        exact[0] = found[1]
        return found

    class Cancelling(Simulated):
        def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
            assert scale > 0
            return np.full(size, 150.0 - exact[0])

    with patch.context() as inner:
        inner.setattr("quietshelf.privacy.release.batch_pair.release", release)
        inner.setattr(module, "_total", spied)
        return private_newton(shown, rho=1.0, curvature=CURVATURE, source=Cancelling(rng))


def test_what_comes_out_is_a_function_of_the_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two logs that have nothing in common but their releases give the same tastes and the same errors."""
    one, other = (scripted(log(80, np.random.default_rng(seed)), monkeypatch) for seed in (7, 8))
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-12)
    assert one.squares == pytest.approx(150.0)
    for a, b in zip(one.releases, other.releases, strict=True):
        np.testing.assert_array_equal(a.theta, b.theta)
        np.testing.assert_array_equal(a.coordinates, b.coordinates)


def test_every_sum_is_on_the_grid_of_the_noise() -> None:
    """Scores of every release, and the squares: whole numbers of grid steps, so that no fraction leaves."""
    source = DiscreteGaussian()
    found = private_newton(log(60, np.random.default_rng(9)), rho=1.0, curvature=CURVATURE, source=source)
    steps = np.append(np.concatenate([each.noisy.score for each in found.releases]), found.squares) / source.grid
    np.testing.assert_array_equal(steps, np.rint(steps))


def test_a_budget_that_does_not_suffice_is_refused_before_noise_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares that add up to more than all are met by the ledger, not by a release."""

    class Untouched(Simulated):
        def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
            raise AssertionError(f"noise was drawn at {scale} for {size}")

    monkeypatch.setattr(module, "_shares", lambda: [1.1])
    with pytest.raises(BudgetExceeded):
        private_newton(
            log(20, np.random.default_rng(1)),
            rho=1.0,
            curvature=CURVATURE,
            source=Untouched(np.random.default_rng(2)),
        )


def test_rows_that_looked_at_others_cost_without_bound() -> None:
    """The fit runs, its ledger reads infinite from the first entry on, and that entry says why."""
    looked = ("features were standardised by the log", "a column was dropped")
    found = private_newton(
        log(50, np.random.default_rng(3)),
        rho=1.0,
        curvature=CURVATURE,
        source=DiscreteGaussian(),
        data_dependent=looked,
    )
    promise = found.ledger.promise(delta=1e-6)
    assert promise.rho == promise.epsilon == promise.nominal_rho == np.inf
    assert all(step in found.ledger.events[0].detail for step in looked)
    assert "No privacy is promised" in promise.words
    assert Ledger.from_json(found.ledger.to_json()) == found.ledger


def test_the_longest_round_changes_no_bit_of_others() -> None:
    """A round of 200 items that say nothing adds nothing, and padding all rounds to it moves no bit."""
    rng, dim = np.random.default_rng(6), 29
    rows, theta, frame = (
        rng.normal(size=(100, 7, dim)),
        rng.normal(size=dim) / dim,
        np.tril(rng.normal(size=(dim, dim))),
    )
    rows[0] = 0.0
    sums = []
    for places in (7, 200):
        wide, offered = np.zeros((100, places, dim)), np.zeros((100, places), dtype=bool)
        wide[:, :7], offered[:, :7], offered[0] = rows, True, True
        shown = ObservedChoice(wide, offered, np.full(100, -1))
        sums.append(module._total(shown, theta, frame, Grids(2.0**-20, 2.0**-20)))
    np.testing.assert_array_equal(sums[0][0].score, sums[1][0].score)
    np.testing.assert_array_equal(sums[0][0].information, sums[1][0].information)
    assert sums[0][1] == sums[1][1]


def test_more_contributors_than_sum_exactly_are_refused_before_anything_is_drawn() -> None:
    """On a grid sums must be exact: the sensitivity knows of no rounding. One fewer would be read."""

    class Crowd:
        size = 2**33 + 1

        def total(self, *_: object) -> tuple[Total, float]:
            raise AssertionError("nobody may be summed")

    with pytest.raises(ValueError, match=r"at most 8,589,934,592 to sum exactly, got visitors=8589934593"):
        private_newton(Crowd(), rho=1.0, curvature=np.eye(2), source=DiscreteGaussian())
    Crowd.size -= 1
    with pytest.raises(AssertionError, match="nobody may be summed"):
        private_newton(Crowd(), rho=1.0, curvature=np.eye(2), source=DiscreteGaussian())
