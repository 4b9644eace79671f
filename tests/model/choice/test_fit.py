"""The fit finds the maximiser, certifies it, and says so when there is none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize

from quietshelf.model.choice import fit, information, log_likelihood, utilities


def simulated(n: int, places: int, theta: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, places, theta.size))
    noisy = np.concatenate([x @ theta, np.zeros((n, 1))], axis=1) + rng.gumbel(size=(n, places + 1))
    picked = noisy.argmax(axis=1)
    return x, np.where(picked == places, -1, picked)


def greene() -> tuple[np.ndarray, np.ndarray]:
    data = sm.datasets.modechoice.load_pandas().data
    mode, gc, ttme, hinc, chosen = (
        data[c].to_numpy().reshape(210, 4) for c in ("mode", "gc", "ttme", "hinc", "choice")
    )
    air = mode == 1
    return np.stack([gc, ttme, hinc * air, air, mode == 2, mode == 3], axis=-1), chosen.argmax(axis=1)


def test_fit_reproduces_greenes_travel_mode_table() -> None:
    """Coefficients and log-likelihood of the published conditional logit, to the printed digits."""
    x, choice = greene()
    result = fit(x, choice, outside=False)
    published = [-0.0155015, -0.0961248, 0.0132870, 5.207443, 3.869043, 3.163194]
    digits = [7, 7, 7, 6, 6, 6]
    assert [round(float(v), k) for v, k in zip(result.theta, digits, strict=True)] == published
    assert round(float(result.log_likelihood), 5) == -199.12837
    assert result.converged
    errors = [0.004408, 0.010440, 0.010262, 0.779055, 0.443127, 0.450266]
    np.testing.assert_allclose(result.standard_errors, errors, atol=5e-7)


def test_fit_does_not_depend_on_the_units_of_features() -> None:
    """Features measured in units a million times smaller give the same likelihood."""
    x, choice = greene()
    units = np.array([1e6, 1e-3, 1.0, 1e3, 1.0, 1e-6])
    scaled, plain = fit(x * units, choice, outside=False), fit(x, choice, outside=False)
    assert scaled.converged
    np.testing.assert_allclose(scaled.theta * units, plain.theta, rtol=1e-7)


def test_fit_recovers_known_tastes_within_their_standard_errors() -> None:
    """Each coordinate is within four standard errors of the truth (false alarm below 1e-3 for four coordinates)."""
    theta = np.array([1.0, -0.5, 0.2, 0.0])
    x, choice = simulated(20_000, 6, theta, seed=11)
    result = fit(x, choice)
    assert (np.abs(result.theta - theta) < 4 * result.standard_errors).all()


def test_perturbed_fit_equals_a_general_optimiser_and_certifies_its_gradient() -> None:
    """Ridge matrix, centre and linear term enter as written; the gradient norm is that of the whole objective."""
    theta = np.array([0.5, -1.0, 0.3])
    x, choice = simulated(400, 4, theta, seed=2)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    ridge, centre, linear = root @ root.T + np.eye(3), rng.normal(size=3), 3 * rng.normal(size=3)

    def objective(at: np.ndarray) -> float:
        away = at - centre
        loss = -log_likelihood(utilities(x, at), choice).sum()
        return float(loss + 0.5 * away @ ridge @ away + linear @ at)

    result = fit(x, choice, ridge=ridge, centre=centre, linear=linear)
    general = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(result.theta, general.x, atol=1e-5)
    assert result.gradient_norm <= 1e-9
    h = 1e-5
    slope = [(objective(result.theta + s) - objective(result.theta - s)) / (2 * h) for s in h * np.eye(3)]
    np.testing.assert_allclose(slope, 0.0, atol=1e-4)
    np.testing.assert_allclose(result.information, information(x, result.theta).sum(0), rtol=1e-10)


def test_separable_data_do_not_converge_and_do_not_raise() -> None:
    """A perfect predictor has no finite maximiser: a value says so."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3, 2))
    best = np.concatenate([np.zeros((50, 1)), x @ [1.0, 2.0]], axis=1).argmax(axis=1) - 1
    assert not fit(x, best).converged
    assert fit(x, best, ridge=1e-3).converged
    nobody = np.full(50, -1)
    assert not fit(np.abs(x), nobody).converged


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_separable_data_of_any_kind_are_recognised(outside: bool, scale: float) -> None:
    """One round or many, one feature or three, any units: a perfect predictor never converges."""
    rng = np.random.default_rng(12)
    for n, places, dim in [(1, 2, 1), (2, 2, 1), (30, 3, 1), (200, 3, 2), (50, 4, 3)]:
        for _ in range(8):
            x = scale * rng.normal(size=(n, places, dim))
            utility = x @ rng.normal(size=dim)
            if outside:
                utility = np.append(np.zeros((n, 1)), utility, axis=1)
            best = utility.argmax(axis=1) - (1 if outside else 0)
            assert not fit(x, best, outside=outside).converged


