"""Rho to (epsilon, delta) and back, against an independent accountant and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, gaussian_mechanism, rdp
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.privacy.accounting import (
    conversions,
    epsilon_classic,
    epsilon_of,
    epsilon_of_gaussian,
    epsilon_of_renyi,
    epsilon_text,
    rho_of,
)

RHOS = [1e-6, 1e-3, 0.1, 0.5, 1.0, 5.0, 100.0]
DELTAS = [1e-30, 1e-8, 1e-6, 1e-3]
rhos = st.floats(-12, 8).map(lambda exponent: 10.0**exponent)
deltas = st.floats(-300, math.log10(0.5)).map(lambda exponent: 10.0**exponent)
epsilons = st.floats(-6, 8).map(lambda exponent: 10.0**exponent)


def curve_epsilon(rho: float, delta: float, r: float) -> float:
    """The conversion at order 1 + r, as printed."""
    return rho * (1 + r) + math.log(r / (1 + r)) - (math.log(delta) + math.log1p(r)) / r


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_of_matches_an_independent_renyi_accountant(rho: float, delta: float) -> None:
    """On a dense grid of orders dp_accounting finds the same minimum, and never a smaller one."""
    orders = 1 + np.geomspace(0.011, 1e7, 40_001)
    theirs, _ = rdp.compute_epsilon(orders, rho * orders, delta)
    ours = epsilon_of(rho, delta)
    assert ours <= theirs * (1 + 1e-14)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-15)


def test_epsilon_of_matches_the_accountant_of_composed_gaussian_releases() -> None:
    """Ten Gaussian releases of rho 0.05 are one of rho 0.5; the accountant's default orders are coarser than ours."""
    accountant = rdp.RdpAccountant()
    accountant.compose(GaussianDpEvent(1 / math.sqrt(2 * 0.05)), 10)
    theirs = accountant.get_epsilon(1e-8)
    assert theirs * 0.99 <= epsilon_of(0.5, 1e-8) <= theirs


@pytest.mark.parametrize(
    ("rho", "text", "classic", "tight", "gaussian"),
    [(1.0, 37.84, 9.58, 8.98, 8.53), (0.5, 18.92, 6.57, 6.09, 5.78), (0.1, 3.78, 2.81, 2.54, 2.40)],
)
def test_conversions_give_the_published_figures(
    rho: float, text: float, classic: float, tight: float, gaussian: float
) -> None:
    """The four readings of the same rho at T = 10^4 and delta = T^-2, to two decimals."""
    delta = 1e-8
    assert round(epsilon_text(rho, 1e4), 2) == text
    assert round(epsilon_classic(rho, delta), 2) == classic
    assert round(epsilon_of(rho, delta), 2) == tight
    assert round(epsilon_of_gaussian(math.sqrt(2 * rho), delta), 2) == gaussian


@given(rho=rhos, delta=deltas, stretch=st.floats(-3, 3))
@settings(deadline=None, max_examples=300)
def test_epsilon_of_is_a_minimum_over_orders(rho: float, delta: float, stretch: float) -> None:
    """No other order, near or far, gives less (beyond its own rounding error)."""
    log_inverse = -math.log(delta)
    r = min(math.sqrt(log_inverse / rho), math.expm1(log_inverse)) * 10.0**stretch
    other = curve_epsilon(rho, delta, r)
    rounding = 1e-14 * (rho * (1 + r) + abs(math.log(r / (1 + r))) + (log_inverse + math.log1p(r)) / r)
    assert epsilon_of(rho, delta) <= max(0.0, other) + 2 * rounding


@given(rho=rhos, delta=deltas)
@settings(deadline=None, max_examples=200)
def test_rho_of_inverts_epsilon_of(rho: float, delta: float) -> None:
    """What comes back is the rho that went in, unless a larger one also has epsilon zero."""
    epsilon = epsilon_of(rho, delta)
    back = rho_of(epsilon, delta)
    assert back >= rho * (1 - 1e-9)
    assert epsilon == 0 or back <= rho * (1 + 1e-9)


@given(epsilon=st.one_of(st.just(0.0), epsilons), delta=deltas)
@settings(deadline=None, max_examples=200)
def test_rho_of_is_the_largest_that_may_be_spent(epsilon: float, delta: float) -> None:
    """Its epsilon never exceeds the one asked for, and a little more rho does."""
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    if epsilon > 0:
        assert epsilon_of(rho * (1 + 1e-9), delta) > epsilon


@given(rho=rhos, delta=deltas)
@settings(deadline=None, max_examples=100)
def test_the_classic_conversion_never_promises_more_than_the_tight_one(rho: float, delta: float) -> None:
    """The paper's lemma is valid: what it says is never below what is proven tight."""
    assert epsilon_of(rho, delta) <= epsilon_classic(rho, delta)


