"""The paper's constants: figures known from the proofs, formulas as typed from the page, bounds that hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.privacy.release.printed import error_constant, exploration

from quietshelf.privacy.release import theory
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.tree import paper
from quietshelf.privacy.statistics import clip, gram

SIZE: dict[str, Any] = {"dim": 5, "capacity": 10, "horizon": 10_000}
BUDGET: dict[str, Any] = {"rho": 0.9, "fits": 57}


def test_levels_is_one_more_than_the_floor_of_the_binary_logarithm() -> None:
    """At and around powers of two, where floating-point logarithms may slip."""
    for power in range(1, 40):
        assert [theory.levels(2**power + step) for step in (-1, 0, 1)] == [power, power + 1, power + 1]


def test_shifts_are_the_published_ones() -> None:
    """At d = 5, T = 10^4, in units of sigma sqrt(m): 37.4 printed, 9.23 tight, 13.1 tight for the paper's noise."""
    assert round(theory.printed_shift(1.0, dim=5, horizon=10_000), 1) == 37.4
    assert round(theory.tight_shift(1.0, dim=5, chance=1e-8), 2) == 9.23
    assert round(theory.tight_shift(math.sqrt(2), dim=5, chance=1e-8), 1) == 13.1
    corrected = 10 * 14 / math.sqrt(0.1)  # K m / sqrt(rho2)
    assert round(theory.printed_shift(corrected, dim=5, horizon=10_000)) == 16572


def test_printed_shift_in_one_dimension_is_its_limit() -> None:
    """The third term is 0/0 at d = 1; 2 + 4 sqrt(log T) is what the others leave."""
    assert theory.printed_shift(3.0, dim=1, horizon=100) == pytest.approx(3 * (2 + 4 * math.sqrt(math.log(100))))


@given(st.integers(2, 60), st.integers(1, 10**9))
def test_printed_shift_is_the_lemma_as_typed(dim: int, horizon: int) -> None:
    """Term by term."""
    log = math.log(dim)
    ratio = (log / dim) ** (1 / 3)
    terms = [
        2 * math.sqrt(dim),
        2 * dim ** (1 / 6) * log ** (1 / 3),
        6 * (1 + ratio) * math.sqrt(log) / math.sqrt(math.log(1 + ratio)),
        2 * math.sqrt(4 * math.log(horizon)),
    ]
    assert theory.printed_shift(2.5, dim=dim, horizon=horizon) == pytest.approx(2.5 * sum(terms))


def test_shifted_sums_stay_positive_definite() -> None:
    """The paper's tree, d = 4, T = 500, 40 worlds: no noise falls below the tight shift (false alarm 0.08, seeded)."""
    tree = paper(0.5, horizon=500, dim=4, capacity=3, source=Simulated(np.random.default_rng(30)))
    tight = theory.tight_shift(tree.widest, dim=4, chance=500.0**-2)
    assert tight < theory.printed_shift(tree.diagonal, dim=4, horizon=500)
    state, least = tree.start((40,)), math.inf
    for _ in range(500):
        state, noisy = tree.add(state, np.zeros((40, 4, 4)))
        least = min(least, float(np.linalg.eigvalsh(noisy).min()))
    assert -tight < least < -tight / 4


def test_radius_is_the_lemma_as_typed() -> None:
    """Alpha_t with D read as D_MLE, R = min(d, K - 1), q = 1/2, kappa and c given."""
    d, K, T, t, rho, D, q, kappa, c, shift = 5, 10, 10_000, 777, 0.9, 57, 0.5, 0.2, 1e-4, 5240.0
    choices = math.sqrt(d / 2 * math.log(1 + t / d) + math.log(t))
    ridge = 4 / (math.exp((1 - q) * rho / (min(d, K - 1) * D)) - 1)
    root = math.sqrt(d + 2 * q * rho / D) + math.sqrt(d)
    spread = 4 * D * math.sqrt(d) * root / (q * rho) * math.sqrt(math.log(T) / K)
    expected = c * ((choices + ridge + spread) / kappa + math.sqrt(3 * shift))
    alpha = theory.radius(**SIZE, **BUDGET, shift=shift, kappa=kappa, split=q, scale=c)(t)
    assert alpha == pytest.approx(expected, rel=1e-10)


def test_benchmark_radius_is_the_supplement_as_typed() -> None:
    """Alpha-tilde_t; the print has no kappa, which is kappa = 1."""
    d, K, T, t, epsilon, noise, shift = 5, 10, 10_000, 777, 0.3, 40.0, 900.0
    expected = (
        math.sqrt(d / 2 * math.log(1 + (t + 1) / d) + math.log(t + 1))
        + 4 * min(d, K - 1) / (epsilon * math.sqrt(K))
        + math.sqrt(4 * d * math.log(T) * noise**2) / math.sqrt(K)
        + math.sqrt(3 * shift)
    )
    assert theory.benchmark_radius(**SIZE, epsilon=epsilon, noise=noise, shift=shift)(t) == pytest.approx(expected)


def test_the_theoretical_exploration_exceeds_the_simulated_horizon() -> None:
    """At d = 5, K = 10, D = 57, rho1 = 0.9: the private term squared is 2.4e7, and T0 is above 10^7, not below T."""
    constant = error_constant(**SIZE, **BUDGET)
    ridge = 4 / math.expm1(0.45 / 57 / 5)
    choices = math.sqrt(2.5 * math.log1p(2000) + math.log(10_000))
    assert (math.sqrt(constant) - ridge - choices) ** 2 == pytest.approx(2.4e7, rel=0.02)
    explored = exploration(constant, **SIZE, eigenvalue=0.2, c1=1.0, c2=1.0)
    assert explored > 10_000_000
    reach = (math.sqrt(5) + math.sqrt(2 * math.log(10_000))) / 0.2
    assert explored == math.ceil(reach**2 / 10 + 2 * constant / (10 * 0.2))


