"""The release of one batch: the statistic plus noise of the stated scale, at the stated cost."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noiseless import Noiseless

from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import Assumption, BudgetExceeded, Ledger
from quietshelf.privacy.release import arm_sales
from quietshelf.privacy.release.batch_pair import FEWEST_STEPS, Scales, events, grids, release, scales, unit_scale
from quietshelf.privacy.release.noise import GRID, LARGEST_SCALE, DiscreteGaussian, NoiseSource, Simulated
from quietshelf.privacy.statistics import Total, from_upper, nothing, row_grid, svec, svec_dim

N = 3_000
SIZE = 500
"""Visitors of the batch."""


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.sampled_from([0.0, GRID, 2.0**-10]))
def test_scales_cost_exactly_rho(rho: float, bound: float, grid: float) -> None:
    """Score and information together cost rho, never more, whatever the bound and the grid; a budget admits them."""
    noise = scales(rho=rho, bound=bound)
    source = DiscreteGaussian(grid) if grid else Simulated(np.random.default_rng(0))
    ledger = Ledger(budget=rho).spend(*events(batch=0, scales=noise, source=source))
    assert ledger.rho <= rho
    assert ledger.rho == pytest.approx(rho, rel=1e-12)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_what_noise_is_worth_is_never_overstated(score: float, information: float, bound: float) -> None:
    """In exact arithmetic: the stated unit, squared, is at most that of the score and that of the information."""
    unit, least = Fraction(unit_scale(Scales(score, information, bound))), 1 - Fraction(1, 2**48)
    of_score, of_information = Fraction(score) ** 2 / 2, (Fraction(information) / Fraction(bound)) ** 2
    assert min(of_score, of_information) * least <= unit**2 <= min(of_score, of_information)


@pytest.mark.parametrize("grid", [GRID, 2.0**-45])
def test_more_visitors_than_sum_exactly_are_refused(grid: float) -> None:
    """2^53 steps of the grid of scores are all that a sum may have, whichever grid the noise is on."""
    noise, most = scales(rho=1.0, bound=1.0), int(2.0**53 * grid)
    assert grids(noise, most, grid).score == grid
    assert grids(noise, 2**60, 0.0).score == 0.0
    with pytest.raises(ValueError, match=f"visitors must be at most {most:,} to sum exactly"):
        grids(noise, most + 1, grid)


class Steps(DiscreteGaussian):
    """Draws nothing, and keeps the scale of each draw in steps of the grid."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[float] = []

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        self.drawn.append(scale / self.grid)
        return np.zeros(size)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.one_of(st.integers(1, 2**33), st.just(2**33)))
def test_no_scale_has_fewer_steps_than_the_distance_to_a_gaussian_takes_for_granted(
    rho: float, bound: float, size: int
) -> None:
    """Of everything that a release and a comparison draw, in every batch that may be opened; and none has too many."""
    source, noise = Steps(), scales(rho=rho, bound=bound)
    release(Total(np.zeros(3), np.zeros(6)), scales=noise, size=size, source=source)
    arm_sales.release(np.zeros(4), visitors=(1, 1), scale=arm_sales.scale(rho), source=source)
    assert len(source.drawn) == 4
    assert min(source.drawn) * math.sqrt(rho) >= FEWEST_STEPS
    assert max(source.drawn) <= LARGEST_SCALE


def test_scales_are_those_of_the_formula() -> None:
    """sg² = 2 C²/rho and sH² = B²/rho."""
    noise = scales(rho=0.5, bound=0.25)
    assert noise.score**2 == pytest.approx(2 / 0.5)
    assert noise.information**2 == pytest.approx(0.25**2 / 0.5)
    assert noise.bound == 0.25


def test_noise_of_half_the_variance_on_the_score_costs_more_and_the_event_says_so() -> None:
    """A planted fault, C² in place of 2 C²: the ledger with the budget of a release refuses it."""
    noise = scales(rho=1.0, bound=1.0)
    short = noise._replace(score=noise.score / math.sqrt(2))
    spent = events(batch=0, scales=short, source=Simulated(np.random.default_rng(0)))
    assert spent[0].rho == pytest.approx(2.0)
    with pytest.raises(BudgetExceeded):
        Ledger(budget=1.0).spend(*spent)


def test_parallel_worlds_have_noise_for_their_own_bound() -> None:
    """1,000 draws in each of three worlds: variances sH² of each, 2/3 and 3/2 rejected; the score's is the same in all.

    6,000 numbers a world: each ratio is within 1 +- 0.1 with probability above 1 - 1e-7 if true.
    """
    bound = np.array([0.1, 1.0, 10.0])
    noise = scales(rho=0.7, bound=bound)
    source = Simulated(np.random.default_rng(3))
    total = Total(np.zeros((1000, 3, 3)), np.zeros((1000, 3, 6)))
    noisy = release(total, scales=noise, size=SIZE, source=source)
    spread = (svec(noisy.information) ** 2).mean((0, 2))
    for factor, passes in ((1.0, True), (2 / 3, False), (3 / 2, False)):
        wanted = (factor * np.asarray(noise.information)) ** 2
        assert ((np.abs(spread / wanted - 1) < 0.1) == passes).all()
    np.testing.assert_allclose((noisy.score**2).mean((0, 2)), noise.score**2, rtol=0.15)
    (event,) = events(batch=0, scales=noise, source=source)
    assert event.rho == pytest.approx(0.7)
    assert event.rho <= 0.7


