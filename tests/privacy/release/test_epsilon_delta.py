"""The (epsilon, delta) benchmark's fit: printed formulas as printed, repaired ones sufficient, the fair one tight."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.release.losses import smooth_loss

from quietshelf.privacy.accounting import epsilon_classic, epsilon_of_gaussian
from quietshelf.privacy.release.epsilon_delta import (
    calibrate_epsilon,
    composed_epsilon,
    epsilon_cost,
    printed_algorithm,
    printed_share,
    printed_theorem,
    repaired_share,
    repaired_theorem,
)
from quietshelf.privacy.release.perturbation_cost import choice_loss
from quietshelf.privacy.release.perturbation_curves import Perturbation

MODEL: dict[str, Any] = {"dim": 5, "capacity": 10}
epsilons, deltas = st.floats(0.01, 20), st.floats(-12, -2).map(lambda power: 10**power)


def error(found: Perturbation) -> float:
    return math.sqrt(5 * found.sigma**2 + found.ridge**2)


def test_printed_formulas_are_those_on_the_page() -> None:
    """Theorem and algorithm of the supplement, with the numbers put in by hand."""
    log = math.log(2 / 1e-4)
    root = 5 + 2 * math.sqrt(5 * log) + 2 * log
    q, epsilon = 0.25, 0.8
    both = math.sqrt(root) + math.sqrt(root + 2 * q * epsilon)
    theorem = printed_theorem(epsilon, 1e-4, lipschitz=2.0, smoothness=4.0, rank=3, dim=5, q=q)
    assert theorem == pytest.approx((2 * both / (q * epsilon), 0.75 * 3 * 4 / epsilon))
    algorithm = printed_algorithm(epsilon, 1e-4, lipschitz=2.0, rank=3, dim=5, q=q)
    assert algorithm == pytest.approx((4 * 2 * both / epsilon, 2 * 3 / epsilon))


@given(epsilon=epsilons, delta=deltas, rank=st.integers(1, 10), q=st.floats(0.1, 0.9))
def test_repaired_theorem_meets_both_conditions_of_its_proof(epsilon: float, delta: float, rank: int, q: float) -> None:
    """(1 + eta/Delta)^R <= e^((1-q) eps), and 2 L²/sigma² + 2 L sqrt(Q)/sigma = q eps; the printed Delta fails."""
    found = repaired_theorem(epsilon, delta, smooth_loss(lipschitz=1.5, smoothness=0.7, rank=rank, dim=12), dim=12, q=q)
    assert found.ridge == pytest.approx(rank * 0.7 / ((1 - q) * epsilon))
    assert rank * math.log1p(0.7 / found.ridge) <= (1 - q) * epsilon
    log = math.log(1 / delta)
    quantile = 12 + 2 * math.sqrt(12 * log) + 2 * log
    slope = 1.5 / found.sigma
    assert 2 * slope**2 + 2 * slope * math.sqrt(quantile) == pytest.approx(q * epsilon, rel=1e-9)
    printed = printed_theorem(epsilon, delta, lipschitz=1.5, smoothness=0.7, rank=rank, dim=12, q=q)
    assert printed.ridge == pytest.approx((1 - q) ** 2 * found.ridge)
    assert printed.sigma > found.sigma


def test_printed_delta_fails_the_step_of_its_own_proof() -> None:
    """At epsilon = 1, q = 1/2, rank 5 the determinant ratio may be e^1.7 where e^0.5 is claimed."""
    ridge = printed_theorem(1.0, 1e-6, lipschitz=2.0, smoothness=4.0, rank=5, dim=5).ridge
    assert 5 * math.log1p(4 / ridge) > 1.6


@given(epsilon=epsilons, delta=deltas, fits=st.integers(1, 300))
def test_repaired_shares_add_up_and_are_no_smaller_than_printed_ones(epsilon: float, delta: float, fits: int) -> None:
    """By plain or by advanced composition all fits together are within (epsilon, delta), and little is left over."""
    each = repaired_share(epsilon, delta, fits)
    plain = each.epsilon == epsilon / fits
    total = epsilon if plain else composed_epsilon(each.epsilon, fits, delta / 2)
    assert epsilon * (1 - 1e-9) <= total <= epsilon
    assert each.delta * fits + (0 if plain else delta / 2) <= delta * (1 + 1e-12)
    assert each.epsilon >= epsilon / fits


def test_printed_share_is_the_papers_split() -> None:
    """(epsilon / sqrt(8 D ln(1/delta)), delta / (2 D)), whose deltas add up to 3/2 of delta."""
    each = printed_share(2.0, 1e-8, 57)
    assert each.epsilon == pytest.approx(2 / math.sqrt(8 * 57 * math.log(1e8)))
    assert 57 * each.delta + 1e-8 == pytest.approx(1.5e-8)


@given(
    epsilon=st.floats(0.05, 15),
    delta=deltas,
    fits=st.integers(1, 100),
    dim=st.integers(1, 30),
    capacity=st.integers(1, 20),
)
@settings(max_examples=12)
def test_fair_calibration_and_epsilon_cost_are_inverse(
    epsilon: float, delta: float, fits: int, dim: int, capacity: int
) -> None:
    """To a relative 1e-6, and never more than epsilon."""
    found = calibrate_epsilon(epsilon, delta, fits=fits, dim=dim, capacity=capacity)
    spent = epsilon_cost(*found, delta=delta, fits=fits, dim=dim, capacity=capacity)
    assert epsilon * (1 - 1e-6) <= spent <= epsilon


@pytest.mark.parametrize(
    ("fits", "epsilon", "known"), [(1, 1.0, 60.0), (1, 4.0, 16.3), (1, 8.0, 8.7), (57, 1.0, 422.0), (57, 8.0, 61.0)]
)
def test_fair_calibration_gives_known_figures(fits: int, epsilon: float, known: float) -> None:
    """sqrt(d sigma² + ridge²) at delta = 1e-8, d = 5, K = 10, within 1 % of figures found by another program."""
    assert error(calibrate_epsilon(epsilon, 1e-8, fits=fits, **MODEL)) == pytest.approx(known, rel=0.01)


@pytest.mark.parametrize(("rho", "spent", "proven"), [(0.1, 2.53, 0.16), (0.5, 5.91, 0.39), (1.0, 8.63, 0.57)])
def test_printed_benchmark_really_costs_far_less_than_it_spends(rho: float, spent: float, proven: float) -> None:
    """57 fits with 90 % of the lemma's epsilon and of delta = 1e-8: the figures of docs/proofs.md, section 14."""
    epsilon, delta = 0.9 * epsilon_classic(rho, 1e-8), 0.9e-8
    assert epsilon == pytest.approx(spent, abs=0.005)
    found = calibrate_epsilon(epsilon, delta, fits=57, **MODEL, calibration="paper")
    cost = epsilon_cost(*found, delta=delta, fits=57, **MODEL)
    assert 0.95 * proven <= cost <= proven + 0.005