def test_exploration_asks_for_at_least_capacity() -> None:
    """The lemma's max(C, K): a constant below K changes nothing."""
    plain = {**SIZE, "eigenvalue": 0.2, "c1": 1.0, "c2": 1.0}
    assert exploration(1e-3, **plain) == exploration(10.0, **plain) < exploration(100.0, **plain)


def test_error_constant_grows_with_the_inverse_square_of_rho() -> None:
    """Quadratic, where the text says T0 = O(log T / rho1)."""
    small, smaller = (error_constant(**SIZE, rho=rho, fits=57) for rho in (1e-3, 1e-4))
    assert smaller / small == pytest.approx(100, rel=0.01)


def test_regret_bound_is_the_printed_sum_but_for_its_third_term() -> None:
    """Equation "regret" term by term; the ridge's term carries sqrt(8 d T ...), printed as sqrt(4 d T ...)."""
    d, K, T, rho, D, q, kappa, shift, explored = 5, 10, 10_000, 0.9, 57, 0.5, 0.2, 5240.0, 500
    log = math.log((d * shift + T * K) / (d * shift + d * K))
    root = math.sqrt(d + 2 * q * rho / D) + math.sqrt(d)
    ridge = 1 / (math.exp((1 - q) * rho / (min(d, K - 1) * D)) - 1)

    def printed(under_the_root: float) -> float:
        return (
            explored
            + math.sqrt(4 * d**2 * T * math.log(1 + T / d) * log + 8 * d * T * math.log(T) * log) / kappa
            + 4 / kappa * ridge * math.sqrt(under_the_root * d * T * log)
            + 8 * math.sqrt(2) * D * d * root / (kappa * math.sqrt(K) * q * rho) * math.sqrt(T * math.log(T) * log)
            + math.sqrt(24 * d * T * shift * log)
        )

    alpha = theory.radius(**SIZE, **BUDGET, shift=shift, kappa=kappa, split=q)(T)
    bound = theory.regret_bound(alpha, **SIZE, shift=shift, explored=explored)
    assert bound == pytest.approx(printed(8.0), rel=1e-10)
    assert bound > 1.05 * printed(4.0)


@pytest.mark.parametrize(("rho", "bound"), [(0.1, 13.8), (1.0, 19.6), (10.0, 26.8)])
def test_refit_bound_has_the_known_figures(rho: float, bound: float) -> None:
    """The paper's noise and shift at d = 5, K = 10, T = 10^4, whatever was explored."""
    shift = theory.printed_shift(math.sqrt(10 / rho) * 14, dim=5, horizon=10_000)
    assert round(theory.refit_bound(**SIZE, shift=shift, information=0.0), 1) == bound


def test_refits_since_the_last_update_stay_below_the_bound() -> None:
    """The paper's tree, 8 worlds, T = 1000: det V doubling since the last update, fewer times than the bound."""
    rng = np.random.default_rng(31)
    tree = paper(10.0, horizon=1000, dim=3, capacity=4, source=Simulated(rng))
    shift = theory.printed_shift(tree.diagonal, dim=3, horizon=1000)
    state, refits, last = tree.start((8,)), np.zeros(8), np.full(8, 3 * math.log(2 * shift))
    for _ in range(1000):
        state, noisy = tree.add(state, gram(clip(rng.normal(size=(8, 4, 3)))))
        log_det = np.linalg.slogdet(noisy + 2 * shift * np.eye(3))[1]
        due = log_det > last + math.log(2)
        refits, last = refits + due, np.where(due, log_det, last)
    bound = theory.refit_bound(dim=3, capacity=4, horizon=1000, shift=shift, information=0.0)
    assert refits.min() >= 1
    assert refits.max() <= bound


def test_fits_allowed_is_the_ceiling_of_d_log2_kt() -> None:
    """84 at the paper's sizes; exact at powers of two; never 0."""
    assert theory.fits_allowed(**SIZE) == 84
    assert theory.fits_allowed(dim=3, capacity=4, horizon=256) == 30
    assert theory.fits_allowed(dim=3, capacity=1, horizon=1) == 1


def test_one_item_at_a_time_uses_the_true_rank() -> None:
    """At K = 1 the printed rank is 0, which would make the ridge vanish."""
    assert (theory.rank(5, 10), theory.rank(5, 3), theory.rank(5, 2), theory.rank(5, 1)) == (5, 2, 1, 1)
    assert math.isfinite(theory.radius(dim=5, capacity=1, horizon=10, rho=1e9, fits=1, shift=1.0)(1))


def test_bad_constants_are_refused() -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match="split must be between 0 and 1, got split=1"):
        theory.radius(**SIZE, **BUDGET, shift=1.0, split=1)
    with pytest.raises(ValueError, match="chance must be in"):
        theory.tight_shift(1.0, dim=5, chance=1.0)
    with pytest.raises(ValueError, match="time must be a whole number from 1 on, got time=0"):
        theory.radius(**SIZE, **BUDGET, shift=1.0)(0)
    with pytest.raises(ValueError, match="delta must be in"):
        theory.printed_variance(1.0, 1.5, capacity=10, horizon=100)
