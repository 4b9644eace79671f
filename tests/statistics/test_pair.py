"""Neighbours differ by at most the stated sensitivity, the bound is nearly reached, and the score is unbiased."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from quietshelf.choice import probabilities
from quietshelf.statistics import (
    Pair,
    Shown,
    contribution,
    information_sensitivity,
    nothing,
    on_grid,
    score_sensitivity,
    summed,
    svec,
)

GRID = 2.0**-20


def visitor(rng: np.random.Generator, places: int, dim: int, size: float) -> Shown:
    """A visitor of any kind: features of any size and direction, some places empty, any answer."""
    rows = size * rng.normal(size=(places, dim)) * 10 ** rng.uniform(-3, 3, size=(places, 1))
    if rng.random() < 0.3:
        rows[:] = rows[0]
    if rng.random() < 0.3:
        rows += size * 1e3
    offered = rng.random(places) < 0.8
    rows[~offered] = 0.0
    position = rng.choice(np.append(np.flatnonzero(offered), -1))
    return Shown(rows, offered, np.asarray(position))


def public(rng: np.random.Generator, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A released theta and coordinates, far from harmless."""
    return 3 * rng.normal(size=dim), rng.normal(size=(dim, dim)) * 10 ** rng.uniform(-2, 2)


def frobenius(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix))


@settings(deadline=None, max_examples=300)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([1e-8, 1.0, 1e6, 1e150, 1e300]),
)
def test_neighbours_differ_by_at_most_the_sensitivity(seed: int, places: int, dim: int, size: float) -> None:
    """Any visitor against any other, at any theta and in any coordinates, before and after rounding to the grid."""
    rng = np.random.default_rng(seed)
    theta, coordinates = public(rng, dim)
    one, other = (contribution(visitor(rng, places, dim, size), theta, coordinates) for _ in range(2))
    for pair in (one, other):
        assert np.isfinite(pair.score).all()
        assert np.isfinite(pair.information).all()
        assert np.linalg.norm(pair.score) <= 1.0
        assert np.trace(pair.information) <= 1.0
        assert frobenius(pair.information) <= 1.0
    assert np.linalg.norm(one.score - other.score) <= score_sensitivity()
    assert frobenius(one.information - other.information) <= information_sensitivity(dim)
    rounded = [summed(Pair(p.score[None], p.information[None]), GRID) for p in (one, other)]
    assert np.linalg.norm(rounded[0].score - rounded[1].score) <= score_sensitivity()
    moved = np.linalg.norm(rounded[0].information - rounded[1].information)
    assert moved <= information_sensitivity(dim, GRID)


def test_score_sensitivity_is_attained() -> None:
    """At theta = 0 one item of length 2, bought by one visitor and left by the other: distance 2 to five digits."""
    shown = Shown(np.full((2, 1, 1), 2.0), np.ones((2, 1), bool), np.array([0, -1]))
    score = contribution(shown, np.zeros(1), np.eye(1)).score
    assert 2.0 - 1e-5 < np.linalg.norm(score[0] - score[1]) <= 2.0


def test_information_sensitivity_is_attained() -> None:
    """Two visitors torn between items along different axes: distance sqrt 2 to five digits."""
    rows = np.array([[[100.0, 0.0], [-100.0, 0.0]], [[0.0, 100.0], [0.0, -100.0]]])
    shown = Shown(rows, np.ones((2, 2), bool), np.array([0, 0]))
    h = contribution(shown, np.zeros(2), np.eye(2)).information
    assert frobenius(h[0] - h[1]) == pytest.approx(math.sqrt(2.0), rel=1e-5)


