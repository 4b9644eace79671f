"""Contributions as they are released: on the grid, positive semidefinite, within the bound, and exact in any order."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.statistics import pair_checks as checks
from tests.privacy.statistics.crowds import part_of, some_crowd
from tests.privacy.statistics.exact_factors import SCORE_GRID, SIZES, exact_distance, grids, integers
from tests.privacy.statistics.pair_checks import public, visitor

from quietshelf.privacy.statistics import (
    SENSITIVITY,
    Factors,
    Grids,
    ObservedChoice,
    contribution,
    factors,
    from_upper,
    row_grid,
    totalled,
)
from quietshelf.privacy.statistics.factors import EXACT

Make = Callable[..., Factors]


@settings(deadline=None, max_examples=300)
@given(
    seed=st.integers(0, 2**32 - 1),
    places=st.integers(1, 6),
    dim=st.integers(1, 5),
    size=SIZES,
    bound=st.sampled_from(checks.BOUNDS),
    visitors=st.sampled_from([1, 30, 10**4, 10**7, 2**40]),
    noise=st.sampled_from([1e-3, 1.0, 1e4, 1e12]),
)
def test_neighbours_differ_by_at_most_the_sensitivity(
    seed: int, places: int, dim: int, size: float, bound: float, visitors: int, noise: float
) -> None:
    """Any two visitors, at any theta, on any grid however coarse: at most sqrt(2), in exact arithmetic."""
    rng = np.random.default_rng(seed)
    (theta, frame), fine = public(rng, dim), grids(bound, visitors, noise)
    one, other = (factors(visitor(rng, places, dim, size), theta, frame, bound, fine) for _ in range(2))
    for each in (one, other):
        assert np.isfinite(each.score).all()
        assert np.isfinite(each.rows).all()
        score, informed = integers(each, fine)
        joint = sum(x * x for x in score) + sum(x * x for row in informed for x in row) / Fraction(bound) ** 2
        assert joint <= 1
    assert exact_distance(one, other, bound, fine) <= 2


@pytest.mark.parametrize("visitors", [30, 10**6, 2**36])
def test_adversaries_come_no_further_apart(visitors: int) -> None:
    """The neighbours that the proof knows, at every bound, also where the grid is coarse."""
    for bound in checks.BOUNDS:
        fine = grids(bound, visitors)
        for one, other in checks.adversaries():
            mine, theirs = (factors(shown, one.theta, one.coordinates, bound, fine) for shown in (one.shown, other))
            assert exact_distance(mine, theirs, bound, fine) <= 2


@pytest.mark.parametrize("bound", [0.05, 1.0, 7.0])
def test_sensitivity_is_attained(bound: float) -> None:
    """By the score, by the information, and by both: sqrt(2) to three digits, rounding and all."""
    fine = grids(bound)
    for one, other in (checks.far_scores(), checks.far_information(), checks.far_in_both(400)):
        mine, theirs = (factors(shown, one.theta, one.coordinates, bound, fine) for shown in (one.shown, other))
        assert math.sqrt(exact_distance(mine, theirs, bound, fine)) == pytest.approx(SENSITIVITY, rel=3e-3)


def faulty(old: str, new: str) -> Make:
    """The shipped `factors` with one piece of its source exchanged for another."""
    found: Make = checks.planted(sys.modules["quietshelf.privacy.statistics.factors"], old, new).factors
    return found


FAULTS = {
    "no room for rounding": ("MARGIN - moved, 0.0", "MARGIN, 0.0"),
    "rows weighted by w": ("factored *= np.sqrt(weight)[:, None, None]", "factored *= weight[:, None, None] ** 0.25"),
    "rows not weighted": ("    factored *= np.sqrt(weight)[:, None, None]\n", ""),
    "score not weighted": ("score *= -weight * shrink", "score *= -shrink"),
    "not finite": ("score[:, unbounded] = factored[unbounded] = 0.0", "pass"),
    "none left out of the length": ("factored @ factored.mT", "factored[:, :-1] @ factored.mT"),
}


def broken_rules(make: Make) -> bool:
    """Whether some visitor breaks the joint bound or gives NaN, on a coarse grid or on a fine one."""
    for bound in checks.BOUNDS:
        for visitors in (30, 2**36, 2**44):
            fine = grids(bound, visitors)
            crowd = [*(one for pair in checks.adversaries() for one in [(pair[0].shown, pair[0].theta)])]
            crowd += [(checks.all_shown(np.array([[1e200, 0.0], [1.0, 1.0]]), 0), np.ones(2))]
            for shown, theta in crowd:
                with np.errstate(all="ignore"):
                    found = make(shown, theta, np.eye(len(theta)), bound, fine)
                    length = float((found.score**2).sum()) + float(((found.rows.T @ found.rows) ** 2).sum()) / bound**2
                if not length <= 1.0:
                    return True
    return False


def test_the_shipped_rules_hold() -> None:
    """Nothing is broken where nothing was planted."""
    assert not broken_rules(factors)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    """Each plausible mistake lets a visitor contribute more than allowed."""
    assert broken_rules(faulty(*FAULTS[fault]))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), visitors=st.integers(1, 40), places=st.integers(1, 12), dim=st.integers(1, 18))
def test_a_visitor_contributes_the_same_alone_and_in_any_group(seed: int, visitors: int, places: int, dim: int) -> None:
    """Alone, in another group, and with more empty places: the same bits."""
    rng = np.random.default_rng(seed)
    crowd = some_crowd(rng, visitors, places, dim)
    theta, frame, bound = rng.normal(size=dim), rng.normal(size=(dim, dim)), 10.0 ** rng.uniform(-3, 3)
    fine = grids(bound)
    together = factors(crowd, theta, frame, bound, fine)
    for who in (*rng.integers(0, visitors, size=4), *(rng.integers(0, visitors, size=size) for size in (1, 7))):
        one, expected = part_of(crowd, who), part_of(together, who)
        found = factors(one, theta, frame, bound, fine)
        assert found.score.tobytes() == expected.score.tobytes()
        assert found.rows.tobytes() == expected.rows.tobytes()
        wider = [(0, 0)] * (one.offered.ndim - 1) + [(0, 3)]
        padded = ObservedChoice(np.pad(one.rows, [*wider, (0, 0)]), np.pad(one.offered, wider), one.position)
        found = factors(padded, theta, frame, bound, fine)
        assert found.score.tobytes() == expected.score.tobytes()
        kept = np.r_[:places, places + 3]
        assert found.rows[..., kept, :].tobytes() == expected.rows.tobytes()


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(1, 40),
    bound=st.sampled_from([1e-6, 0.3, 1.0, 1e6]),
    size=st.sampled_from([300, 10**6, 2**30]),
)
def test_sums_are_exact_in_any_order_and_grouping(seed: int, dim: int, bound: float, size: int) -> None:
    """One product, pieces of any length, backwards, and integers without rounding: the same sum."""
    rng = np.random.default_rng(seed)
    crowd, fine = some_crowd(rng, 300, 7, dim), grids(bound, size)
    found = factors(crowd, rng.normal(size=dim), 2 * rng.normal(size=(dim, dim)), bound, fine)
    whole = totalled(found)
    order = rng.permutation(300)
    cuts = np.sort(rng.integers(0, 300, size=rng.integers(1, 9)))
    pieces = [totalled(part_of(found, part)) for part in np.split(order, cuts)]
    np.testing.assert_array_equal(sum(each.information for each in pieces), whole.information)
    np.testing.assert_array_equal(sum(each.score for each in pieces), whole.score)
    steps = (found.rows / fine.rows).astype(np.int64).reshape(-1, dim).astype(object)
    unit = Fraction(float(fine.rows)) ** 2
    exact = steps.T @ steps
    informed = from_upper(whole.information, dim)
    for i, j in rng.integers(0, dim, size=(5, 2)):
        assert Fraction(float(informed[i, j])) == unit * int(exact[i, j])


@given(bound=st.floats(1e-6, 1e6), noise=st.floats(1e-6, 1e15), visitors=st.integers(1, 2**45))
def test_the_grid_keeps_sums_and_noise_exact(bound: float, noise: float, visitors: int) -> None:
    """All visitors at the bound reach 2^52 of its squares at most, and noise 2^47; half of the grid would not do."""
    q = float(row_grid(bound, noise, visitors))
    assert math.frexp(q)[0] == 0.5
    assert Fraction(bound) * visitors <= Fraction(EXACT) * Fraction(q) ** 2 * (1 + Fraction(1, 2**50))
    assert noise <= 2.0**47 * q**2
    finer = q / 2
    assert bound * visitors > EXACT * finer**2 / 1.01 or noise > 2.0**47 * finer**2 / 1.01


def test_contributions_are_the_bounded_pair_but_for_rounding() -> None:
    """Scores within a step of the pair's, informations within what the rows are rounded by; equal without a grid."""
    rng = np.random.default_rng(1)
    crowd = some_crowd(rng, 200, 6, 4)
    theta, frame = rng.normal(size=4), rng.normal(size=(4, 4))
    pair = contribution(crowd, theta, frame, 0.5)
    for fine, near in ((Grids(0.0, 0.0), 1e-9), (grids(0.5), 1e-4)):
        found = factors(crowd, theta, frame, 0.5, fine)
        np.testing.assert_allclose(found.score, pair.score, atol=near)
        np.testing.assert_allclose(np.swapaxes(found.rows, -1, -2) @ found.rows, pair.information, atol=near)


