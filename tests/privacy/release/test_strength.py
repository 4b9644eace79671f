"""All strengths are compared in one basis, as if each were worked out by itself."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.prior import Prior, prior_of
from quietshelf.privacy.release.strength import STRENGTHS, Basis, Strengths


def some_prior(rng: np.random.Generator, dim: int, worlds: tuple[int, ...] = (), effects: int = 0) -> Prior:
    """As a shelf has it: features with a constant in front, whose direction is the level."""
    x = rng.normal(size=(*worlds, 50, dim)) * np.exp(rng.normal(size=dim))
    x[..., 0] = 1.0
    second = np.swapaxes(x, -1, -2) @ x / 50
    return prior_of(x.mean(-2), second, conversion=0.1, capacity=5, effects=effects)


def one_by_one(told: FloatArray, shift: FloatArray, prior: Prior) -> FloatArray:
    """Twice the gain in log-likelihood of each strength, by a factorization each, (S,)."""
    gains = []
    for strength in STRENGTHS:
        before = prior.tastes / strength + prior.level
        pull = before @ prior.theta
        theta = np.linalg.solve(told + before, shift + pull)
        gain = np.linalg.slogdet(before)[1] - np.linalg.slogdet(told + before)[1]
        gains.append(gain + (shift + pull) @ theta - pull @ prior.theta)
    return np.array(gains)


@pytest.mark.parametrize(("dim", "effects"), [(1, 0), (2, 0), (7, 0), (7, 3), (7, 7), (60, 0)])
@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 1e6])
def test_gains_are_those_of_each_strength_by_itself(dim: int, effects: int, size: float) -> None:
    """But for a constant; with a level and without, evidence of full rank and of one, and none."""
    rng = np.random.default_rng(dim + effects)
    prior = some_prior(rng, dim, effects=effects)
    for rank in (1, 2 * dim):
        rows = np.sqrt(size) * rng.normal(size=(rank, dim))
        told, shift = rows.T @ rows, rows.T @ rng.normal(size=rank)
        found, wanted = Strengths.of(prior)._gains(told, shift), one_by_one(told, shift, prior)
        np.testing.assert_allclose(found - found[12], wanted - wanted[12], rtol=1e-6, atol=1e-6)


def test_an_estimate_is_solved_for_under_the_strength_chosen() -> None:
    """To the last bit: no basis is in it."""
    rng = np.random.default_rng(5)
    prior, rows = some_prior(rng, 4), rng.normal(size=(9, 4))
    told, shift = rows.T @ rows, rows.T @ rng.normal(size=9)
    theta, precision = Strengths.of(prior).strongest(told, shift)
    tried = [told + (prior.tastes / strength + prior.level) for strength in STRENGTHS]
    place = next(place for place, each in enumerate(tried) if np.array_equal(each, precision))
    before = prior.tastes / STRENGTHS[place] + prior.level
    np.testing.assert_array_equal(
        theta, np.linalg.solve(told + before, (shift[:, None] + before @ prior.theta[:, None]))[:, 0]
    )


def test_one_strength_is_no_choice() -> None:
    """A given prior is used unchanged."""
    rng = np.random.default_rng(6)
    prior = some_prior(rng, 3)
    _, precision = Strengths.of(prior, np.ones(1)).strongest(np.zeros((3, 3)), np.zeros(3))
    np.testing.assert_array_equal(precision, prior.tastes + prior.level)


def test_worlds_are_compared_as_if_alone() -> None:
    """Each chooses its own strength."""
    rng = np.random.default_rng(7)
    prior = some_prior(rng, 4, worlds=(3,))
    rows = rng.normal(size=(3, 9, 4)) * np.array([0.1, 1.0, 10.0])[:, None, None]
    told, shift = np.swapaxes(rows, -1, -2) @ rows, 5.0 * rng.normal(size=(3, 4))
    theta, precision = Strengths.of(prior).strongest(told, shift)
    for world in range(3):
        own = Prior(*(part[world] for part in prior))
        alone = Strengths.of(own).strongest(told[world], shift[world])
        np.testing.assert_array_equal(theta[world], alone[0])
        np.testing.assert_array_equal(precision[world], alone[1])


def test_a_basis_of_a_singular_sum_is_finite() -> None:
    """Rounding may leave nothing of a direction: it must neither raise nor divide by zero."""
    found = Basis.of(np.diag([1.0, 0.0]), np.diag([1e20, 0.0]))
    assert all(np.isfinite(part).all() for part in found)
    assert ((found.tastes >= 0) & (found.tastes <= 1)).all()
