"""The private fit: the right noise, the right minimiser, an honest certificate, and a price that hides nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import chi2
from tests.noiseless import Noiseless

from quietshelf.model.choice import fit, fitting, log_likelihood, utilities
from quietshelf.privacy.accounting import HISTORY, Assumption, Ledger
from quietshelf.privacy.release.certificate import Certificate, DenseVisits
from quietshelf.privacy.release.noise import ContinuousGaussian, DiscreteGaussian, Simulated
from quietshelf.privacy.release.objective_perturbation import (
    NotCertified,
    PrivateFit,
    event,
    private_fit,
    solver_cost,
    within,
)
from quietshelf.privacy.release.perturbation_cost import Calibration, calibrate, cost
from quietshelf.privacy.release.perturbation_curves import Perturbation
from quietshelf.privacy.statistics import clip

SOUND = calibrate(1.0, 3, 4)


def rounds(
    lead: tuple[int, ...], n: int, seed: int, *, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clipped features of up to four items, one in five places empty, and choices among the others."""
    rng = np.random.default_rng(seed)
    rows = clip(rng.normal(size=(*lead, n, 4, 3))) * scale
    offered = rng.random((*lead, n, 4)) < 0.8
    position = rng.integers(-1, 4, (*lead, n))
    chosen = np.take_along_axis(offered, np.maximum(position, 0)[..., None], axis=-1)[..., 0]
    return rows, np.where(chosen, position, -1), offered


def fitted(*data: np.ndarray, **options: Any) -> PrivateFit:
    usual: dict[str, Any] = {"perturbation": SOUND, "source": Simulated(np.random.default_rng(0)), "batch": 0}
    rows, position, *offered = data
    visits = DenseVisits(rows, position, offered[0] if offered else None)
    return private_fit(visits, **{**usual, **options})


def plausible(sample: np.ndarray, scale: float) -> bool:
    """Whether normals of this scale have such a sum of squares, at a false-alarm rate of 1e-6."""
    low, high = (float(chi2.ppf(level, sample.size)) for level in (5e-7, 1 - 5e-7))
    return low < float((sample**2).sum()) / scale**2 < high


class Recorded:
    """A source that remembers what it drew."""

    grid, assumption, noiseless = 0.0, Assumption.REAL_ARITHMETIC, False

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)
        self.drawn: list[tuple[float, np.ndarray]] = []

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        """Normals, kept."""
        self.drawn.append((scale, scale * self._rng.standard_normal(size)))
        return self.drawn[-1][1]


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_noise_has_the_scale_that_was_paid_for(factor: float, accepted: bool) -> None:
    """Without data theta - c = -b/ridge + output noise: 4000 worlds of 3 features, chi-square, false alarm 1e-6."""
    empty = np.zeros((4000, 0, 4, 3)), np.zeros((4000, 0), dtype=np.int64)
    centre = np.array([1.0, -2.0, 0.5])
    scales = Perturbation(SOUND.sigma * factor, SOUND.ridge)
    away = fitted(*empty, perturbation=scales, centre=centre).theta - centre
    variance = (SOUND.sigma / SOUND.ridge) ** 2 + 1e-8
    assert plausible(away, math.sqrt(variance)) == accepted


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_output_noise_has_the_scale_that_was_paid_for(factor: float, accepted: bool) -> None:
    """With b taken out again what is left is N(0, output_noise²): 4000 worlds, chi-square, false alarm 1e-6."""
    source = Recorded()
    empty = np.zeros((4000, 0, 4, 3)), np.zeros((4000, 0), dtype=np.int64)
    theta = fitted(*empty, source=source, output_noise=0.02 * factor).theta
    (_, b), _ = source.drawn
    left = theta + b / SOUND.ridge
    assert plausible(left, 0.02) == accepted


def test_noise_is_drawn_once_and_enters_the_objective() -> None:
    """One b of scale sigma and one output noise; theta is the fit with b as its linear term, plus the output noise."""
    data, source = rounds((3,), 200, seed=2), Recorded()
    centre = np.array([0.2, 0.0, -0.1])
    theta = fitted(*data, source=source, centre=centre).theta
    assert [scale for scale, _ in source.drawn] == [SOUND.sigma, 1e-4]
    plain = fit(*data, ridge=SOUND.ridge, centre=centre, linear=source.drawn[0][1])
    np.testing.assert_allclose(theta, plain.theta + source.drawn[1][1], atol=1e-10)