def test_visitors_who_do_not_count_contribute_zero() -> None:
    """Over-cap visits take their slot and add nothing, and neither do visitors who were shown nothing."""
    shown = ObservedChoice(np.ones((3, 1, 2)), np.array([[True], [True], [False]]), np.array([0, 0, -1]))
    found = factors(shown, np.zeros(2), np.eye(2), 1.0, grids(1.0), np.array([True, False, True]))
    assert found.score[0].any()
    assert not found.score[1:].any()
    assert not found.rows[1:].any()


def test_each_world_has_its_own_bound_and_grid() -> None:
    """Over rounds that come first: the same as one world at a time, and sums as well."""
    rng = np.random.default_rng(8)
    shown = ObservedChoice(
        3 * rng.normal(size=(5, 3, 4, 2)), np.ones((5, 3, 4), bool), rng.integers(-1, 4, size=(5, 3))
    )
    bounds = np.array([0.1, 1.0, 10.0])
    fine = Grids(SCORE_GRID, row_grid(bounds, bounds, 100))
    together = factors(shown, np.zeros(2), np.eye(2), bounds, fine)
    sums = totalled(together)
    for world, bound in enumerate(bounds):
        mine = ObservedChoice(shown.rows[:, world], shown.offered[:, world], shown.position[:, world])
        alone = factors(mine, np.zeros(2), np.eye(2), bound, grids(bound, 100))
        np.testing.assert_array_equal(together.rows[:, world], alone.rows)
        np.testing.assert_array_equal(sums.information[world], totalled(alone).information)
