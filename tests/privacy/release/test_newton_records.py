"""Post-processing of private Newton steps: the estimate is what the formulas say, and never NaN."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.privacy.release.batch_pair import Noisy, Scales
from quietshelf.privacy.release.newton_records import drowned, geometry, rebuild, record, shrunk
from quietshelf.privacy.release.records import Estimate, Record

QUIET = Scales(score=1e-9, information=1e-9, bound=1.0)


def made(seed: int, scales: Scales, dim: int = 3, size: int = 400) -> Record:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dim, dim))
    information = size / dim * (np.eye(dim) + 0.1 * (root + root.T))
    return record(
        Noisy(rng.normal(size=dim), information),
        theta=rng.normal(size=dim),
        coordinates=np.eye(dim) + 0.3 * rng.normal(size=(dim, dim)),
        scales=scales,
        size=size,
    )


def test_one_exact_record_with_a_weak_prior_is_a_newton_step() -> None:
    """Without noise and prior the estimate solves H (theta - theta_k) = -g in the record's coordinates."""
    item = made(0, QUIET)
    prior = Estimate(np.zeros(3), 1e-9 * np.eye(3))
    estimate = rebuild([item], prior, prior)
    h = item.vectors @ np.diag(item.values) @ item.vectors.T
    back = np.linalg.inv(item.coordinates).T
    step = np.linalg.solve(h, -item.score)
    np.testing.assert_allclose(back @ (estimate.theta - item.theta), step, atol=1e-6)


def test_rebuilding_follows_the_formulas_line_by_line() -> None:
    """A, b and theta computed once more, record by record, as in the definition."""
    items = [made(s, Scales(2.0, 3.0, 1.0)) for s in range(3)]
    prior = Estimate(np.zeros(3), 10 * np.diag([0.2, 0.3, 0.4]))
    gamma, d = 0.9, 3
    theta, A = prior
    for _ in range(2):
        new_A, b = prior.precision.copy(), np.zeros(3)
        for age, r in enumerate(reversed(items)):
            Li = np.linalg.inv(r.coordinates)
            away = Li.T @ (theta - r.theta)
            dist = away @ away + np.trace(Li.T @ np.linalg.inv(A) @ Li)
            s2 = 2.0**2 + 3.0**2 * (d + 1) / (2 * d) * dist
            D = gamma**age * r.values / (r.values + s2)
            H = r.vectors @ np.diag(r.values) @ r.vectors.T
            new_A += Li @ r.vectors @ np.diag(D * r.values) @ r.vectors.T @ Li.T
            b += Li @ r.vectors @ np.diag(D) @ r.vectors.T @ (H @ (Li.T @ r.theta) - r.score)
        A, theta = new_A, np.linalg.solve(new_A, b)
    estimate = rebuild(items, prior, prior, forgetting=gamma)
    np.testing.assert_allclose(estimate.theta, theta, rtol=1e-10)
    np.testing.assert_allclose(estimate.precision, A, rtol=1e-10)


def test_shrinking_removes_pure_noise_and_keeps_a_clear_signal() -> None:
    """What is all noise becomes a multiple of the identity; what stands far above the noise stays."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(4, 4))
    flat = shrunk(5 * np.eye(4) + 0.1 * (noise + noise.T), scale=10.0, size=100)
    np.testing.assert_allclose(flat, np.eye(4) * np.trace(flat) / 4, atol=1e-12)
    strong = np.diag([90.0, 5.0, 3.0, 2.0])
    np.testing.assert_allclose(shrunk(strong, scale=0.1, size=100), strong, rtol=0.01)


def test_mean_eigenvalue_is_kept_within_what_a_batch_can_hold() -> None:
    """A noisy trace below zero or above the batch size is clipped, since every visitor's trace is at most one."""
    assert np.trace(shrunk(-50 * np.eye(2), scale=100.0, size=10)) == pytest.approx(0.0)
    assert np.trace(shrunk(50 * np.eye(2), scale=100.0, size=10)) == pytest.approx(10.0)


def test_one_dimension_is_defined() -> None:
    """With d = 1 there is nothing to shrink towards, and no 0/0."""
    np.testing.assert_allclose(shrunk(np.array([[3.0]]), scale=1.0, size=10), [[3.0]])


def test_geometry_stays_at_the_first_guess_until_information_rises_above_the_noise() -> None:
    """Drowned records leave only the anchor, scaled; clear ones move the shape."""
    first = np.diag([1.0, 2.0, 3.0])
    drowned_item = made(4, Scales(1e4, 1e4, 1.0))
    shape = geometry([drowned_item], first, declared=True)
    np.testing.assert_allclose(shape, first * 150 / (150 + 400))
    clear = made(5, QUIET)
    moved = geometry([clear], first, declared=True)
    frame = np.linalg.inv(clear.coordinates) @ clear.vectors
    np.testing.assert_allclose(moved, (frame @ np.diag(clear.values) @ frame.T + 150 * first) / 550, rtol=1e-6)


def test_drowned_counts_directions_below_the_score_noise() -> None:
    """Eigenvalues under sg² say nothing of their direction."""
    item = made(6, QUIET)
    assert drowned(item) == 0
    assert drowned(item._replace(scales=Scales(1e3, 1.0, 1.0))) == 3