def test_noiseless_fit_is_the_ridge_fit_and_promises_nothing() -> None:
    """To 1e-8 the same as `fit` with the ridge, in every world; rho is infinite."""
    data = rounds((4,), 300, seed=3)
    private = fitted(*data, source=Noiseless())
    np.testing.assert_allclose(private.theta, fit(*data, ridge=SOUND.ridge).theta, atol=1e-8)
    assert private.event.rho == math.inf
    assert private.event.noise == 0
    assert Ledger().spend(private.event).rho == math.inf


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
def test_features_that_cannot_be_fitted_are_refused_before_noise_is_drawn(value: float, bounded: bool) -> None:
    """Else the noise of a fit that is never released would be drawn, and drawn again when it is tried again."""
    rows, position, offered = rounds((), 20, seed=5)
    rows[3, 1, 0], source = value, Recorded()
    with pytest.raises(ValueError, match="features must"):
        fitted(rows, position, offered, source=source, bounded=bounded)
    assert source.drawn == []


def test_minimiser_is_that_of_a_general_optimiser() -> None:
    """SciPy's BFGS on the perturbed objective written out, with b as it was drawn."""
    (rows, position, offered), source = rounds((), 60, seed=4), Recorded()
    theta, _, certificate = fitted(rows, position, offered, source=source)
    (_, b), (_, after) = source.drawn
    assert certificate.bound <= 1e-6

    def objective(at: np.ndarray) -> float:
        loss = -log_likelihood(utilities(rows, at), position, offered).sum()
        return float(loss + SOUND.ridge / 2 * at @ at + b @ at)

    general = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(theta - after, general.x, atol=1e-6)


def test_worlds_do_not_see_each_other() -> None:
    """Each of many parallel worlds has the theta it has alone with the same noise."""
    data, source = rounds((5,), 80, seed=6), Recorded()
    together = fitted(*data, source=source).theta
    b = source.drawn[0][1]
    rows, position, offered = data
    alone = [fit(rows[w], position[w], offered[w], ridge=SOUND.ridge, linear=b[w]).theta for w in range(5)]
    np.testing.assert_allclose(together - source.drawn[1][1], alone, atol=1e-9)


def test_solver_goes_on_until_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Newton that gives up after one step is started again from there."""
    data = rounds((3,), 200, seed=9)
    patient = fitted(*data)
    monkeypatch.setattr(fitting, "ITERATIONS", 1)
    impatient = fitted(*data)
    np.testing.assert_allclose(impatient.theta, patient.theta, atol=1e-9)
    assert (impatient.certificate.bound <= 1e-6).all()


def test_nothing_is_released_without_a_certificate() -> None:
    """A tol below what float64 can certify is an error that says so."""
    with pytest.raises(NotCertified, match=r"certified to tol=1e-17, got .*nothing was released"):
        fitted(*rounds((), 50, seed=10), tol=1e-17)


def test_start_changes_the_way_not_the_result() -> None:
    """From far away the same minimiser is found."""
    data = rounds((2,), 150, seed=11)
    near, far = fitted(*data), fitted(*data, start=np.array([3.0, -3.0, 2.0]))
    np.testing.assert_allclose(near.theta, far.theta, atol=1e-8)


def test_event_charges_the_proven_cost_and_the_solver() -> None:
    """Rho is that of the exact minimiser plus 2 tol²/(ridge² output_noise²), not a digit less."""
    result = fitted(*rounds((), 50, seed=12), batch=HISTORY, tol=1e-3, output_noise=1e-2)
    solver = 2 * (1e-3 / (SOUND.ridge * 1e-2)) ** 2
    assert result.event.rho == pytest.approx(cost(*SOUND, 3, 4) + solver, rel=1e-12)
    assert result.event.rho > cost(*SOUND, 3, 4) + solver * (1 - 1e-12)
    assert result.event.batch == HISTORY
    assert result.event.nominal_rho is None
    assert result.event.sensitivity == pytest.approx(4.0)
    assert result.event.noise == SOUND.sigma
    assert "ridge" in result.event.detail
    same = event(SOUND, dim=3, capacity=4, source=Noiseless(), batch=0)
    assert same.rho == math.inf


@given(
    log_rho=st.floats(-4, 1.3),
    dim=st.integers(1, 30),
    capacity=st.integers(1, 20),
    calibration=st.sampled_from(["sound", "mean-width"]),
)
@settings(max_examples=60)
def test_within_leaves_room_for_the_solver(log_rho: float, dim: int, capacity: int, calibration: Calibration) -> None:
    """The whole event is affordable with a budget of rho, and wastes less than a hundredth of the solver's part."""
    rho = 10**log_rho
    found = within(rho, dim, capacity, calibration)
    spent = event(found, dim=dim, capacity=capacity, source=ContinuousGaussian(), batch=0)
    if calibration == "sound":
        Ledger(budget=rho).spend(spent)
    total = cost(*found, dim, capacity, calibration) + solver_cost(found.ridge)
    assert rho - 0.02 * solver_cost(found.ridge) - 1e-6 * rho <= total <= rho