def test_calibrations_improve_on_each_other() -> None:
    """Fair needs less than repaired, repaired less than printed."""
    errors = [
        error(calibrate_epsilon(2.0, 1e-8, fits=57, **MODEL, calibration=name))
        for name in ("sound", "repaired", "paper")
    ]
    assert errors[0] < errors[1] / 10 < errors[2] / 20


def test_epsilon_cost_is_above_the_gaussian_floor_and_near_it_for_a_large_ridge() -> None:
    """Without curvature the fit is a Gaussian mechanism of sensitivity 4."""
    cost = epsilon_cost(10.0, 1e6, delta=1e-6, fits=3, **MODEL)
    exact = epsilon_of_gaussian(math.sqrt(3) * 4 / 10, 1e-6)
    assert exact <= cost <= 1.1 * exact
    assert epsilon_cost(10.0, 0.0, delta=1e-6, fits=3, **MODEL) == math.inf


def test_one_item_is_refused_as_printed_and_served_otherwise() -> None:
    """K = 1: the printed rank is zero."""
    one: dict[str, Any] = {"fits": 3, "dim": 2, "capacity": 1}
    with pytest.raises(ValueError, match="capacity >= 2"):
        calibrate_epsilon(1.0, 1e-6, **one, calibration="paper")
    assert calibrate_epsilon(1.0, 1e-6, **one, calibration="repaired").ridge > 0
    with pytest.raises(ValueError, match="rank must be positive"):
        printed_theorem(1.0, 1e-6, lipschitz=1.0, smoothness=1.0, rank=0, dim=2)


def test_repaired_choice_model_needs_the_trace_only() -> None:
    """The repaired ridge of the choice model is 2/eps at q = 1/2: less than the algorithm's 2R/eps."""
    assert repaired_theorem(0.5, 1e-6, choice_loss(5, 10), dim=5).ridge == pytest.approx(4.0)
    assert printed_algorithm(0.5, 1e-6, lipschitz=2.0, rank=5, dim=5).ridge == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [(0.0, 1e-6, "epsilon must be positive"), (1.0, 0.0, r"delta must be in \(0, 1\)"), (1.0, 1.0, "delta must be in")],
)
def test_epsilon_delta_refuses_nonsense(epsilon: float, delta: float, message: str) -> None:
    """The rule, then the value."""
    for calibration in ("sound", "repaired", "paper"):
        with pytest.raises(ValueError, match=message):
            calibrate_epsilon(epsilon, delta, fits=3, **MODEL, calibration=calibration)
    with pytest.raises(ValueError, match="calibration must be one of sound, repaired, paper"):
        calibrate_epsilon(1.0, 1e-6, fits=3, **MODEL, calibration="tight")  # type: ignore[arg-type]


def test_composition_is_the_general_bound() -> None:
    """D e (exp(e) - 1) + e sqrt(2 D log(1/slack)): e is not small here, and its square would not do."""
    expected = 3 * (math.e - 1) + math.sqrt(6 * math.log(1e6))
    assert composed_epsilon(1.0, 3, 1e-6) == pytest.approx(expected, rel=1e-14)
