"""Curves, costs and calibrations of the private fit: the paper's figures, the proven ones, and inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.privacy.release.losses import repaired_bound, smooth_loss

from quietshelf.privacy.release.objective_perturbation import UNIT_BALL
from quietshelf.privacy.release.perturbation_cost import Calibration, calibrate, choice_loss, cost, renyi_curve
from quietshelf.privacy.release.perturbation_curves import (
    Loss,
    Perturbation,
    mean_length,
    proven_rho,
    renyi_bound,
    repaired_rho,
)
from quietshelf.privacy.release.perturbation_paper import theorem_one, theorem_one_repaired, theorem_one_rho

BUDGETS = (1.0, 0.9, 0.1, 0.9 / 57)
calibrations = st.sampled_from(["sound", "mean-width", "paper"])
log_scales = st.floats(-3, 6).map(lambda power: 10**power)


@given(
    log_rho=st.floats(-6, 1.5),
    dim=st.integers(1, 60),
    capacity=st.integers(1, 30),
    calibration=calibrations,
)
@settings(max_examples=150)
def test_calibrate_and_cost_are_inverse(log_rho: float, dim: int, capacity: int, calibration: Calibration) -> None:
    """What is calibrated costs rho, to a relative 1e-6, and never more."""
    assume(calibration != "paper" or capacity > 1)
    rho = 10**log_rho
    spent = cost(*calibrate(rho, dim, capacity, calibration), dim, capacity, calibration)
    assert rho * (1 - 1e-6) <= spent <= rho


@pytest.mark.parametrize(
    ("rho", "sigma", "ridge"), [(1, 18.7, 38), (0.9, 20.7, 42), (0.1, 180, 398), (0.9 / 57, 1134, 2531)]
)
def test_printed_calibration_gives_the_papers_figures(rho: float, sigma: float, ridge: float) -> None:
    """Five features, ten items: the constants of PrivateMLE, to the digits given."""
    found = calibrate(rho, 5, 10, "paper")
    assert found.sigma == pytest.approx(sigma, rel=5e-3)
    assert found.ridge == pytest.approx(ridge, rel=2e-2)
    assert found.ridge == pytest.approx(4 / math.expm1(rho / 10), rel=1e-14)
    assert found.sigma == pytest.approx(2 * (math.sqrt(5 + rho) + math.sqrt(5)) / (rho / 2), rel=1e-14)


def test_printed_rank_is_the_papers_and_ours_the_true_one() -> None:
    """With three items of five features the paper prints R = 2; Hessians of rank 3 exist."""
    assert calibrate(1.0, 5, 3, "paper").ridge == pytest.approx(4 / math.expm1(0.5 / 2))
    x, p = np.eye(5)[:3], np.full(3, 0.25)
    assert np.linalg.matrix_rank(x.T * p @ x - np.outer(p @ x, p @ x)) == choice_loss(5, 3).rank == 3


@pytest.mark.parametrize(
    ("calibration", "figures"),
    [
        ("sound", [(3.37, 8.2), (3.53, 8.6), (10.7, 26.3), (27.2, 66.7)]),
        ("mean-width", [(6.57, 15.8), (7.17, 17.3), (53.7, 132), (331, 819)]),
    ],
)
def test_repaired_calibrations_give_known_figures(calibration: Calibration, figures: list[tuple[float, float]]) -> None:
    """Sigma and sqrt(d sigma² + ridge²) at d = 5, K = 10, within 2 % of figures found by another program."""
    for rho, (sigma, error) in zip(BUDGETS, figures, strict=True):
        found = calibrate(rho, 5, 10, calibration)
        assert found.sigma == pytest.approx(sigma, rel=0.02)
        assert math.hypot(math.sqrt(5) * found.sigma, found.ridge) == pytest.approx(error, rel=0.02)


def test_the_papers_fit_really_costs_two_thousand_times_less_than_charged() -> None:
    """Sigma 1134 and Delta 2531 are charged 0.9/57; proven are 7.45e-6 a fit, 4.2e-4 for all 57."""
    proven = cost(1134, 2531, 5, 10)
    assert proven == pytest.approx(7.45e-6, rel=1e-3)
    assert 57 * proven < 4.3e-4
    assert cost(1134, 2531, 5, 10, "paper") == pytest.approx(0.9 / 57, rel=1e-3)


@pytest.mark.parametrize(("dim", "capacity"), [(1, 1), (5, 10), (40, 3)])
@pytest.mark.parametrize("rho", [1e-3, 0.3, 4.0])
def test_sound_calibration_has_the_least_error_of_all_that_cost_the_same(rho: float, dim: int, capacity: int) -> None:
    """No ridge of a fine grid, with the sigma it needs, does better by more than 1e-5."""
    found = calibrate(rho, dim, capacity)
    least = math.sqrt(dim * found.sigma**2 + found.ridge**2)
    for ridge in np.geomspace(1.62 * choice_loss(dim, capacity).trace, 20 * found.ridge, 60):
        sigma = np.geomspace(0.5 * found.sigma, 100 * found.sigma, 4000)
        low, high = 0, sigma.size - 1
        while high - low > 1:  # cost falls in sigma
            middle = (low + high) // 2
            low, high = (low, middle) if cost(sigma[middle], ridge, dim, capacity) <= rho else (middle, high)
        assert least <= math.sqrt(dim * sigma[high] ** 2 + ridge**2) * (1 + 1e-5)


def grid_bound(sigma: float, ridge: float, loss: Loss) -> float:
    """The cost by the grid of docs/proofs.md, section 11, with the formulas written out independently."""
    t = loss.trace / ridge
    alpha = 1 + np.geomspace(1e-4, 1e4 * (1 + 1 / t), 20_000)
    gauss = loss.difference**2 / (2 * sigma**2)
    inside = 1 - alpha * (alpha - 1) * t**2 / (1 + t)
    a = np.where(alpha < 1 + 1 / t, alpha * gauss - np.log(np.maximum(inside, 1e-300)) / (alpha - 1), np.inf)
    b = loss.rank * np.log(1 + loss.trace / (loss.rank * ridge)) + loss.width / sigma + alpha * gauss
    points = [(1.0, 0.0)]
    for point in zip(alpha, (alpha - 1) * np.minimum(a, b), strict=True):
        while len(points) > 1 and _turns_down(points[-2], points[-1], point):
            points.pop()
        points.append(point)
    x, y = np.array(points).T
    divergence = np.interp(alpha, x, y) / (alpha - 1)
    return float(max(divergence[0], (divergence[1:] / alpha[:-1]).max(), b[-1] / alpha[-1]))


def _turns_down(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    (x0, y0), (x1, y1), (x2, y2) = first, second, third
    return (y1 - y0) * (x2 - x0) >= (y2 - y0) * (x1 - x0)


@pytest.mark.parametrize(
    ("sigma", "ridge"), [(1134.0, 2531.0), (3.4, 3.1), (1.0, 50.0), (40.0, 1.7), (0.5, 1.62), (300.0, 20.0)]
)
def test_proven_cost_is_the_grid_bound_without_its_gaps(sigma: float, ridge: float) -> None:
    """The exact supremum is below the bound on a grid of orders, by no more than the grid is wide."""
    loss = choice_loss(5, 10)
    bound = grid_bound(sigma, ridge, loss)
    assert 0.997 * bound <= proven_rho(sigma, ridge, loss) <= bound * (1 + 1e-9)


@given(sigma=log_scales, ridge=log_scales, dim=st.integers(1, 60), capacity=st.integers(1, 30))
@settings(max_examples=200)
def test_proven_cost_lies_between_the_gaussian_floor_and_closed_forms(
    sigma: float, ridge: float, dim: int, capacity: int
) -> None:
    """At least G²/(2 sigma²); at most bound (B), and at most (C) where it holds; the curve is within rho alpha."""
    loss = choice_loss(dim, capacity)
    rho, t, gauss = proven_rho(sigma, ridge, loss), loss.trace / ridge, loss.difference**2 / (2 * sigma**2)
    assert gauss <= rho <= repaired_rho(sigma, ridge, loss)
    if t <= 1 / 1.62:
        assert rho <= (gauss + math.sqrt(2) * t * (t + loss.width / sigma)) * (1 + 1e-9)
    orders = 1 + np.geomspace(1e-3, 1e6, 200)
    curve = renyi_bound(orders, sigma, ridge, loss)
    assert (curve <= orders * rho * (1 + 1e-9)).all()
    assert (curve <= repaired_bound(orders, sigma, ridge, loss) * (1 + 1e-9)).all()
    assert (np.diff(curve) >= -1e-9 * curve[1:]).all()


@given(sigma=log_scales, ridge=log_scales, more=st.floats(1, 5), dim=st.integers(1, 9), capacity=st.integers(1, 9))
def test_cost_falls_with_noise_and_ridge(sigma: float, ridge: float, more: float, dim: int, capacity: int) -> None:
    """More of either never costs more."""
    here = cost(sigma, ridge, dim, capacity) * (1 + 1e-9)
    assert cost(sigma * more, ridge, dim, capacity) <= here
    assert cost(sigma, ridge * more, dim, capacity) <= here


def test_ridge_below_the_floor_is_charged_by_bound_b() -> None:
    """Where t + t² > 1 Theorem A is not used; the cost is still proven, and that of "mean-width"."""
    assert cost(3.0, 1.6, 5, 10) == cost(3.0, 1.6, 5, 10, "mean-width")
    assert cost(3.0, 1.63, 5, 10) < 0.8 * cost(3.0, 1.63, 5, 10, "mean-width")


@pytest.mark.parametrize("calibration", ["sound", "mean-width", "paper"])
@pytest.mark.parametrize(("sigma", "ridge"), [(1.0, 0.0), (1.0, -1.0), (0.0, 1.0)])
def test_fit_without_noise_or_ridge_costs_infinitely_much(sigma: float, ridge: float, calibration: Calibration) -> None:
    """Nothing is proven without a strictly convex objective, or without noise."""
    assert cost(sigma, ridge, 5, 10, calibration) == math.inf
    assert np.isinf(renyi_curve([2.0, 3.0], sigma, ridge, 5, 10)).all()


def test_one_item_is_refused_by_the_printed_constants_and_right_in_ours() -> None:
    """K = 1: the printed rank is zero and so is Delta; the truth is G = 2, h = 1/4, W = 0.798."""
    with pytest.raises(ValueError, match="capacity >= 2"):
        calibrate(1.0, 5, 1, "paper")
    with pytest.raises(ValueError, match="capacity >= 2"):
        cost(10.0, 10.0, 5, 1, "paper")
    loss = choice_loss(5, 1)
    assert (loss.difference, loss.trace, loss.rank) == pytest.approx((2, 0.25, 1))
    assert loss.width == pytest.approx(2 / math.sqrt(2 * math.pi))
    assert cost(*calibrate(1.0, 5, 1), 5, 1) == pytest.approx(1.0)


def test_width_stays_bounded_as_features_grow() -> None:
    """W is 2 E chi for few features and 2 sqrt(2 ln(K+1)) for many."""
    assert choice_loss(5, 10).width == pytest.approx(2 * mean_length(5))
    assert choice_loss(1000, 10).width == pytest.approx(2 * math.sqrt(2 * math.log(11)))
    assert choice_loss(1000, 1000).rank == 1000
    sample = np.linalg.norm(np.random.default_rng(0).normal(size=(200_000, 5)), axis=1)
    assert abs(sample.mean() - mean_length(5)) < 5 * sample.std() / math.sqrt(200_000)  # false alarm 6e-7


@given(
    rho=st.floats(1e-5, 20),
    lipschitz=st.floats(0.1, 10),
    smoothness=st.floats(0.1, 10),
    rank=st.integers(1, 20),
    more=st.integers(0, 20),
    q=st.floats(0.05, 0.95),
)
def test_theorem_one_printed_and_repaired_are_inverse_to_their_costs(
    rho: float, lipschitz: float, smoothness: float, rank: int, more: int, q: float
) -> None:
    """For any true L, eta, R, d and q; and the printed perturbation costs at most rho by the repaired proof."""
    constants = {"lipschitz": lipschitz, "smoothness": smoothness, "rank": rank, "dim": rank + more}
    printed, loss = theorem_one(rho, **constants, q=q), smooth_loss(**constants)  # type: ignore[arg-type]
    assert theorem_one_rho(*printed, **constants) == pytest.approx(rho, rel=1e-9)  # type: ignore[arg-type]
    assert repaired_rho(*printed, loss) <= rho * (1 + 1e-9)
    repaired = theorem_one_repaired(rho, loss, q=q)
    assert repaired_rho(*repaired, loss) == pytest.approx(rho, rel=1e-9)
    assert repaired.sigma <= printed.sigma * (1 + 1e-9)
    assert repaired.ridge == pytest.approx(printed.ridge, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 5, 10), "rho must be positive"),
        ((1.0, 0, 10), "dim must be"),
        ((1.0, 5, 0), "capacity must be"),
        ((1.0, 5, 10, "tight"), "calibration must be one of sound, mean-width, paper"),
    ],
)
def test_calibrate_refuses_nonsense(arguments: tuple[float, int, int], message: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=message):
        calibrate(*arguments)
    with pytest.raises(ValueError, match="sigma must be finite"):
        cost(math.nan, 1.0, 5, 10)
    with pytest.raises(ValueError, match="orders must be above 1"):
        renyi_curve([1.0], 1.0, 1.0, 5, 10)
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        theorem_one(1.0, lipschitz=1.0, smoothness=1.0, rank=1, dim=1, q=1.0)
    with pytest.raises(ValueError, match="its ridge vanishes"):
        theorem_one(2000.0, lipschitz=1.0, smoothness=1.0, rank=1, dim=1)


def test_perturbation_is_a_pair() -> None:
    """It unpacks into sigma and ridge, the order in which every function takes them."""
    sigma, ridge = Perturbation(sigma=1.0, ridge=2.0)
    assert (sigma, ridge) == (1.0, 2.0)


@pytest.mark.parametrize("capacity", [1, 2, 10])
def test_constants_allow_for_features_as_long_as_a_fit_accepts(capacity: int) -> None:
    """Clipping rounds: G and h are those of the longest feature that is not refused."""
    loss, exact = choice_loss(5, capacity), (2.0, 0.25) if capacity == 1 else (4.0, 1.0)
    assert loss.difference >= exact[0] * UNIT_BALL
    assert loss.trace >= exact[1] * UNIT_BALL**2


@pytest.mark.parametrize("price", [proven_rho, repaired_rho])
def test_rounding_of_a_cost_is_added(price: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost lies above what the formula gives in float64."""
    cases = [(sigma, ridge) for sigma in (0.3, 3.0, 300.0) for ridge in (0.1, 1.7, 30.0)]
    above = [price(*case, choice_loss(5, 10)) for case in cases]
    monkeypatch.setattr("quietshelf.privacy.release.perturbation_curves.ROUNDING", 0.0)
    assert all(a > price(*case, choice_loss(5, 10)) for a, case in zip(above, cases, strict=True))
