"""Every noise has the scale asked for; two thirds and three halves of it are told apart.

The test statistic is the sample variance of n = 4,000 draws over the claimed variance, which lies within 1 +- 0.12 with
probability above 1 - 1e-7 if the claim is true (chi-square), and outside if the true scale is 2/3 or 3/2 of the claim.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import kstest, norm
from tests.noiseless import Noiseless

from quietshelf.privacy.accounting import Assumption
from quietshelf.privacy.release.noise import (
    GRID,
    LARGEST_SCALE,
    ContinuousGaussian,
    DiscreteGaussian,
    NoiseSource,
    Simulated,
    entry,
)

N = 4_000
SOURCES: dict[str, Callable[[], NoiseSource]] = {
    "simulated": lambda: Simulated(np.random.default_rng(1)),
    "discrete": DiscreteGaussian,
    "continuous": ContinuousGaussian,
}


def has_scale(sample: np.ndarray, scale: float) -> bool:
    return bool(abs((sample**2).mean() / scale**2 - 1) < 0.12)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("scale", [1.5, 40.0])
def test_noise_has_the_claimed_scale_and_no_other(name: str, scale: float) -> None:
    """The true scale passes, 2/3 and 3/2 of it are rejected; false alarm below 1e-7."""
    sample = SOURCES[name]().draw(scale, (N,))
    assert has_scale(sample, scale)
    assert not has_scale(sample, scale * 2 / 3)
    assert not has_scale(sample, scale * 3 / 2)


@pytest.mark.parametrize("name", SOURCES)
def test_noise_is_gaussian_and_independent_across_coordinates(name: str) -> None:
    """Kolmogorov-Smirnov at level 1e-6, and no correlation beyond five standard errors."""
    sample = SOURCES[name]().draw(1.0, (N, 2))
    assert kstest(sample.ravel(), "norm").pvalue > 1e-6
    assert abs((sample[:, 0] * sample[:, 1]).mean()) < 5 / math.sqrt(N)


def test_operating_system_noise_never_repeats() -> None:
    """Two sources, and two draws of one, differ: there is no seed to share."""
    for make in (DiscreteGaussian, ContinuousGaussian):
        draws = [make().draw(3.0, (4,)).tolist() for _ in range(2)]
        source = make()
        draws += [source.draw(3.0, (4,)).tolist() for _ in range(2)]
        assert len({tuple(draw) for draw in draws}) == 4


def test_discrete_noise_lies_on_its_grid() -> None:
    """Every draw is a whole multiple of the grid, exactly."""
    sample = DiscreteGaussian().draw(2.0, (500,)) / GRID
    np.testing.assert_array_equal(sample, np.rint(sample))
    assert np.unique(np.mod(sample, 2)).size == 2


def test_discrete_noise_on_a_coarse_grid_keeps_its_scale() -> None:
    """At a standard deviation of one grid step the law is far from continuous, and its scale still right."""
    sample = DiscreteGaussian(grid=1.0).draw(1.0, (N,))
    assert has_scale(sample, 1.0)
    assert set(np.unique(sample)) <= set(range(-8, 9))


def test_discrete_noise_is_exact_as_far_as_it_ever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the largest scale, odd numbers of grid steps 40 standard deviations out stay odd; beyond it is refused."""
    monkeypatch.setattr(
        "quietshelf.privacy.release.noise.discrete_gaussian", lambda units, _: np.array([int(40 * units) + 1])
    )
    assert DiscreteGaussian().draw(LARGEST_SCALE * GRID, (1,)) / GRID % 2 == 1
    with pytest.raises(ValueError, match="scale must be at most"):
        DiscreteGaussian().draw(math.nextafter(LARGEST_SCALE, math.inf) * GRID, (1,))


def test_continuous_noise_is_finite_at_the_ends_of_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bits set and no bit set give the largest draws, not infinity."""
    for byte in (b"\x00", b"\xff"):
        with monkeypatch.context() as patch:
            patch.setattr("quietshelf.privacy.release.noise.os.urandom", lambda n, byte=byte: byte * n)
            assert np.isfinite(ContinuousGaussian().draw(1.0, (3,))).all()


def test_grid_must_be_a_power_of_two() -> None:
    """Other grids would not sum exactly in floating point."""
    with pytest.raises(ValueError, match=re.escape("grid must be a power of two")):
        DiscreteGaussian(grid=0.1)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_no_source_draws_at_a_senseless_scale(scale: float) -> None:
    """A scale of zero is never silently no noise."""
    sources: list[NoiseSource] = [*(make() for make in SOURCES.values()), Noiseless()]
    for source in sources:
        with pytest.raises(ValueError, match="scale must be positive and finite"):
            source.draw(scale, (2,))


def test_entries_state_cost_and_assumption() -> None:
    """The event carries sensitivity, noise and rho = s²/(2 sigma²); noiseless is infinite."""
    event = entry(DiscreteGaussian(), "score", sensitivity=2.0, scale=4.0, batch=3)
    assert (event.rho, event.sensitivity, event.noise, event.batch) == (0.125, 2.0, 4.0, 3)
    assert event.assumption is Assumption.EXACT_GRID
    assert entry(ContinuousGaussian(), "x", sensitivity=2.0, scale=4.0, batch=0).assumption is (
        Assumption.REAL_ARITHMETIC
    )
    assert entry(Noiseless(), "score", sensitivity=2.0, scale=4.0, batch=3).rho == math.inf


def test_continuous_noise_is_the_normal_of_the_operating_systems_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 53 bits the last is the sign, the others a uniform number below one half: quartiles and extremes are known."""
    quartile, least = (2**51 << 12), 0
    words = np.array([quartile, quartile + 2**11, least], dtype=np.uint64)
    monkeypatch.setattr("quietshelf.privacy.release.noise.os.urandom", lambda n: words.tobytes()[:n])
    sample = ContinuousGaussian().draw(3.0, (3,))
    np.testing.assert_allclose(sample[:2], [3 * 0.6744897501960817, -3 * 0.6744897501960817], rtol=1e-12)
    assert sample[2] == pytest.approx(-3 * norm.ppf(2.0**-54), rel=1e-12)


def test_sources_scale_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No factor slips in that a sample would not show: simulated normals, and the scale of integers."""
    drawn = Simulated(np.random.default_rng(7)).draw(3.0, (5,))
    np.testing.assert_array_equal(drawn, 3.0 * np.random.default_rng(7).standard_normal(5))
    asked = []

    def integers(units: float, count: int) -> np.ndarray:
        asked.append((units, count))
        return np.ones(count, np.int64)

    monkeypatch.setattr("quietshelf.privacy.release.noise.discrete_gaussian", integers)
    np.testing.assert_array_equal(DiscreteGaussian().draw(3.0, (2, 2)), np.full((2, 2), GRID))
    assert asked == [(3.0 / GRID, 4)]