def test_unbounded_linear_term_does_not_converge() -> None:
    """A linear term stronger than the data, without ridge, has no minimiser, however strong it is."""
    x, choice = simulated(30, 3, np.array([1.0, 0.0]), seed=4)
    for size in (1e3, 1e6, 1e12):
        assert not fit(x, choice, linear=np.array([size, 0.0])).converged


@pytest.mark.parametrize(("size", "ridge"), [(1e6, 1.0), (1.0, 1e12), (1e6, 1e6), (1e-6, 1e-6)])
def test_strongly_convex_problems_of_any_size_converge_quickly(size: float, ridge: float) -> None:
    """Large features, a large ridge: Newton takes its few steps and says that it is there."""
    rng = np.random.default_rng(13)
    x = size * rng.normal(size=(100, 3, 2))
    best = np.append(np.zeros((100, 1)), x @ [1.0, 2.0], axis=1).argmax(axis=1) - 1
    result = fit(x, best, ridge=ridge)
    assert result.converged
    assert result.iterations < 60


def test_a_common_offset_does_not_keep_a_fit_from_converging() -> None:
    """Without an outside option only differences of features matter."""
    x, choice = simulated(300, 3, np.array([0.5, -0.5]), seed=14)
    kept = choice >= 0
    near, far = fit(x[kept], choice[kept], outside=False), fit(x[kept] + 1e4, choice[kept], outside=False)
    assert far.converged
    np.testing.assert_allclose(far.theta, near.theta, atol=1e-5)


def test_a_start_far_out_is_left_behind() -> None:
    """Where every probability is zero or one there is nothing to step by: the fit begins again at zero."""
    x, choice = simulated(300, 3, np.array([0.5, 0.5]), seed=15)
    result = fit(x, choice, start=[1e4, -1e4])
    assert result.converged
    np.testing.assert_allclose(result.theta, fit(x, choice).theta, atol=1e-8)


def test_collinear_features_converge_and_own_up_to_unknown_directions() -> None:
    """A duplicated column changes no utility; its standard error is infinite, the others stay."""
    x, choice = simulated(800, 4, np.array([0.7, -0.4]), seed=6)
    alone = fit(x, choice)
    doubled = fit(np.concatenate([x, 2 * x[..., :1]], axis=-1), choice)
    assert doubled.converged
    np.testing.assert_allclose(doubled.log_likelihood, alone.log_likelihood, rtol=1e-12)
    assert np.isinf(doubled.standard_errors[[0, 2]]).all()
    np.testing.assert_allclose(doubled.standard_errors[1], alone.standard_errors[1], rtol=1e-6)


def test_masked_places_do_not_matter() -> None:
    """Whatever stands in a place that was not offered, the fit is the same."""
    x, choice = simulated(500, 5, np.array([1.0, 1.0]), seed=7)
    available = np.ones((500, 5), dtype=bool)
    available[:, 4] = False
    keep = choice != 4
    masked = x.copy()
    masked[:, 4] = 1e3
    with_mask = fit(masked[keep], choice[keep], available[keep])
    without = fit(x[keep, :4], choice[keep])
    np.testing.assert_allclose(with_mask.theta, without.theta, atol=1e-9)


