"""Lower bounds on a loss: right where the truth is known, and never above it more often than stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from quietshelf.privacy.accounting.attackers import power_under_gaussian, power_under_zcdp, rho_of_rates
from quietshelf.research.auditing.bounds import at_least, at_most, divergence_at_least, epsilon_of_rates, mu_of_rates

rates = st.floats(0.001, 0.999)


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (1, 50), (17, 50), (50, 50), (999, 1000)])
def test_clopper_pearson_agrees_with_scipy(hits: int, runs: int) -> None:
    """Two one-sided bounds at 2.5 % each are the two-sided 95 % interval."""
    known = binomtest(hits, runs).proportion_ci(0.95, method="exact")
    assert float(at_least(hits, runs, 0.025)) == pytest.approx(known.low, abs=1e-12)
    assert float(at_most(hits, runs, 0.025)) == pytest.approx(known.high, abs=1e-12)


@pytest.mark.parametrize(
    ("rho", "zcdp", "gaussian"),
    [(0.1, 3.6, 3.1), (0.5, 12.5, 9.3), (1.0, 26.2, 18.1), (2.0, 54.9, 37.3), (5.0, 99.4, 79.9)],
)
def test_curves_agree_with_the_table_of_the_guarantee(rho: float, zcdp: float, gaussian: float) -> None:
    """Percent found at 1 % false alarms, rounded upwards as docs/guarantee.md prints them."""
    level = np.array(0.01)
    assert math.ceil(1000 * float(power_under_zcdp(level, rho))) / 10 == zcdp
    assert math.ceil(1000 * float(power_under_gaussian(level, rho))) / 10 == gaussian


@settings(max_examples=60)
@given(rates, rates, st.floats(0.0, 0.05))
def test_rho_of_rates_grows_with_power_and_falls_with_level(level: float, power: float, step: float) -> None:
    """So bounds on the rates may stand for the rates; a test no better than guessing proves nothing."""
    here = float(rho_of_rates(np.array(level), np.array(power)))
    assert here <= float(rho_of_rates(np.array(level), np.array(min(power + step, 0.9999)))) + 1e-12
    assert here <= float(rho_of_rates(np.array(max(level - step, 1e-4)), np.array(power))) + 1e-12
    assert (here == 0) == (power <= level) or abs(power - level) < 1e-6


@settings(max_examples=60)
@given(st.floats(0.01, 8.0), st.floats(-2.0, 6.0))
def test_no_threshold_test_of_a_gaussian_proves_more_than_its_rho(rho: float, threshold: float) -> None:
    """Every threshold stays below mu²/2, and mu is recovered, for rates that a billion runs could still tell from 1."""
    mu = math.sqrt(2 * rho)
    level, power = np.array(norm.sf(threshold)), np.array(norm.sf(threshold - mu))
    assert float(rho_of_rates(level, power)) <= rho * (1 + 1e-9)
    assert float(mu_of_rates(level, power)) == pytest.approx(mu, rel=1e-6)


def test_inversion_of_rates_is_that_of_the_curve() -> None:
    """A test on the boundary of what rho allows proves exactly rho."""
    for rho in (0.05, 1.0, 4.0):
        power = power_under_zcdp(np.array([0.01, 0.2]), rho)
        np.testing.assert_allclose(rho_of_rates(np.array([0.01, 0.2]), power), rho, rtol=1e-6)


def test_epsilon_of_rates_is_randomised_response() -> None:
    """Telling the truth with probability e^eps/(1 + e^eps) loses exactly eps, and less once delta is allowed."""
    level, power = np.array(1 / (1 + math.e)), np.array(math.e / (1 + math.e))
    assert float(epsilon_of_rates(level, power, 1e-12)) == pytest.approx(1.0)
    assert float(epsilon_of_rates(level, power, 0.1)) < 1.0
    assert float(epsilon_of_rates(power, level, 1e-12)) == 0.0


def test_divergence_bound_is_honest_and_sharp() -> None:
    """2000 times 500 draws from Gaussians with D = 1/2: too large in at most 5 % + 4 s.e.; 10^5 draws give over 0.4."""
    rng, shift = np.random.default_rng(0), np.array([[0.5], [-0.5]])
    over = 0
    for _ in range(2000):
        x, y = np.clip(rng.standard_normal((2, 500)) + shift, -4, 2)
        over += divergence_at_least(x, y, 0.05, low=-4, high=2) > 0.5
    assert over / 2000 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 2000)
    x, y = np.clip(rng.standard_normal((2, 100_000)) + shift, -4, 2)
    assert 0.4 < divergence_at_least(x, y, 0.001, low=-4, high=2) < 0.5
