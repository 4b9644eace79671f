"""The release of one batch: the statistic plus noise of the stated scale, at the stated cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietshelf.accounting import Assumption, Ledger
from quietshelf.release.batch_pair import events, release, scales
from quietshelf.release.noise import GRID, DiscreteGaussian, Noiseless, NoiseSource, Simulated
from quietshelf.statistics import Total, from_svec, svec_dim

N = 3_000


@given(st.floats(1e-6, 1e6), st.integers(1, 30), st.floats(0.05, 0.95), st.sampled_from([0.0, GRID, 2.0**-10]))
def test_scales_cost_exactly_rho(rho: float, dim: int, share: float, grid: float) -> None:
    """Score and information together cost rho, never more, whatever the split and the grid."""
    noise = scales(rho=rho, dim=dim, grid=grid, share=share)
    source = DiscreteGaussian(grid) if grid else Simulated(np.random.default_rng(0))
    ledger = Ledger().spend(*events(dim, batch=0, scales=noise, source=source))
    assert ledger.rho <= rho * (1 + 1e-12)
    assert ledger.rho == pytest.approx(rho, rel=1e-9)


def test_scales_are_those_of_the_formula() -> None:
    """sg² = 4/(2·0.8·rho) and sH² = 2/(2·0.2·rho)."""
    noise = scales(rho=0.5, dim=3)
    assert noise.score**2 == pytest.approx(4 / (2 * 0.8 * 0.5))
    assert noise.information**2 == pytest.approx(2 / (2 * 0.2 * 0.5))


def test_noiseless_release_is_the_statistic_and_costs_infinity() -> None:
    """With the injected noiseless source the sums come out as they went in."""
    rng = np.random.default_rng(1)
    total = Total(rng.normal(size=(2, 3)), rng.normal(size=(2, 6)))
    noisy = release(total, scales=scales(rho=1.0, dim=3), source=Noiseless())
    spent = events(3, batch=4, scales=scales(rho=1.0, dim=3), source=Noiseless())
    np.testing.assert_array_equal(noisy.score, total.score)
    np.testing.assert_allclose(noisy.information, from_svec(total.information, 3), atol=1e-15)
    assert [event.rho for event in spent] == [math.inf, math.inf]
    assert [event.batch for event in spent] == [4, 4]


@pytest.mark.parametrize("kind", ["simulated", "discrete"])
def test_released_noise_has_the_stated_scales(kind: str) -> None:
    """Score, diagonal and off-diagonal noise each have their variance; 2/3 and 3/2 of the scale are rejected.

    n = 3,000 releases with d = 2: each variance ratio is within 1 +- 0.14 with probability above 1 - 1e-7 if true.
    """
    source: NoiseSource = DiscreteGaussian() if kind == "discrete" else Simulated(np.random.default_rng(2))
    noise = scales(rho=0.7, dim=2, grid=source.grid)
    noisy = release(Total(np.zeros((N, 2)), np.zeros((N, svec_dim(2)))), scales=noise, source=source)
    parts = {
        "score": (noisy.score[:, 0], noise.score),
        "diagonal": (noisy.information[:, 1, 1], noise.information),
        "off": (noisy.information[:, 0, 1], noise.information / math.sqrt(2)),
    }
    for sample, scale in parts.values():
        ratio = [float((sample**2).mean() / (factor * scale) ** 2) for factor in (1.0, 2 / 3, 3 / 2)]
        assert abs(ratio[0] - 1) < 0.14
        assert abs(ratio[1] - 1) > 0.14
        assert abs(ratio[2] - 1) > 0.14
    np.testing.assert_array_equal(noisy.information[:, 0, 1], noisy.information[:, 1, 0])


def test_discrete_release_stays_on_the_grid() -> None:
    """Sums on the grid plus integer noise are on the grid: nothing of the fraction of a contribution leaves."""
    source = DiscreteGaussian()
    total = Total(np.array([3 * GRID, -GRID]), np.array([GRID, 0.0, 5 * GRID]))
    noise = scales(rho=1.0, dim=2, grid=GRID)
    noisy, spent = release(total, scales=noise, source=source), events(2, batch=0, scales=noise, source=source)
    np.testing.assert_array_equal(noisy.score / GRID, np.rint(noisy.score / GRID))
    assert all(event.assumption is Assumption.EXACT_GRID for event in spent)
    assert spent[1].sensitivity > math.sqrt(2)


def test_rounding_is_charged() -> None:
    """Noise calibrated without the grid costs more than rho once contributions are rounded, and the events say so."""
    careless = events(5, batch=0, scales=scales(rho=1.0, dim=5), source=DiscreteGaussian(2.0**-6))
    assert Ledger().spend(*careless).rho > 1.0