@given(rho=rhos, delta=deltas, factor=st.floats(1 + 1e-6, 1e3))
@settings(deadline=None, max_examples=100)
def test_epsilon_of_grows_with_rho_and_falls_with_delta(rho: float, delta: float, factor: float) -> None:
    """More budget is less privacy; a larger delta asks for less."""
    assert epsilon_of(rho, delta) <= epsilon_of(rho * factor, delta)
    assert epsilon_of(rho, delta / factor) >= epsilon_of(rho, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_of_gaussian_matches_an_independent_formula(rho: float, delta: float) -> None:
    """The analytic Gaussian mechanism of dp_accounting agrees, and the zCDP conversion lies above it."""
    ours = epsilon_of_gaussian(math.sqrt(2 * rho), delta)
    theirs = gaussian_mechanism.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert ours <= epsilon_of(rho, delta)


@pytest.mark.parametrize("rho", [0.1, 1.0])
def test_epsilon_of_gaussian_matches_a_privacy_loss_distribution(rho: float) -> None:
    """A discretised privacy loss distribution, which rounds losses upwards, is above by its grid at most."""
    pld = privacy_loss_distribution.from_gaussian_mechanism(1 / math.sqrt(2 * rho), value_discretization_interval=1e-3)
    theirs = pld.get_epsilon_for_delta(1e-6)
    assert theirs - 2e-3 <= epsilon_of_gaussian(math.sqrt(2 * rho), 1e-6) <= theirs + 1e-9


@given(mu=st.floats(-6, 4).map(lambda exponent: 10.0**exponent), delta=deltas)
@settings(deadline=None, max_examples=100)
def test_epsilon_of_gaussian_is_between_zero_and_the_zcdp_bound(mu: float, delta: float) -> None:
    """The exact figure never exceeds the bound that holds for every mechanism of the same rho."""
    assert 0 <= epsilon_of_gaussian(mu, delta) <= epsilon_of(mu * mu / 2, delta) * (1 + 1e-14)


def test_epsilon_of_renyi_agrees_with_the_linear_curve() -> None:
    """On the curve rho alpha it is the tight conversion, up to its grid of orders; unknown orders are left out."""
    orders = 1 + np.geomspace(1e-2, 1e3, 2001)
    divergences = 0.5 * orders
    assert epsilon_of_renyi(orders, divergences, 1e-6) == pytest.approx(epsilon_of(0.5, 1e-6), rel=1e-4)
    assert epsilon_of_renyi(orders, divergences, 1e-6) >= epsilon_of(0.5, 1e-6) * (1 - 1e-14)
    divergences[:1000] = np.nan
    worse = epsilon_of_renyi(orders, divergences, 1e-6)
    assert worse == pytest.approx(epsilon_of_renyi(orders[1000:], divergences[1000:], 1e-6))
    assert epsilon_of_renyi([2.0], [math.nan], 1e-6) == math.inf


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5])
def test_conversions_keep_zero_and_infinity(delta: float) -> None:
    """No budget is no loss; an infinite one is no promise."""
    for convert in (epsilon_of, epsilon_classic, epsilon_of_gaussian):
        assert convert(0.0, delta) == 0.0
        assert convert(math.inf, delta) == math.inf
    assert rho_of(math.inf, delta) == math.inf
    assert epsilon_text(math.inf, 100) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5, -1e-6, math.nan, "small"])
def test_conversions_refuse_a_delta_outside_the_unit_interval(delta: float) -> None:
    """The message names the rule and the value, whatever the other argument is."""
    for convert in (epsilon_of, rho_of, epsilon_classic, epsilon_of_gaussian):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got delta="):
            convert(0.0, delta)


@pytest.mark.parametrize("value", [-1.0, math.nan, "one", True])
def test_conversions_refuse_what_is_not_a_budget(value: float) -> None:
    """Negative, unknown and non-numeric budgets are misuse."""
    for convert in (epsilon_of, rho_of, epsilon_classic, epsilon_of_gaussian):
        with pytest.raises(ValueError, match="must be at least zero, got"):
            convert(value, 1e-6)
    with pytest.raises(ValueError, match="rho must be at least zero"):
        epsilon_text(value, 100)


def test_epsilon_text_refuses_an_empty_horizon() -> None:
    """The logarithm of a horizon below one would lower the figure."""
    with pytest.raises(ValueError, match=r"horizon must be at least 1, got horizon=0\.5"):
        epsilon_text(1.0, 0.5)


@pytest.mark.parametrize(
    ("orders", "divergences", "rule"),
    [
        ([1.0, 2.0], [1.0, 1.0], "orders must be finite and above 1"),
        ([2.0, math.inf], [1.0, 1.0], "orders must be finite and above 1"),
        ([], [], "orders must be a list of one or more"),
        ([2.0, 3.0], [1.0], "divergences must have shape"),
        ([2.0], [-1.0], "divergences must be at least zero"),
        ([2.0], [[1.0], [1.0]], "divergences must be one for each order"),
    ],
)
def test_epsilon_of_renyi_refuses_a_malformed_curve(orders: list[float], divergences: list[float], rule: str) -> None:
    """Orders and divergences must be paired, and in range."""
    with pytest.raises(ValueError, match=rule):
        epsilon_of_renyi(orders, divergences, 1e-6)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0, 20.0])
def test_epsilon_of_gaussian_is_the_side_that_keeps_its_delta(mu: float, delta: float) -> None:
    """Of the two ends of the last interval the one returned satisfies the bound, to the last bit."""
    epsilon = epsilon_of_gaussian(mu, delta)
    assert epsilon == 0 or conversions._log_gaussian_delta(mu, epsilon) <= math.log(delta)


def test_errors_of_special_functions_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delta that is computed is never below what exact functions would give."""
    cases = [(mu, epsilon) for mu in (0.1, 1.0, 5.0) for epsilon in (0.0, 1.0, 20.0)]
    above = [conversions._log_gaussian_delta(*case) for case in cases]
    monkeypatch.setattr(conversions, "_SPECIAL", 0.0)
    bare = [conversions._log_gaussian_delta(*case) for case in cases]
    assert all(a > b for a, b in zip(above, bare, strict=True))