def test_batch_of_problems_equals_one_at_a_time() -> None:
    """Problems side by side, separable ones among them, are those solved alone."""
    tastes = [np.array([1.0, -1.0]), np.array([0.0, 0.3])]
    data = [simulated(300, 3, theta, seed=8 + i) for i, theta in enumerate(tastes)]
    x = np.stack([d[0] for d in data] + [data[0][0]])
    choice = np.stack([d[1] for d in data] + [(np.append(np.zeros((300, 1)), data[0][0] @ [2, 1], 1)).argmax(1) - 1])
    together = fit(x, choice)
    assert together.converged.tolist() == [True, True, False]
    for i in range(2):
        np.testing.assert_allclose(together.theta[i], fit(x[i], choice[i]).theta, atol=1e-9)


def test_chunks_do_not_change_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the rounds in small pieces gives the same numbers."""
    x, choice = simulated(501, 4, np.array([0.5, 0.5, -0.5]), seed=9)
    whole = fit(x, choice)
    monkeypatch.setattr("quietshelf.model.choice.dense.CHUNK", 100)
    np.testing.assert_allclose(fit(x, choice).theta, whole.theta, atol=1e-12)


def test_start_at_the_answer_takes_no_step() -> None:
    """A warm start is used."""
    x, choice = simulated(300, 3, np.array([0.5, 0.5]), seed=10)
    cold = fit(x, choice)
    assert fit(x, choice, start=cold.theta).iterations == 0


def test_no_rounds_give_the_centre_of_the_ridge() -> None:
    """Without data the penalty alone decides."""
    result = fit(np.zeros((0, 3, 2)), np.zeros(0, dtype=int), ridge=2.0, centre=[1.0, -1.0])
    np.testing.assert_allclose(result.theta, [1.0, -1.0])
    assert result.converged


X, CHOICE = np.ones((4, 3, 2)), np.zeros(4, dtype=int)
BAD: list[tuple[dict[str, Any], str]] = [
    ({"features": np.full((4, 3, 2), np.nan)}, "features must be finite, got features[0, 0, 0]=nan"),
    ({"features": np.ones((3, 2))}, "features must have shape (..., any, any, any), got shape=(3, 2)"),
    ({"choice": [0, 1, 2]}, "choice must have shape (4,), one for each round, got shape=(3,)"),
    ({"choice": [0, 1, 2, 3]}, "choice must be a position from -1 to 2 (-1: none), got choice[3]=3"),
    ({"choice": [0, 1, 2, -1], "outside": False}, "choice must be a position from 0 to 2, got choice[3]=-1"),
    ({"choice": [0.5, 1, 2, -1]}, "choice must be whole numbers"),
    ({"choice": ["a", "b", "c", "d"]}, "choice must be whole numbers"),
    ({"available": np.zeros((4, 3), dtype=bool)}, "choice must be an available place, got choice[0]=0"),
    ({"available": np.ones((4, 2), dtype=bool)}, "available must have shape (..., 4, 3), got shape=(4, 2)"),
    ({"available": np.ones((4, 3))}, "available must be boolean"),
    ({"ridge": -1.0}, "ridge must be at least zero and finite, got ridge=-1.0"),
    ({"ridge": -np.eye(2)}, "ridge must be positive semidefinite, got smallest_eigenvalue=-1.0"),
    ({"ridge": [[1.0, 2.0], [0.0, 1.0]]}, "ridge must be symmetric"),
    ({"centre": np.zeros(3)}, "centre must have shape (..., 2), got shape=(3,)"),
    ({"linear": [np.inf, 0.0]}, "linear must be finite, got linear[0]=inf"),
    ({"tol": 0.0}, "tol must be positive and finite, got tol=0.0"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_refused_by_rule_and_value(change: dict[str, Any], message: str) -> None:
    """Each mistake names the rule it breaks and the value that breaks it."""
    arguments: dict[str, Any] = {"features": X, "choice": CHOICE, **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        fit(**arguments)
