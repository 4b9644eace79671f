"""Neighbours differ by at most the stated sensitivity, the bound is nearly reached, and the score is unbiased."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.privacy.statistics import pair_checks as checks
from tests.privacy.statistics.pair_checks import distance, faulty, in_units, public, visitor

from quietshelf.model.choice.likelihood import gradient, information, shares, utilities
from quietshelf.model.types import NOTHING
from quietshelf.privacy.statistics import (
    SENSITIVITY,
    ObservedChoice,
    contribution,
    expected_pair,
    expected_squares,
    on_grid,
    svec,
)
from quietshelf.privacy.statistics.pair import MARGIN

GRID = 2.0**-20
CHECKS = {
    name: getattr(checks, f"check_{name}")
    for name in ("sensitivity", "joint_bound", "mean_zero", "choice_blind", "derivative")
}


@settings(deadline=None, max_examples=400)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([1e-320, 1e-8, 1.0, 1e6, 1e150, 1e154, 1e300]),
    st.sampled_from(checks.BOUNDS),
)
def test_neighbours_differ_by_at_most_the_sensitivity(
    seed: int, places: int, dim: int, size: float, bound: float
) -> None:
    """Any visitor against any other, at any theta, in any coordinates; rounded in `test_factors`."""
    rng = np.random.default_rng(seed)
    theta, coordinates = public(rng, dim)
    one, other = (contribution(visitor(rng, places, dim, size), theta, coordinates, bound) for _ in range(2))
    for pair in (one, other):
        assert np.isfinite(pair.score).all()
        assert np.isfinite(pair.information).all()
        np.testing.assert_array_equal(pair.information, pair.information.T)
        assert np.linalg.norm(pair.score) ** 2 + (np.linalg.norm(pair.information) / bound) ** 2 <= 1.0
    assert np.linalg.norm(in_units(one, bound) - in_units(other, bound)) <= SENSITIVITY


@pytest.mark.parametrize("name", CHECKS)
def test_what_the_proof_says_holds(name: str) -> None:
    """Sensitivity, joint bound, mean zero, a weight that does not look at the choice, and J as a derivative."""
    CHECKS[name](contribution)


BOUNDED = ["sensitivity", "joint_bound"]
FAULTS = {
    "weight of the choice that was made": (
        "score *= -scale",
        "score *= -scale / np.sqrt(1e-9 + (score * score).sum(axis=0))",
        ["mean_zero"],
    ),
    "none forgotten in the weight": (").max(axis=0) + size", ")[:-1].max(axis=0) + size", ["joint_bound"]),
    "no correction of the rest": ("everyone].T - around.rest", "everyone].T", ["mean_zero"]),
    "information not centred": ("information = _outer(away)", "information = _outer(away - away[-1:])", ["derivative"]),
    "bound ignored": ("large / (bound * bound)", "large", BOUNDED),
    "score not in the weight": ("shrink * shrink * reach + large", "large", BOUNDED),
    "information not weighted": ("    information *= weight\n", "", BOUNDED),
    "score not clipped": ("around.cut[position, everyone] * around.away", "around.away", [*BOUNDED, "mean_zero"]),
    "no weight at all": ("np.minimum(1.0, most / np.sqrt(np.maximum(joint, 1e-300)))", "np.ones_like(joint)", BOUNDED),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    """Each plausible mistake in the code breaks something the proof says, and a check fails."""
    old, new, caught = FAULTS[fault]
    broken = faulty(old, new)
    for name in caught:
        with pytest.raises(AssertionError):
            CHECKS[name](broken)


@pytest.mark.parametrize("bound", [0.05, 1.0, 7.0])
def test_sensitivity_is_attained(bound: float) -> None:
    """By the score alone, by the information alone, and by both at once: sqrt(2) to three digits."""
    for one, other in (checks.far_scores(), checks.far_information(), checks.far_in_both()):
        assert distance(contribution, one, other, bound) == pytest.approx(math.sqrt(2.0), rel=1e-3)


def test_attained_cases_are_what_they_are_called() -> None:
    """Scores 2 C apart without information; informations sqrt(2) B apart without scores; and half of each."""
    one, other = checks.far_scores()
    pairs = [contribution(shown, one.theta, one.coordinates, 0.5) for shown in (one.shown, other)]
    assert np.linalg.norm(pairs[0].score - pairs[1].score) == pytest.approx(2.0, rel=1e-6)
    assert max(np.abs(pair.information).max() for pair in pairs) < 1e-15
    one, other = checks.far_information()
    pairs = [contribution(shown, one.theta, one.coordinates, 0.5) for shown in (one.shown, other)]
    assert np.linalg.norm(pairs[0].information - pairs[1].information) == pytest.approx(0.5 * math.sqrt(2), rel=1e-6)
    assert max(np.abs(pair.score).max() for pair in pairs) < 1e-8
    one, other = checks.far_in_both()
    pairs = [contribution(shown, one.theta, one.coordinates, 1.0) for shown in (one.shown, other)]
    assert np.linalg.norm(pairs[0].score - pairs[1].score) ** 2 / 2 == pytest.approx(1.0, rel=1e-2)
    assert np.linalg.norm(pairs[0].information - pairs[1].information) ** 2 == pytest.approx(1.0, rel=1e-2)


@pytest.mark.parametrize(("bound", "theta"), [(1.0, [0.0, 0.0]), (0.2, [1.0, -2.0]), (5.0, [1.0, -2.0])])
def test_adversarial_search_comes_close_and_never_passes(bound: float, theta: list[float]) -> None:
    """A numerical search for the worst pair of visitors reaches 95 % of the sensitivity, and no more than all of it."""
    rng = np.random.default_rng(0)
    coordinates = np.array([[1.0, 0.3], [0.0, 2.0]])
    best = 0.0
    for _ in range(12):
        choices = rng.integers(-1, 2, size=2)

        def closeness(flat: np.ndarray, choices: np.ndarray = choices) -> float:
            shown = ObservedChoice(flat.reshape(2, 2, 2), np.ones((2, 2), bool), choices)
            values = in_units(contribution(shown, np.array(theta), coordinates, bound), bound)
            return -float(np.linalg.norm(values[0] - values[1]))

        found = minimize(closeness, 3 * rng.normal(size=8), method="Powell", options={"maxiter": 200})
        best = max(best, -found.fun)
    assert 0.95 * math.sqrt(2) < best <= math.sqrt(2)


def test_information_is_the_derivative_where_the_centre_is_solved_for() -> None:
    """After 300 steps nothing is left of r, and the two agree to six digits, clipped or not."""
    checks.check_derivative(faulty("STEPS = 3\n", "STEPS = 300\n"), tolerance=1e-6)


def test_short_features_give_the_plain_score_and_information() -> None:
    """Where nothing is clipped (C as good as infinite): the score and the information of the logit model, times w."""
    rng = np.random.default_rng(7)
    rows, theta = 0.05 * rng.normal(size=(4, 2)), rng.normal(size=2)
    plain, curvature = -gradient(rows, np.asarray(2), theta), information(rows, theta)
    pair = contribution(checks.all_shown(rows, 2), theta, np.eye(2), 1.0)
    np.testing.assert_allclose(pair.score, plain, atol=1e-15)
    np.testing.assert_allclose(pair.information, curvature, atol=1e-15)
    reach = max(np.linalg.norm(gradient(rows, np.asarray(j), theta)) for j in range(-1, 4))
    bound = 1e-4
    weight = 1 / math.hypot(reach, np.linalg.norm(curvature) / bound)
    assert weight < 0.5
    pair = contribution(checks.all_shown(rows, 2), theta, np.eye(2), bound)
    np.testing.assert_allclose(pair.score, weight * plain, rtol=1e-9)
    np.testing.assert_allclose(pair.information, weight * curvature, rtol=1e-9)


def test_rounding_stays_within_what_the_margin_is_for() -> None:
    """The joint bound of what was computed, in extended precision: above (1 - 1e-11)² by (8 d + 35) 2^-53 at most."""
    rng, margin = np.random.default_rng(9), np.longdouble(MARGIN) ** 2
    for places, dim, size, bound in product((1, 10, 200), (1, 5, 40), (1e-3, 1.0, 1e8, 1e152), (1e-6, 1.0, 1e6)):
        rows = size * rng.normal(size=(20, places, dim)) + (rng.random((20, 1, 1)) < 0.3) * size * 1e6
        shown = ObservedChoice(rows, np.ones((20, places), bool), rng.integers(-1, places, size=20))
        found = contribution(shown, rng.normal(size=dim) / size, np.eye(dim), bound)
        score, informed = (part.astype(np.longdouble) for part in (found.score, svec(found.information)))
        joint = (score**2).sum(-1) + (informed**2).sum(-1) / np.longdouble(bound) ** 2
        assert float((joint - margin).max()) <= (8 * dim + 35) * 2.0**-53


@pytest.mark.parametrize("visitors", [1, 2, 3, 255, 256, 257])
def test_many_dimensions_are_processed_in_steps(visitors: int) -> None:
    """The size of a step depends on K and d alone, and changes no bit."""
    rng = np.random.default_rng(10)
    rows, theta = rng.normal(size=(300, 10, 20)), 0.1 * rng.normal(size=20)
    everybody = ObservedChoice(rows, np.ones((300, 10), bool), rng.integers(-1, 10, size=300))
    some = ObservedChoice(rows[:visitors], everybody.offered[:visitors], everybody.position[:visitors])
    whole, part = (contribution(seen, theta, np.eye(20), 0.5) for seen in (everybody, some))
    assert whole.score[:visitors].tobytes() == part.score.tobytes()
    assert whole.information[:visitors].tobytes() == part.information.tobytes()


def test_one_far_alternative_is_cut_and_the_others_keep_their_weight() -> None:
    """An item a million away that nobody would take leaves the score of the others as it was, but for rounding."""
    rows, theta = np.array([[0.3, 0.0], [0.0, 0.4], [-1e6, 0.0]]), np.array([1e-4, 0.0])
    near, far = (contribution(checks.all_shown(rows[:k], 0), theta, np.eye(2), 1e6).score for k in (2, 3))
    assert np.linalg.norm(far) > 0.2 * np.linalg.norm(near)


def test_coordinates_change_units_and_nothing_else() -> None:
    """While no bound binds, the pair in coordinates L is (L g, L H L')."""
    rng = np.random.default_rng(4)
    rows, theta, L = 0.05 * rng.normal(size=(3, 2)), rng.normal(size=2), np.array([[1.0, 0.5], [0.0, 2.0]])
    shown = ObservedChoice(rows, np.ones(3, bool), np.asarray(1))
    raw, primed = contribution(shown, theta, np.eye(2), 1.0), contribution(shown, theta, L, 1.0)
    np.testing.assert_allclose(primed.score, L @ raw.score, atol=1e-15)
    np.testing.assert_allclose(primed.information, L @ raw.information @ L.T, atol=1e-15)


def test_overflowing_features_contribute_exactly_zero() -> None:
    """Features whose squares overflow give nothing rather than NaN."""
    rows = np.array([[1e200, 0.0], [1.0, 1.0]])
    pair = contribution(ObservedChoice(rows, np.ones(2, bool), np.asarray(0)), np.ones(2), np.eye(2), 1.0)
    assert not pair.score.any()
    assert not pair.information.any()


@pytest.mark.parametrize("bound", [0.0, -1.0, 1e-7, 1e7, math.nan, math.inf])
def test_a_bound_beyond_the_proof_is_refused(bound: float) -> None:
    """Also one of several."""
    shown = ObservedChoice(np.ones((2, 1, 2)), np.ones((2, 1), bool), np.array([0, 0]))
    for given_bound in (bound, np.array([1.0, bound])):
        with pytest.raises(ValueError, match="bound must be between 1e-06 and 1e"):
            contribution(shown, np.zeros(2), np.eye(2), given_bound)


def test_each_world_has_its_own_bound() -> None:
    """A bound of each world, over rounds that come first: the same as one world at a time."""
    rng = np.random.default_rng(8)
    shown = ObservedChoice(
        3 * rng.normal(size=(5, 3, 4, 2)), np.ones((5, 3, 4), bool), rng.integers(-1, 4, size=(5, 3))
    )
    bounds = np.array([0.1, 1.0, 10.0])
    together = contribution(shown, np.zeros(2), np.eye(2), bounds)
    for world, bound in enumerate(bounds):
        mine = ObservedChoice(shown.rows[:, world], shown.offered[:, world], shown.position[:, world])
        alone = contribution(mine, np.zeros(2), np.eye(2), bound)
        np.testing.assert_array_equal(together.score[:, world], alone.score)
        np.testing.assert_array_equal(together.information[:, world], alone.information)


def test_visitors_who_do_not_count_contribute_zero() -> None:
    """Over-cap visits take their slot and add nothing."""
    rows = np.ones((2, 1, 2))
    shown = ObservedChoice(rows, np.ones((2, 1), bool), np.array([0, 0]))
    pair = contribution(shown, np.zeros(2), np.eye(2), 1.0, np.array([True, False]))
    assert pair.score[0].any()
    assert not pair.score[1].any()
    assert not pair.information[1].any()


def test_any_negative_place_is_no_choice() -> None:
    """-1 means no choice, and so does any other negative number."""
    rows = np.random.default_rng(13).normal(size=(3, 2))
    none, erased = (contribution(checks.all_shown(rows, place), np.ones(2), np.eye(2), 1.0) for place in (-1, -3))
    np.testing.assert_array_equal(none.score, erased.score)


def test_empty_offer_contributes_zero() -> None:
    """Nothing shown, nothing learned."""
    pair = contribution(ObservedChoice(np.zeros((3, 2)), np.zeros(3, bool), np.asarray(-1)), np.ones(2), np.eye(2), 1.0)
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


def test_a_visitor_contributes_the_same_in_any_group() -> None:
    """One of 600 visitors, processed in two parts, has to the last bit the same pair as alone."""
    rng = np.random.default_rng(6)
    rows, offered = rng.normal(size=(600, 9, 3)), rng.random((600, 9)) < 0.8
    crowd = ObservedChoice(np.where(offered[..., None], rows, 0.0), offered, np.full(600, -1))
    theta, frame = rng.normal(size=3), rng.normal(size=(3, 3))
    together = contribution(crowd, theta, frame, 0.3)
    for place in (0, 511, 512, 599):
        alone = contribution(ObservedChoice(*(part[place] for part in crowd)), theta, frame, 0.3)
        np.testing.assert_array_equal(together.score[place], alone.score)
        np.testing.assert_array_equal(together.information[place], alone.information)


def test_a_utility_that_is_not_finite_contributes_exactly_zero() -> None:
    """Also minus infinity, at which the probabilities are still numbers."""
    shown = ObservedChoice(np.array([[1e150, 0.0], [0.5, 0.5]]), np.ones(2, bool), np.asarray(1))
    for theta in (np.array([-1e200, 0.0]), np.array([1e200, 0.0])):
        pair = contribution(shown, theta, 1e-150 * np.eye(2), 1.0)
        assert not pair.score.any()
        assert not pair.information.any()


def test_expected_squares_are_those_of_every_choice_in_turn() -> None:
    """With empty places, and for a visitor whose features overflow, who is expected to contribute nothing."""
    rng = np.random.default_rng(5)
    rows, offered = rng.normal(size=(3, 7, 4, 2)) * 3.0, rng.random((3, 7, 4)) < 0.7
    rows[2, 6, 0], offered[2, 6, 0] = 1e308, True
    theta, coordinates, bound = rng.normal(size=(3, 1, 2)), np.diag([0.5, 2.0]), np.array([[0.1], [1.0], [2.0]])
    nobody = np.full((3, 7), NOTHING)
    with np.errstate(all="ignore"):
        square, trace = expected_squares(ObservedChoice(rows, offered, nobody), theta, coordinates, bound)
        share = shares(utilities(rows, theta), offered)
        found = np.zeros((3, 7))
        for place, chance in enumerate([share.none, *np.moveaxis(share.items, -1, 0)], start=-1):
            pair = contribution(ObservedChoice(rows, offered, np.full((3, 7), place)), theta, coordinates, bound)
            found += np.nan_to_num(chance) * (pair.score**2).sum(-1)
    np.testing.assert_allclose(square, found, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(trace, np.trace(pair.information, axis1=-2, axis2=-1), rtol=1e-9, atol=1e-12)
    assert square[2, 6] == trace[2, 6] == 0.0
    assert (square > 0).sum() >= 18


def test_an_expected_pair_is_that_of_the_visitors_one_by_one() -> None:
    """Up to rounding, with empty places, and for a visitor whose features overflow, who adds nothing."""
    rng = np.random.default_rng(6)
    rows, offered = rng.normal(size=(3, 7, 4, 9)) * 2.0, rng.random((3, 7, 4)) < 0.7
    rows[2, 6, 0], offered[2, 6, 0] = 1e308, True
    theta, coordinates = rng.normal(size=(3, 1, 9)), rng.normal(size=(3, 1, 9, 9))
    shown = ObservedChoice(rows, offered, np.full((3, 7), NOTHING))
    for bound in (np.array([[0.1], [1.0], [2.0]]), np.full((3, 1), 1e6)):
        with np.errstate(all="ignore"):
            found = expected_pair(shown, theta, coordinates, bound)
            information = contribution(shown, theta, coordinates, bound).information
            square, trace = expected_squares(shown, theta, coordinates, bound)
        np.testing.assert_allclose(found.information, information.mean(axis=1), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.size, np.linalg.norm(information, axis=(-2, -1)), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.square, square, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.trace, trace, rtol=1e-9, atol=1e-12)
        assert found.size[2, 6] == 0.0