@pytest.mark.parametrize(
    ("part", "bound", "theta"),
    [
        ("score", score_sensitivity(), [1.0, -2.0]),
        ("information", information_sensitivity(2), [0.0, 0.0]),  # in the plane attained at theta = 0 only
    ],
)
def test_adversarial_search_comes_close_and_never_passes(part: str, bound: float, theta: list[float]) -> None:
    """A numerical search for the worst pair of visitors reaches 97 % of the sensitivity, and no more than all of it."""
    rng = np.random.default_rng(0)
    coordinates = np.array([[1.0, 0.3], [0.0, 2.0]])
    best = 0.0
    for _ in range(20):
        choices = rng.integers(-1, 2, size=2)

        def distance(flat: np.ndarray, choices: np.ndarray = choices) -> float:
            shown = Shown(flat.reshape(2, 2, 2), np.ones((2, 2), bool), choices)
            values = getattr(contribution(shown, np.array(theta), coordinates), part)
            return -float(np.linalg.norm(values[0] - values[1]))

        found = minimize(distance, 3 * rng.normal(size=8), method="Powell", options={"maxiter": 200})
        best = max(best, -found.fun)
    assert 0.97 * bound < best <= bound


def test_weighted_score_has_mean_zero_at_the_true_theta() -> None:
    """Averaged over every possible choice with its probability, the weighted score vanishes, to rounding."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        rows, theta = 4 * rng.normal(size=(5, 3)), rng.normal(size=3)
        p = probabilities(rows @ theta)
        mean = np.zeros(3)
        for position, chance in zip(range(-1, 5), np.append(1 - p.sum(), p), strict=True):
            shown = Shown(rows, np.ones(5, bool), np.asarray(position))
            mean += chance * contribution(shown, theta, np.diag([1.0, 2.0, 3.0])).score
        np.testing.assert_allclose(mean, 0.0, atol=1e-14)


def test_weight_does_not_look_at_the_choice() -> None:
    """The information, weight included, is the same whatever was chosen."""
    rng = np.random.default_rng(3)
    rows = 10 * rng.normal(size=(4, 2))
    answers = [
        contribution(Shown(rows, np.ones(4, bool), np.asarray(i)), np.ones(2), np.eye(2)).information
        for i in range(-1, 4)
    ]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])


def test_coordinates_change_units_and_nothing_else() -> None:
    """While no bound binds, the pair in coordinates L is (L g, L H L')."""
    rng = np.random.default_rng(4)
    rows, theta, L = 0.05 * rng.normal(size=(3, 2)), rng.normal(size=2), np.array([[1.0, 0.5], [0.0, 2.0]])
    shown = Shown(rows, np.ones(3, bool), np.asarray(1))
    raw, primed = contribution(shown, theta, np.eye(2)), contribution(shown, theta, L)
    np.testing.assert_allclose(primed.score, L @ raw.score, atol=1e-15)
    np.testing.assert_allclose(primed.information, L @ raw.information @ L.T, atol=1e-15)


def test_overflowing_features_contribute_exactly_zero() -> None:
    """Features whose squares overflow give nothing rather than NaN."""
    rows = np.array([[1e200, 0.0], [1.0, 1.0]])
    pair = contribution(Shown(rows, np.ones(2, bool), np.asarray(0)), np.ones(2), np.eye(2))
    assert not pair.score.any()
    assert not pair.information.any()


def test_visitors_who_do_not_count_contribute_zero() -> None:
    """Over-cap visits take their slot and add nothing."""
    rows = np.ones((2, 1, 2))
    shown = Shown(rows, np.ones((2, 1), bool), np.array([0, 0]))
    pair = contribution(shown, np.zeros(2), np.eye(2), np.array([True, False]))
    assert pair.score[0].any()
    assert not pair.score[1].any()
    assert not pair.information[1].any()


def test_empty_offer_contributes_zero() -> None:
    """Nothing shown, nothing learned."""
    pair = contribution(Shown(np.zeros((3, 2)), np.zeros(3, bool), np.asarray(-1)), np.ones(2), np.eye(2))
    assert not pair.score.any()
    assert not pair.information.any()


def test_rounding_is_towards_zero_and_exact() -> None:
    """Rounded values are multiples of the grid, never longer than what they round, and sums stay on the grid."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(1000, 7))
    rounded = on_grid(values, GRID)
    assert (np.abs(rounded) <= np.abs(values)).all()
    assert (np.abs(rounded - values) < GRID).all()
    total = rounded.sum(0) / GRID
    np.testing.assert_array_equal(total, np.rint(total))


def test_sums_equal_the_statistic_they_round() -> None:
    """With and without the grid the totals agree to the grid times the number of visitors."""
    rng = np.random.default_rng(6)
    shown = Shown(rng.normal(size=(40, 3, 2)), np.ones((40, 3), bool), rng.integers(-1, 3, size=40))
    pairs = contribution(shown, np.zeros(2), np.eye(2))
    plain, rounded = summed(pairs), summed(pairs, GRID)
    np.testing.assert_allclose(plain.information, svec(pairs.information.sum(0)))
    np.testing.assert_allclose(rounded.score, plain.score, atol=40 * GRID)
    np.testing.assert_allclose(rounded.information, plain.information, atol=40 * GRID)
    np.testing.assert_array_equal((nothing((), 2) + plain).score, plain.score)


@pytest.mark.parametrize("grid", [0.0, GRID])
def test_a_sum_that_goes_on_does_not_depend_on_where_it_was_cut(grid: float) -> None:
    """Forty visitors at once, or in pieces of 1, 16 and 23: the same sum to the last bit, for one world or many."""
    rng = np.random.default_rng(5)
    for worlds in ((), (1,), (3,)):
        pairs = Pair(rng.normal(size=(40, *worlds, 2)), rng.normal(size=(40, *worlds, 2, 2)))
        start = nothing(worlds, 2)
        whole, cut = summed(pairs, grid, after=start), start
        for part in (slice(0, 1), slice(1, 17), slice(17, 40)):
            cut = summed(Pair(pairs.score[part], pairs.information[part]), grid, after=cut)
        np.testing.assert_array_equal(whole.score, cut.score)
        np.testing.assert_array_equal(whole.information, cut.information)
        np.testing.assert_allclose(whole.score, summed(pairs, grid).score, atol=1e-12)


def test_a_visitor_contributes_the_same_whoever_is_summed_beside() -> None:
    """One of 600 visitors, who are worked on in two parts, has to the last bit the pair it has alone."""
    rng = np.random.default_rng(6)
    rows, offered = rng.normal(size=(600, 9, 3)), rng.random((600, 9)) < 0.8
    crowd = Shown(np.where(offered[..., None], rows, 0.0), offered, np.full(600, -1))
    theta, frame = rng.normal(size=3), rng.normal(size=(3, 3))
    together = contribution(crowd, theta, frame)
    for place in (0, 511, 512, 599):
        alone = contribution(Shown(*(part[place] for part in crowd)), theta, frame)
        np.testing.assert_array_equal(together.score[place], alone.score)
        np.testing.assert_array_equal(together.information[place], alone.information)


def test_rounding_adds_two_grid_steps_a_coordinate() -> None:
    """Each of the two visitors moves by less than a step in each of the d (d + 1) / 2 coordinates of svec."""
    assert information_sensitivity(5, 0.25) == pytest.approx(math.sqrt(2) + 2 * 0.25 * math.sqrt(15), rel=1e-15)


def test_a_utility_that_is_not_finite_contributes_exactly_zero() -> None:
    """Also minus infinity, at which the probabilities are still numbers."""
    shown = Shown(np.array([[1e150, 0.0], [0.5, 0.5]]), np.ones(2, bool), np.asarray(1))
    for theta in (np.array([-1e200, 0.0]), np.array([1e200, 0.0])):
        pair = contribution(shown, theta, 1e-150 * np.eye(2))
        assert not pair.score.any()
        assert not pair.information.any()