def test_one_world_may_have_an_axis_on_a_grid() -> None:
    """It has one bound all the same, and the noise that it has without."""
    total, alone = nothing((1,), 2), nothing((), 2)
    for bound, sums in ((np.array([0.5]), total), (0.5, alone)):
        noise = scales(rho=1.0, bound=bound)
        found = release(sums, scales=noise, size=SIZE, source=DiscreteGaussian())
        assert found.information.shape == (*sums.score.shape, 2)
        steps = found.information / float(row_grid(0.5, noise.information, SIZE).item()) ** 2
        np.testing.assert_array_equal(steps, np.rint(steps))
        (event,) = events(batch=0, scales=noise, source=DiscreteGaussian())
        assert event.rho == pytest.approx(1.0)


def test_a_grid_has_one_bound() -> None:
    """Integers that were stretched by another scale would show which multiple they are."""
    noise = scales(rho=1.0, bound=np.array([0.5, 1.0]))
    with pytest.raises(ValueError, match="noise on a grid must have one scale"):
        release(Total(np.zeros((2, 2)), np.zeros((2, 3))), scales=noise, size=SIZE, source=DiscreteGaussian())


def test_noiseless_release_is_the_statistic_and_costs_infinity() -> None:
    """With the injected noiseless source the sums come out as they went in."""
    rng = np.random.default_rng(1)
    total = Total(rng.normal(size=(2, 3)), rng.normal(size=(2, 6)))
    noisy = release(total, scales=scales(rho=1.0, bound=1.0), size=SIZE, source=Noiseless())
    spent = events(batch=4, scales=scales(rho=1.0, bound=1.0), source=Noiseless())
    np.testing.assert_array_equal(noisy.score, total.score)
    np.testing.assert_array_equal(noisy.information, from_upper(total.information, 3))
    assert [(event.name, event.rho, event.batch) for event in spent] == [("pair", math.inf, 4)]


@pytest.mark.parametrize("kind", ["simulated", "discrete"])
def test_released_noise_has_the_stated_scales(kind: str) -> None:
    """Score, diagonal and off-diagonal noise each have their variance; 2/3 and 3/2 of the scale are rejected.

    n = 3,000 releases with d = 2: each variance ratio is within 1 +- 0.14 with probability above 1 - 1e-7 if true.
    """
    source: NoiseSource = DiscreteGaussian() if kind == "discrete" else Simulated(np.random.default_rng(2))
    noise = scales(rho=0.7, bound=0.4)
    noisy = release(Total(np.zeros((N, 2)), np.zeros((N, svec_dim(2)))), scales=noise, size=SIZE, source=source)
    parts = {
        "score": (noisy.score[:, 0], noise.score),
        "diagonal": (noisy.information[:, 1, 1], float(noise.information)),
        "off": (noisy.information[:, 0, 1], float(noise.information) / math.sqrt(2)),
    }
    for sample, scale in parts.values():
        ratio = [float((sample**2).mean() / (factor * scale) ** 2) for factor in (1.0, 2 / 3, 3 / 2)]
        assert abs(ratio[0] - 1) < 0.14
        assert abs(ratio[1] - 1) > 0.14
        assert abs(ratio[2] - 1) > 0.14
    np.testing.assert_array_equal(noisy.information[:, 0, 1], noisy.information[:, 1, 0])


def test_discrete_release_stays_on_the_grid() -> None:
    """Sums on the grid plus integer noise are on the grid: nothing of the fraction of a contribution leaves."""
    source, noise = DiscreteGaussian(), scales(rho=1.0, bound=1.0)
    fine = float(grids(noise, SIZE, GRID).rows) ** 2
    total = Total(np.array([3 * GRID, -GRID]), np.array([fine, 0.0, 5 * fine]))
    noisy, spent = release(total, scales=noise, size=SIZE, source=source), events(batch=0, scales=noise, source=source)
    for part, step in ((noisy.score, GRID), (noisy.information, fine)):
        np.testing.assert_array_equal(part / step, np.rint(part / step))
    assert all(event.assumption is Assumption.EXACT_GRID for event in spent)
    assert spent[0].sensitivity == math.sqrt(2)


@pytest.mark.parametrize("seed", range(3))
def test_noise_off_the_diagonal_is_never_short(seed: int) -> None:
    """In exact arithmetic the scale that is asked for, squared, is at least half of that on the diagonal."""
    asked: list[float] = []

    class Noted(DiscreteGaussian):
        def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
            asked.append(scale)
            return np.zeros(size)

    rng = np.random.default_rng(seed)
    for _ in range(200):
        asked.clear()
        noise = scales(rho=10 ** rng.uniform(-6, 6), bound=10 ** rng.uniform(-6, 6))
        release(nothing((), 2), scales=noise, size=int(10 ** rng.uniform(0, 9)), source=Noted())
        _, on, off = map(Fraction, asked)
        assert on**2 / 2 <= off**2 <= on**2 / 2 * (1 + Fraction(1, 2**40))


def test_any_budget_and_batch_can_be_drawn() -> None:
    """However small rho or large the batch is, noise is within what the exact sampler takes."""
    for rho in (1e-14, 1e-6, 1.0, 1e6):
        for size in (1, 10**5, 2**33):
            noise = scales(rho=rho, bound=0.5)
            found = release(nothing((), 2), scales=noise, size=size, source=DiscreteGaussian())
            assert np.isfinite(found.information).all()
