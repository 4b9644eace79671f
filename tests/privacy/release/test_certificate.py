"""The certificate bounds the true gradient, in exact arithmetic, wherever it is evaluated."""

from __future__ import annotations

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.privacy.release.certificate import DenseVisits, Objective, certify
from quietshelf.privacy.statistics import clip


def problem(lead: tuple[int, ...], n: int, seed: int, *, scale: float = 1.0) -> Objective:
    """Up to four items of three features, one place in five empty."""
    rng = np.random.default_rng(seed)
    rows = clip(rng.normal(size=(*lead, n, 4, 3))) * scale
    offered = rng.random((*lead, n, 4)) < 0.8
    position = rng.integers(-1, 4, (*lead, n))
    chosen = np.take_along_axis(offered, np.maximum(position, 0)[..., None], axis=-1)[..., 0]
    centre, linear = rng.normal(size=(2, *lead, 3))
    return Objective(DenseVisits(rows, np.where(chosen, position, -1), offered), 3.0, centre, 10 * linear)


def exact_gradient(objective: Objective, theta: np.ndarray) -> float:
    """The norm of the gradient of one world, in fifty digits."""
    getcontext().prec = 50
    at = [Decimal(float(value)) for value in theta]
    total = [
        Decimal(objective.ridge) * (a - Decimal(float(c))) + Decimal(float(b))
        for a, c, b in zip(at, objective.centre, objective.linear, strict=True)
    ]
    visits = objective.visits
    assert isinstance(visits, DenseVisits)
    for n, chosen in enumerate(visits.position):
        rows = [[Decimal(float(v)) for v in row] for row in visits.rows[n]]
        weights = [sum((v * a for v, a in zip(row, at, strict=True)), Decimal(0)).exp() for row in rows]
        if visits.offered is not None:
            weights = [w if is_there else Decimal(0) for w, is_there in zip(weights, visits.offered[n], strict=True)]
        whole = 1 + sum(weights)
        for i in range(len(at)):
            mean = sum((w * row[i] for w, row in zip(weights, rows, strict=True)), Decimal(0)) / whole
            total[i] += mean - (rows[chosen][i] if chosen >= 0 else 0)
    return float(sum((value * value for value in total), Decimal(0)).sqrt())


@given(seed=st.integers(0, 10**6), size=st.floats(-3, 2), scale=st.sampled_from([1.0, 0.01, 30.0]))
@settings(max_examples=15)
def test_certificate_bounds_the_true_gradient(seed: int, size: float, scale: float) -> None:
    """Anywhere, not only at the minimiser, evaluation and fifty-digit arithmetic differ by at most ``rounding``."""
    objective = problem((), 60, seed, scale=scale)
    theta = 10**size * np.random.default_rng(seed + 1).normal(size=3)
    certificate, exact = certify(objective, theta), exact_gradient(objective, theta)
    assert abs(float(certificate.gradient_norm) - exact) <= certificate.rounding
    assert certificate.rounding < 1e-9 * (1 + scale**2 * 10**size)
    assert exact <= certificate.bound


def test_certificate_places_the_minimiser() -> None:
    """Theta found by Newton, and a worse one: both are within bound / ridge of the minimiser."""
    objective = problem((), 100, seed=7)
    visits, ridge, centre, linear = objective
    best = visits.fit(ridge=ridge, centre=centre, linear=linear, tol=1e-12, start=centre).theta
    assert exact_gradient(objective, best) <= certify(objective, best).bound < 1e-11
    worse = best + np.array([1e-3, 0.0, -2e-3])
    assert np.linalg.norm(worse - best) <= certify(objective, worse).bound / objective.ridge


def test_certificate_does_not_depend_on_chunks_and_stays_small_on_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million features in one chunk or in many: the same gradient within both certificates."""
    objective = problem((2,), 50_000, seed=8)
    whole = certify(objective, np.full((2, 3), 0.3))
    monkeypatch.setattr("quietshelf.privacy.release.certificate.CHUNK", 10_000)
    parts = certify(objective, np.full((2, 3), 0.3))
    assert (np.abs(whole.gradient_norm - parts.gradient_norm) <= whole.rounding + parts.rounding).all()
    assert (parts.rounding < 1e-8).all()


def test_rounding_counts_the_probabilities_of_every_round() -> None:
    """Where utilities are long the error of a probability leads: it is charged once a round, as the table says."""
    objective, theta = problem((), 500, seed=9), np.array([300.0, -200.0, 100.0])
    size = objective.visits.longest * float(np.linalg.norm(theta))
    assert certify(objective, theta).rounding > 500 * objective.visits.longest * 2.0**-53 * (2 * 3 + 5) * size
