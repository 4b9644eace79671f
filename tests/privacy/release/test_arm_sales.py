"""The release of a comparison: noise of the stated scale, at the stated cost, within one budget with the pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noiseless import Noiseless

from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release import arm_sales, batch_pair
from quietshelf.privacy.release.noise import GRID, DiscreteGaussian, NoiseSource, Simulated
from quietshelf.privacy.release.quiet_settings import MOST_COMPARISON, Quiet

N = 3_000


@given(st.floats(1e-6, 1e6), st.floats(1e-3, MOST_COMPARISON), st.integers(1, 5))
def test_pair_and_comparison_cost_what_a_batch_may(rho: float, share: float, visits: int) -> None:
    """Never more than rho over as many batches as a person counts in, and no less but for rounding."""
    config = Quiet(rho=rho, visits=visits, unit="person", comparison=share)
    source, ledger = DiscreteGaussian(), config.ledger(DiscreteGaussian())
    for batch in range(visits):
        scales = batch_pair.scales(rho=config.rho_to_learn, bound=1.0)
        scale = arm_sales.scale(config.rho_to_compare)
        pair = batch_pair.events(batch=batch, scales=scales, source=source)
        ledger = ledger.spend(*pair, *arm_sales.events(batch=batch, scale=scale, source=source))
    assert ledger.rho <= rho
    assert ledger.rho == pytest.approx(rho, rel=1e-12)


@pytest.mark.parametrize("kind", ["simulated", "discrete"])
def test_released_noise_has_the_stated_scale(kind: str) -> None:
    """Each of the four sums has variance s²; 2/3 and 3/2 of the scale are rejected.

    3,000 releases: each variance ratio is within 1 +- 0.14 with probability above 1 - 1e-7 if true.
    """
    source: NoiseSource = DiscreteGaussian() if kind == "discrete" else Simulated(np.random.default_rng(2))
    scale = arm_sales.scale(0.7)
    found = arm_sales.release(np.zeros((N, 4)), visitors=(3, 4), scale=scale, source=source)
    for sample in found.sums.reshape(N, 4).T:
        ratio = [float((sample**2).mean() / (factor * scale) ** 2) for factor in (1.0, 2 / 3, 3 / 2)]
        assert abs(ratio[0] - 1) < 0.14
        assert abs(ratio[1] - 1) > 0.14
        assert abs(ratio[2] - 1) > 0.14
    if kind == "discrete":
        np.testing.assert_array_equal(found.sums / GRID, np.rint(found.sums / GRID))


def test_without_noise_the_ledger_reads_infinite() -> None:
    """The sums come out as they went in, and that costs everything."""
    found = arm_sales.release(np.arange(4.0), visitors=(1, 2), scale=1.0, source=Noiseless())
    assert found.sums.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert np.isinf(Ledger().spend(*arm_sales.events(batch=0, scale=1.0, source=Noiseless())).rho)


@pytest.mark.parametrize("share", [-0.1, 0.91, float("nan"), "half"])
def test_a_comparison_takes_a_share_of_the_budget(share: float) -> None:
    """Some of it, and never nearly all."""
    with pytest.raises(ValueError, match="comparison must be a share of the budget, from 0 to 0"):
        Quiet(rho=1.0, comparison=share)