def test_within_refuses_a_solver_dearer_than_the_budget_and_leaves_the_paper_alone() -> None:
    """A rule, then the value; printed constants stay as printed."""
    with pytest.raises(ValueError, match="solver alone must cost less than rho"):
        within(1.0, 5, 10, output_noise=1e-8)
    assert within(1.0, 5, 10, "paper") == calibrate(1.0, 5, 10, "paper")


def test_paper_fit_takes_features_as_they_come_and_proves_nothing() -> None:
    """Unbounded features: nominal as claimed, proven infinite; declared bounded, the proven cost is finite."""
    rows, position, offered = rounds((), 200, seed=13)
    printed = {"perturbation": calibrate(0.1, 3, 4, "paper"), "nominal_rho": 0.1}
    wild = fitted(7 * rows, position, offered, bounded=False, **printed)
    assert (wild.event.rho, wild.event.nominal_rho, wild.event.sensitivity) == (math.inf, 0.1, math.inf)
    tame = fitted(rows, position, offered, **printed)
    assert 0 < tame.event.rho < 0.1 / 100
    assert tame.event.nominal_rho == 0.1


def test_features_outside_the_unit_ball_are_refused() -> None:
    """Rounding in clipping passes, a millionth does not."""
    rows, position, offered = rounds((), 20, seed=14)
    fitted(rows * (1 + 5e-13), position, offered)
    with pytest.raises(ValueError, match=r"unit ball: clip them first, got longest=1\.000001"):
        fitted(rows * (1 + 1e-6), position, offered)


def test_discrete_noise_is_refused() -> None:
    """The proof needs a density."""
    with pytest.raises(ValueError, match="continuous noise"):
        fitted(*rounds((), 20, seed=15), source=DiscreteGaussian())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"perturbation": Perturbation(1.0, 0.0)}, "ridge must be positive"),
        ({"perturbation": Perturbation(0.0, 1.0)}, "sigma must be positive"),
        ({"output_noise": 0.0}, "output_noise must be positive"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"centre": np.zeros(2)}, "centre must have shape"),
        ({"batch": -1}, "batch must be"),
    ],
)
def test_private_fit_refuses_nonsense(options: dict[str, Any], message: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=message):
        fitted(*rounds((), 20, seed=16), **options)


def test_visitors_who_do_not_count_move_nothing() -> None:
    """An empty offer without a choice adds no gradient."""
    rows, position, offered = rounds((), 50, seed=17)
    longer = np.concatenate([rows, np.zeros((9, 4, 3))]), np.append(position, [-1] * 9)
    silent = np.concatenate([offered, np.zeros((9, 4), dtype=bool)])
    np.testing.assert_allclose(fitted(rows, position, offered).theta, fitted(*longer, silent).theta, atol=1e-10)


def test_rounding_is_part_of_the_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient that only looks short enough, its evaluation being that uncertain, releases nothing."""
    sure, unsure = (Certificate(np.asarray(0.4e-6), np.asarray(error)) for error in (0.5e-6, 0.7e-6))
    monkeypatch.setattr("quietshelf.privacy.release.objective_perturbation.certify", lambda *_: sure)
    fitted(*rounds((), 20, 1), tol=1e-6)
    monkeypatch.setattr("quietshelf.privacy.release.objective_perturbation.certify", lambda *_: unsure)
    with pytest.raises(NotCertified, match="nothing was released"):
        fitted(*rounds((), 20, 1), tol=1e-6)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0, 30.0])
def test_the_price_of_a_fit_is_rounded_upwards(rho: float) -> None:
    """Not below the exact sum of what the minimiser and the solver cost."""
    sigma, ridge = calibrate(rho, 3, 4)
    price = event(Perturbation(sigma, ridge), dim=3, capacity=4, source=ContinuousGaussian(), batch=0)
    assert Fraction(price.rho) >= Fraction(cost(sigma, ridge, 3, 4)) + Fraction(solver_cost(ridge))
