"""Densities of the private fit: exact where known, and the law that the shipped fit really has."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import kstest

from quietshelf.privacy.accounting import epsilon_of_gaussian
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.objective_perturbation import within
from quietshelf.privacy.release.perturbation_curves import Perturbation
from quietshelf.research.auditing.neighbours import far_gradients
from quietshelf.research.auditing.private_fits import fit_cost, fit_run
from quietshelf.research.auditing.quadrature import Crowd, in_plane


def test_cost_is_exact_where_the_release_is_gaussian() -> None:
    """Features (1, -1), one item or the other: D = 2 alpha / sigma², so rho = 2 / sigma² (section 9)."""
    found = fit_cost(far_gradients(2, 1), Perturbation(3.0, 4.0), 1e-6)
    assert found.rho == pytest.approx(2 / 9, rel=1e-6)
    assert found.epsilon == pytest.approx(epsilon_of_gaussian(2 / 3, 1e-6), rel=1e-3)
    assert fit_cost(far_gradients(2, 1), Perturbation(0.05, 4.0), 1e-6).epsilon == np.inf  # mu = 40: above 800


@pytest.mark.parametrize(("dim", "capacity"), [(1, 2), (1, 30), (2, 3)])
def test_cost_stays_within_its_calibration(dim: int, capacity: int) -> None:
    """Worst pairs of the proofs at rho = 0.5 and 2, and two thirds of the noise costs more than the noise."""
    pair = far_gradients(capacity, dim)
    for rho in (0.5, 2.0):
        sigma, ridge = within(rho, dim, capacity)
        cost = fit_cost(pair, Perturbation(sigma, ridge), 1e-6).rho
        assert cost <= rho
        assert fit_cost(pair, Perturbation(sigma * 2 / 3, ridge), 1e-6).rho > 2 * cost


def test_shipped_fit_has_the_density_that_is_integrated() -> None:
    """20,000 fits on the line; Kolmogorov-Smirnov at 0.1 %; noise of 2/3 and of 3/2 is told apart."""
    pair, ridge = far_gradients(3, 1), 3.0
    theta = fit_run(pair, Perturbation(4.0, ridge), True, Simulated(np.random.default_rng(0)), 20_000)[:, 0]
    x = np.stack([pair.first.rows, pair.second.rows])[None, :, :, 0]
    crowd = Crowd(x, np.array([[0, 0]]), np.zeros(1))
    for sigma, fits in ((4.0, True), (4.0 * 2 / 3, False), (6.0, False)):
        grid = crowd.on_grid(ridge, sigma, 1.0, finer=4.0)
        density = np.exp(grid.first[0])
        reach = (10 * sigma + 4 + 2 * 2) / ridge
        points = np.linspace(-reach, reach, density.size)
        reached = np.cumsum(density) * float(grid.cell[0])
        p = kstest(theta, partial(np.interp, xp=points, fp=reached)).pvalue
        assert (p > 0.001) == fits


def test_plane_and_line_agree() -> None:
    """Features along one axis of the plane: the other coordinate is the same in both worlds and adds nothing."""
    flat, plane = far_gradients(3, 1), far_gradients(3, 2)
    for order in (1.5, 4.0):
        x = np.stack([flat.first.rows, flat.second.rows])[None, :, :, 0]
        line = Crowd(x, np.array([[0, 0]]), np.zeros(1)).on_grid(3.0, 4.0, order).divergence(order)[0]
        two = np.stack([plane.first.rows, plane.second.rows])
        area = in_plane(two, np.array([0, 0]), ridge=3.0, sigma=4.0, order=order).divergence(order)
        assert float(area) == pytest.approx(float(line), rel=1e-5)
