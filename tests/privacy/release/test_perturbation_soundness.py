"""The private fit's divergence, computed by quadrature from its exact density, never exceeds what is claimed.

The minimiser of ``sum of losses + ridge/2 (theta - c)² + b theta`` is the point a at which F(a) = -b, F being the
gradient without b: its density is phi_sigma(F(a)) det DF(a) (docs/proofs.md, section 9).
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.privacy.release.losses import repaired_bound, smooth_loss

from quietshelf.privacy.release.epsilon_delta import calibrate_epsilon, repaired_theorem
from quietshelf.privacy.release.perturbation_cost import Calibration, calibrate, choice_loss, cost, renyi_curve
from quietshelf.privacy.release.perturbation_curves import (
    Loss,
    Perturbation,
    proven_rho,
    renyi_bound,
)
from quietshelf.privacy.release.perturbation_paper import theorem_one
from quietshelf.research.auditing.quadrature import Crowd, Densities, in_plane, log_density, log_integral

ORDERS = [1.05, 1.5, 2.0, 4.0, 8.0, 20.0]
EXACT = 1e-9
"""Room for rounding. The quadrature itself is converged to 1e-4, while the bounds below are missed by more than 5 %."""


def crowd(rng: np.random.Generator, *, instances: int, others: int, capacity: int) -> Crowd:
    """Random features, half of them at the ends of [-1, 1], where sensitivities are attained."""
    size = (instances, others + 2, capacity)
    x = np.where(rng.random(size) < 0.5, rng.choice([-1.0, 1.0], size), rng.uniform(-1, 1, size))
    choice = rng.integers(-1, capacity, size[:2])
    x[::4, -2:], choice[::4, -2:] = rng.choice([-1.0, 1.0], (x[::4].shape[0], 2, 1)), 0
    x[::4, -2:, 0] *= -1  # everything at one end, the choice at the other: the longest gradients
    return Crowd(x, choice, rng.uniform(-3, 3, instances))


def perturbations(rng: np.random.Generator, count: int) -> list[Perturbation]:
    """Noise from strong to weak, ridges from below the floor of Theorem A to far above."""
    sigma, ridge = np.exp(rng.uniform(np.log(1.5), np.log(20), count)), np.exp(rng.uniform(-0.7, 3, count))
    return [Perturbation(float(s), float(r)) for s, r in zip(sigma, ridge, strict=True)]


def test_quadrature_is_exact_where_the_divergence_is_known() -> None:
    """Features (1, -1), choice 1 against choice 2: the release is Gaussian with D = 2 alpha/sigma² (section 9)."""
    known = Crowd(np.array([[[1.0, -1.0], [1.0, -1.0]]]), np.array([[0, 1]]), np.zeros(1))
    sigma, ridge = theorem_one(1.0, lipschitz=2.0, smoothness=4.0, rank=1, dim=1)
    for order in (1.05, 2.0, 64.0):
        pair = known.on_grid(ridge, sigma, order)
        np.testing.assert_allclose(pair.divergence(order), 2 * order / sigma**2, rtol=EXACT)
        np.testing.assert_allclose(np.exp(pair.first).sum(-1) * pair.cell, 1.0, rtol=EXACT)


def test_quadrature_is_converged() -> None:
    """Half the step changes no divergence by more than 1e-4."""
    rng = np.random.default_rng(4)
    for sigma, ridge in perturbations(rng, 6):
        people = crowd(rng, instances=16, others=2, capacity=8)
        for order in (2.0, 20.0):
            coarse, fine = (people.on_grid(ridge, sigma, order, finer=f).divergence(order) for f in (1.0, 2.0))
            np.testing.assert_allclose(coarse, fine, atol=1e-4)


@pytest.mark.parametrize("capacity", [1, 2, 3, 8, 30])
def test_curve_bounds_the_exact_divergence_of_random_neighbours(capacity: int) -> None:
    """Envelope, repaired Theorem 1 and zCDP cost, at six orders, for 12 perturbations of 16 pairs each."""
    rng = np.random.default_rng(capacity)
    loss = choice_loss(1, capacity)
    for sigma, ridge in perturbations(rng, 12):
        people = crowd(rng, instances=16, others=int(rng.integers(0, 3)), capacity=capacity)
        curve = renyi_curve(ORDERS, sigma, ridge, 1, capacity)
        assert (curve <= repaired_bound(ORDERS, sigma, ridge, loss) * (1 + EXACT)).all()
        rho = cost(sigma, ridge, 1, capacity)
        for order, claimed in zip(ORDERS, curve, strict=True):
            exact = people.on_grid(ridge, sigma, order).divergence(order)
            assert (exact <= claimed * (1 + EXACT) + EXACT).all()
            assert claimed <= order * rho * (1 + EXACT)


@pytest.mark.parametrize("calibration", ["sound", "mean-width", "paper"])
@pytest.mark.parametrize("rho", [0.05, 1.0, 5.0])
def test_calibrated_fit_costs_no_more_than_it_was_calibrated_for(rho: float, calibration: Calibration) -> None:
    """Under every calibration D <= rho alpha for random pairs of three items; the printed constants are ample here."""
    sigma, ridge = calibrate(rho, 1, 3, calibration)
    people = crowd(np.random.default_rng(5), instances=40, others=1, capacity=3)
    for order in ORDERS:
        assert (people.on_grid(ridge, sigma, order).divergence(order) <= rho * order * (1 + EXACT)).all()


def test_curve_is_refuted_for_noise_two_thirds_as_large() -> None:
    """Forty items at one end and the choice at the other: the true divergence exceeds the curve of 3/2 of the noise."""
    x = np.ones((1, 2, 40)) * np.array([1.0, -1.0])[:, None]
    x[..., 0] *= -1
    extreme = Crowd(x, np.zeros((1, 2), dtype=int), np.zeros(1))
    sigma, ridge = 10.0, 100.0
    for order in (2.0, 8.0, 20.0):
        exact = float(extreme.on_grid(ridge, sigma, order).divergence(order)[0])
        assert exact <= renyi_curve([order], sigma, ridge, 1, 40)[0]
        assert exact > renyi_curve([order], 1.5 * sigma, ridge, 1, 40)[0]


def test_general_bound_holds_for_a_loss_of_another_kind() -> None:
    """Pseudo-Huber losses sqrt(1 + (theta - z)²): slope at most 1, curvature at most 1, and not a choice model."""
    loss = smooth_loss(lipschitz=1.0, smoothness=1.0, rank=1, dim=1)
    rng = np.random.default_rng(8)
    z = rng.normal(scale=5, size=(40, 4, 1))
    for sigma, ridge in [*perturbations(rng, 8), theorem_one(1.0, lipschitz=1.0, smoothness=1.0, rank=1, dim=1)]:
        curve, repaired = renyi_bound(ORDERS, sigma, ridge, loss), repaired_bound(ORDERS, sigma, ridge, loss)
        for order, *claimed in zip(ORDERS, curve, repaired, order_times(ORDERS, sigma, ridge, loss), strict=True):
            reach = (10 * sigma + 2 * order + 8) / ridge
            a = np.linspace(-reach, reach, 3000)
            length = np.sqrt(1 + (a - z) ** 2)
            slope, curvature = (a - z) / length, length**-3
            common = slope[:, :-2].sum(1) + ridge * a, curvature[:, :-2].sum(1) + ridge
            first, second = (log_density(common[0] + slope[:, i], common[1] + curvature[:, i], sigma) for i in (-2, -1))
            exact = Densities(first, second, np.full(40, a[1] - a[0])).divergence(order)
            assert (exact.max() <= np.array(claimed) * (1 + EXACT) + EXACT).all()


def order_times(orders: list[float], sigma: float, ridge: float, loss: Loss) -> list[float]:
    """What the zCDP cost allows at each order."""
    return [order * proven_rho(sigma, ridge, loss) for order in orders]


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_epsilon_delta_calibrations_keep_their_delta(epsilon: float) -> None:
    """The exact delta at epsilon, by quadrature, is within 1e-3 for one fit, fair or repaired."""
    people = crowd(np.random.default_rng(6), instances=60, others=1, capacity=3)
    fair = calibrate_epsilon(epsilon, 1e-3, fits=1, dim=1, capacity=3)
    repaired = repaired_theorem(epsilon, 1e-3, choice_loss(1, 3), dim=1)
    for sigma, ridge in (fair, repaired):
        assert people.on_grid(ridge, sigma, 1.0, finer=4.0).excess(epsilon).max() <= 1e-3


def test_curve_bounds_the_exact_divergence_in_the_plane() -> None:
    """Two dimensions, three items a visitor, by quadrature on a plane grid; determinants take part."""
    rng = np.random.default_rng(9)
    for sigma, ridge in [
        Perturbation(3.4, 3.1),
        Perturbation(2.0, 1.7),
        Perturbation(6.0, 2.0),
        Perturbation(4.0, 9.0),
    ]:
        direction = rng.normal(size=(3, 3, 2))
        x = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
        choice = rng.integers(-1, 3, 3)
        for order in (1.5, 3.0, 8.0):
            found = in_plane(x, choice, ridge=ridge, sigma=sigma, order=order)
            assert abs(log_integral(found.first, found.cell)) < 1e-6
            exact = float(found.divergence(order))
            assert exact <= renyi_curve([order], sigma, ridge, 2, 3)[0]


def test_determinant_part_of_theorem_a_bounds_random_matrices_and_is_attained() -> None:
    """``det(I+X)^alpha det(I+Y)^(1-alpha) / det(I + alpha X - (alpha-1) Y)`` for PSD X, Y of trace at most t."""
    rng = np.random.default_rng(10)
    tight = 0.0
    for ridge in (1.62, 2.0, 5.0, 40.0):
        # no noise term to speak of, and a huge (B): what is left of the curve is the determinant part of (A)
        loss, t = Loss(difference=1e-6, trace=1.0, rank=50, width=1e6), 1 / ridge
        orders = 1 + rng.uniform(0.01, 0.99, 40) / t
        bound = (orders - 1) * renyi_bound(orders, 1.0, ridge, loss)
        x, y = (_psd(rng, 40 * 50, t).reshape(40, 50, 3, 3) for _ in range(2))
        x[:, 0], y[:, 0] = np.diag([t, 0, 0]), np.diag([0, t, 0])
        alpha, one = orders[:, None], np.eye(3)
        mixed = one + alpha[..., None, None] * x - (alpha - 1)[..., None, None] * y
        logs = [np.linalg.slogdet(m)[1] for m in (one + x, one + y, mixed)]
        value = alpha * logs[0] - (alpha - 1) * logs[1] - logs[2]
        assert (value <= bound[:, None] * (1 + 1e-8)).all()
        tight = max(tight, float((value.max(1) / bound).max()))
    assert tight > 1 - 1e-6


def _psd(rng: np.random.Generator, count: int, trace: float) -> np.ndarray:
    root = rng.normal(size=(count, 3, 3)) * rng.choice([0.01, 1.0], (count, 3, 1))
    matrix = root @ np.swapaxes(root, -1, -2)
    return np.asarray(matrix * (trace * rng.random(count) ** 0.3 / np.trace(matrix, axis1=-2, axis2=-1))[:, None, None])


def test_constants_of_the_choice_model_bound_random_visitors_and_are_approached() -> None:
    """|g - g'| <= G and trace H <= h over 200,000 random visitors in the plane, and within 3 % of both for some."""
    rng = np.random.default_rng(11)
    loss = choice_loss(2, 3)
    direction = rng.normal(size=(200_000, 3, 2)) * rng.choice([1.0, 8.0], (200_000, 1, 2))
    x = direction / np.linalg.norm(direction, axis=-1, keepdims=True)
    weight = np.exp(rng.choice([0.0, 2.0, 10.0, 50.0], (200_000, 1)) * x[..., 0])
    p = weight / (1 + weight.sum(-1, keepdims=True))
    mean = np.einsum("nk,nki->ni", p, x)
    gradients = mean[:, None, :] - x
    trace = (p[..., None] * x**2).sum((1, 2)) - (mean**2).sum(-1)
    assert 0.97 * loss.trace < trace.max() <= loss.trace
    assert 2 * np.linalg.norm(gradients, axis=-1).max() <= loss.difference
    mirrored = 2 * np.abs(gradients[..., 1])  # against the visitor mirrored at the axis of theta
    assert mirrored.max() > 0.97 * loss.difference
