"""Toeplitz noise: the root of the summing matrix, in buffers, at the cost the ledger states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz as matrix_of
from tests.privacy.release.continual import check_scale

from quietshelf.model.types import FloatArray, IntArray
from quietshelf.privacy.accounting import Assumption
from quietshelf.privacy.release import toeplitz, tree
from quietshelf.privacy.release.noise import ContinuousGaussian, DiscreteGaussian, NoiseSource, Simulated
from quietshelf.privacy.release.toeplitz import Toeplitz, noise_units
from quietshelf.privacy.release.tree import sound


class Impulses:
    """A source that draws one unit of noise in world i at round i, so that the mechanism shows its noise matrix."""

    grid = 0.0
    assumption = Assumption.REAL_ARITHMETIC
    noiseless = False

    def __init__(self) -> None:
        self.round = 0

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """The scale in the world of this round, zero in the others."""
        assert scale > 0
        noise = np.zeros(size)
        noise[self.round] = scale
        self.round += 1
        return noise

    def only(self, worlds: IntArray) -> Impulses:
        """Every world draws in every round here."""
        raise AssertionError(worlds)


def noise_matrix(horizon: int) -> tuple[Toeplitz, FloatArray]:
    """A mechanism, and its noise as it comes out: releases (T) by independent draws (T), standard deviations."""
    mechanism = Toeplitz(rho=0.5, horizon=horizon, dim=2, capacity=3, source=Impulses())
    state, rows = mechanism.start((horizon,)), []
    for _ in range(horizon):
        state, noisy = mechanism.add(state, np.zeros((horizon, 2, 2)))
        rows.append(noisy[:, 0, 0])
    return mechanism, np.stack(rows)


def test_root_squared_is_the_summing_matrix() -> None:
    """The series of (1 - x)^(-1/2), multiplied by itself, is all ones."""
    b = toeplitz.root(300)
    np.testing.assert_allclose(np.convolve(b, b)[:300], 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("horizon", "method", "largest", "rms"),
    [
        (10_000, "tree", 13.49, 9.51),
        (10_000, "toeplitz", 3.998, 3.836),
        (1_000_000, "tree", 19.49, 14.06),
        (1_000_000, "toeplitz", 5.464, 5.302),
    ],
)
def test_noise_units_are_the_published_ones(horizon: int, method: str, largest: float, rms: float) -> None:
    """The table of docs/proofs.md, section 13, to its last digit."""
    units = noise_units(horizon, method)  # type: ignore[arg-type]
    digits = 3 if method == "toeplitz" else 2
    assert (round(units.largest, digits), round(units.rms, digits)) == (largest, rms)


@pytest.mark.parametrize("horizon", [1, 2, 10, 1000, 100_000])
def test_buffers_come_close_to_the_root_and_their_norm_is_exact(horizon: int) -> None:
    """Coefficients within 0.7 %; |c|² by geometric series is the sum of their squares."""
    rates, weights = toeplitz.buffers(horizon)
    powers = np.exp(np.arange(horizon - 1)[:, None] * np.log(rates))
    c = np.concatenate([[1.0], powers @ weights])
    np.testing.assert_allclose(c, toeplitz.root(horizon), rtol=7e-3)
    assert toeplitz.squared_norm(toeplitz.Buffers(rates, weights), horizon) == pytest.approx(float(c @ c), rel=1e-12)
    assert rates.size < 15 + math.log(horizon)


@pytest.mark.parametrize("horizon", [1, 2, 7, 64, 400])
def test_the_noise_that_comes_out_is_that_of_the_formula(horizon: int) -> None:
    """Impulses give A C^-1, and the units of the exact root: the largest within 0.01 %, the rms within 0.1 %."""
    mechanism, noise = noise_matrix(horizon)
    rates, weights = mechanism.buffers
    c = np.concatenate([[1.0], [float(weights @ rates**k) for k in range(horizon - 1)]])
    lower = np.tril(matrix_of(c))
    expected = np.tril(np.ones((horizon, horizon))) @ np.linalg.inv(lower)
    np.testing.assert_allclose(noise, mechanism.scale * expected, rtol=1e-9, atol=1e-9)
    rows = np.linalg.norm(noise, axis=1)
    assert rows.max() == rows[-1]
    assert mechanism.diagonal == mechanism.widest == pytest.approx(rows[-1], rel=1e-4)
    single = math.sqrt(2) * 3 / math.sqrt(2 * 0.5)
    units = noise_units(horizon, "toeplitz")
    assert rows.max() / single == pytest.approx(units.largest, rel=1e-4)
    assert math.sqrt((rows**2).mean()) / single == pytest.approx(units.rms, rel=1e-3)


@pytest.mark.parametrize("horizon", [1, 2, 7, 64])
def test_the_releases_cost_rho_for_the_first_visitor_and_less_for_others(horizon: int) -> None:
    """The exact cost of all T releases as one Gaussian vector, from the noise that comes out of the mechanism."""
    mechanism, noise = noise_matrix(horizon)
    shifts = np.tril(np.ones((horizon, horizon))) * math.sqrt(2) * 3  # column n: visitor n moves all sums from n on
    by_slot = (np.linalg.solve(noise, shifts) ** 2).sum(0) / 2
    assert by_slot[0] == pytest.approx(0.5, rel=1e-9)
    assert by_slot.max() <= 0.5 * (1 + 1e-9)
    assert mechanism.event.rho == pytest.approx(0.5, rel=1e-12)
    assert mechanism.event.rho <= 0.5


@pytest.mark.parametrize("source", [Simulated(np.random.default_rng(20)), ContinuousGaussian()])
def test_noise_has_the_stated_scale_on_and_off_the_diagonal(source: NoiseSource) -> None:
    """Rounds 1, 2, 9 and 30 of 3000 worlds: the true scale is accepted, 2/3 and 3/2 of it are rejected."""
    worlds, horizon = 3000, 30
    mechanism = Toeplitz(rho=0.5, horizon=horizon, dim=2, capacity=3, source=source)
    deviations = np.linalg.norm(noise_matrix(horizon)[1], axis=1)
    state = mechanism.start((worlds,))
    for time in range(1, horizon + 1):
        state, noisy = mechanism.add(state, np.zeros((worlds, 2, 2)))
        if time in (1, 2, 9, 30):
            for sample, scale in ((noisy[:, [0, 1], [0, 1]], 1.0), (noisy[:, 0, 1], math.sqrt(0.5))):
                check_scale(sample, scale * deviations[time - 1])


def test_at_ten_thousand_rounds_the_noise_is_a_third_of_the_trees() -> None:
    """Same rho, same visitors: 4.0 against 13.5 units, so 3.3 times less at least, and 21 arrays of state."""
    rounds = Toeplitz(rho=0.1, horizon=10_000, dim=5, capacity=10, source=ContinuousGaussian())
    tree = sound(0.1, horizon=10_000, dim=5, capacity=10, source=ContinuousGaussian())
    assert tree.diagonal / rounds.diagonal > 3.3
    assert rounds.start((30,)).noise.shape == (21, 30, 15)


def test_one_dimension_needs_less() -> None:
    """Between 0 and K: sensitivity K instead of sqrt(2) K, and still exactly rho."""
    one = Toeplitz(rho=0.5, horizon=50, dim=1, capacity=3, source=ContinuousGaussian())
    two = Toeplitz(rho=0.5, horizon=50, dim=2, capacity=3, source=ContinuousGaussian())
    assert two.scale / one.scale == pytest.approx(math.sqrt(2))
    assert one.event.rho == pytest.approx(0.5)


def test_discrete_noise_and_bad_settings_are_refused() -> None:
    """C X is on no grid, so integer noise would show its fractions."""
    with pytest.raises(ValueError, match="Toeplitz noise must be continuous: C X is on no grid, got grid="):
        Toeplitz(rho=0.5, horizon=50, dim=2, capacity=3, source=DiscreteGaussian())
    with pytest.raises(ValueError, match="rho must be positive and finite, got rho=-1"):
        Toeplitz(rho=-1, horizon=50, dim=2, capacity=3, source=ContinuousGaussian())
    with pytest.raises(ValueError, match="method must be tree or toeplitz, got method='honaker'"):
        noise_units(10, "honaker")  # type: ignore[arg-type]


@pytest.mark.parametrize("horizon", [2, 50, 1000])
def test_the_norm_of_the_coefficients_is_not_understated_by_rounding(horizon: int) -> None:
    """The sensitivity is at least s |c|, each c_k and the sum of their squares taken with exact sums."""
    rates, weights = toeplitz.buffers(horizon)
    c = [1.0] + [math.fsum(weights * rates ** (k - 1)) for k in range(1, horizon)]
    mechanism = Toeplitz(rho=0.5, horizon=horizon, dim=2, capacity=3, source=Simulated(np.random.default_rng(0)))
    exact = tree.sensitivity(3, 2) * math.sqrt(math.fsum(each * each for each in c))
    assert exact * (1 + 5e-13) < mechanism.sensitivity < exact * (1 + 2e-12)
