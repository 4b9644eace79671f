"""Contributions that came from elsewhere: whatever is sent, what enters a sum has the sensitivity that was proven."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.statistics import pair_checks as checks
from tests.privacy.statistics.exact_factors import SIZES, exact_distance, grids, integers
from tests.privacy.statistics.pair_checks import public, visitor

from quietshelf.privacy.statistics import Factors, Grids, broken_rule, factors, received, totalled

Rule = Callable[[Factors, float, Grids], str | None]
WILD = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 2.0**53, 1e16, -0.0, 0.0)
NEAR = (-2, -1, 0, 1, 2)


def joint(found: Factors, bound: float, fine: Grids) -> Fraction:
    """``|score|² + |A'A|²/B²`` without rounding."""
    score, information = integers(found, fine)
    informed = sum(x * x for row in information for x in row)
    return Fraction(sum(x * x for x in score)) + Fraction(informed) / Fraction(bound) ** 2


def boundary(direction: Factors, bound: float, fine: Grids, off: int) -> Factors:
    """A contribution along that direction, as long as may be, then ``off`` steps of the grid longer in one place."""
    low, high = Fraction(0), Fraction(4) * Fraction(max(bound, 1.0))
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if joint(scaled(direction, middle, fine), bound, fine) <= 1 else (low, middle)
    return stretched(scaled(direction, low, fine), fine, off)


def stretched(given: Factors, fine: Grids, off: int) -> Factors:
    """That many steps of the grid longer, in its largest place."""
    rows, longest = given.rows.copy(), int(np.argmax(np.abs(given.rows)))
    rows.flat[longest] += off * math.copysign(float(fine.rows), rows.flat[longest])
    return Factors(given.score, rows)


def scaled(direction: Factors, factor: Fraction, fine: Grids) -> Factors:
    score, rows = (np.asarray(part) * float(factor) for part in direction)
    return Factors(np.trunc(score / fine.score) * fine.score, np.trunc(rows / fine.rows) * fine.rows)


@st.composite
def contributions(draw: st.DrawFn, fine: Grids, bound: float) -> Factors:
    """What a liar may send: wild numbers, numbers off the grid, and such as miss the bound by a hair."""
    dim, many = draw(st.integers(1, 4)), draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    direction = Factors(rng.normal(size=dim) * draw(st.sampled_from([0.0, 1.0])), rng.normal(size=(many, dim)))
    if many == 0:
        found = scaled(direction, Fraction(1, 10), fine)
    else:
        found = boundary(direction, bound, fine, draw(st.sampled_from(NEAR)))
    parts = [found.score] + ([found.rows] if many else [])
    for _ in range(draw(st.integers(0, 2))):
        part = parts[draw(st.integers(0, len(parts) - 1))]
        lie = draw(st.one_of(st.sampled_from(WILD), st.floats(), st.sampled_from([0.3, -0.7])))
        part.flat[draw(st.integers(0, part.size - 1))] = lie
    return found


def check_lies(rule: Rule, one: Factors, other: Factors, bound: float, fine: Grids) -> None:
    """Refused, or within the bounds in exact arithmetic; and two that are not refused are close enough."""
    taken = [each for each in (one, other) if rule(each, bound, fine) is None]
    for each in taken:
        assert np.isfinite(each.score).all()
        assert np.isfinite(each.rows).all()
        assert all((x / Fraction(fine.score)).denominator == 1 for x in map(Fraction, each.score.tolist()))
        if len(each.rows):
            assert joint(each, bound, fine) <= 1
    if len(taken) == 2 and one.rows.shape == other.rows.shape and len(one.rows):
        assert exact_distance(one, other, bound, fine) <= 2


@settings(deadline=None, max_examples=100)
@given(data=st.data(), bound=st.sampled_from(checks.BOUNDS), visitors=st.sampled_from([1, 1000, 2**30]))
def test_lies_are_refused_or_within_the_sensitivity(data: Any, bound: float, visitors: int) -> None:
    """NaN, 1e308, denormals, off the grid, a hair too long: what is taken satisfies all that the proof uses."""
    fine = grids(bound, visitors)
    check_lies(broken_rule, data.draw(contributions(fine, bound)), data.draw(contributions(fine, bound)), bound, fine)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), bound=st.sampled_from(checks.BOUNDS), visitors=st.sampled_from([1, 2**40]))
def test_the_rule_is_exact_to_one_step_of_the_grid(seed: int, bound: float, visitors: int) -> None:
    """It says what exact arithmetic says, of contributions that are as long as may be and a step shorter or longer."""
    rng, fine = np.random.default_rng(seed), grids(bound, visitors)
    direction = Factors(rng.normal(size=3) * rng.choice([0.0, 1e-3, 1.0]), rng.normal(size=(rng.integers(1, 6), 3)))
    limit = boundary(direction, bound, fine, 0)
    for off in NEAR:
        found = stretched(limit, fine, off)
        assert (broken_rule(found, bound, fine) is None) == (joint(found, bound, fine) <= 1)


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    places=st.integers(1, 6),
    dim=st.integers(1, 5),
    size=SIZES,
    bound=st.sampled_from(checks.BOUNDS),
    visitors=st.sampled_from([1, 30, 10**7, 2**40]),
    noise=st.sampled_from([1e-3, 1.0, 1e12]),
)
def test_what_is_computed_here_is_never_refused(
    seed: int, places: int, dim: int, size: float, bound: float, visitors: int, noise: float
) -> None:
    """An honest device passes, whatever its visitor's features are: one rule, for both sides."""
    rng = np.random.default_rng(seed)
    (theta, frame), fine = public(rng, dim), grids(bound, visitors, noise)
    found = factors(visitor(rng, places, dim, size), theta, frame, bound, fine)
    assert broken_rule(found, bound, fine) is None


@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e6])
def test_sums_of_what_is_taken_are_exact(bound: float) -> None:
    """A batch of contributions that all are as long as may be, some with many rows, adds up without rounding."""
    visitors, dim, rng = 16, 3, np.random.default_rng(5)
    fine = grids(bound, visitors)
    parts = [
        boundary(Factors(rng.normal(size=dim), rng.normal(size=(9, dim))), bound, fine, 0) for _ in range(visitors)
    ]
    assert all(broken_rule(each, bound, fine) is None for each in parts)
    found = totalled(Factors(np.stack([each.score for each in parts]), np.stack([each.rows for each in parts])))
    exact = [integers(each, fine)[1] for each in parts]
    wanted = [sum(each[i][j] for each in exact) for i in range(dim) for j in range(i, dim)]
    assert [Fraction(x) for x in found.information.tolist()] == wanted


def test_numbers_that_are_multiples_only_after_rounding_are_off_the_grid() -> None:
    """Where the grid is coarse a denormal number divides to zero, and is no multiple for that."""
    fine = Grids(2.0**-20, 4.0)
    given = Factors(np.zeros(1), np.array([[5e-324]]))
    assert broken_rule(given, 1e6, fine) == received.OFF_GRID
    assert broken_rule(Factors(np.zeros(1), np.array([[-0.0]])), 1e6, fine) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fine) <= 1 else TOO_LONG", "fine) <= 2 else TOO_LONG"),
        ("return None if small and _length(score, rows, bound, grids.score, fine) <= 1 else TOO_LONG", "return None"),
        ("        return OFF_GRID\n    square", "        pass\n    square"),
        ("(Fraction(fine) ** 2 / Fraction(bound)) ** 2", "(Fraction(fine) ** 2 / Fraction(bound)) ** 4"),
    ],
)
def test_a_weaker_rule_lets_a_lie_through(old: str, new: str) -> None:
    """Each part of the rule is needed: without it some contribution of this file breaks the sensitivity."""
    weaker = _faulty(old, new)
    with pytest.raises(AssertionError):
        check_all(weaker)
    check_all(broken_rule)


def check_all(rule: Rule) -> None:
    """What is taken of the lies below is within bounds."""
    for each, bound in _lies():
        check_lies(rule, each, Factors(-each.score, each.rows), bound, grids(bound))


def _lies() -> Sequence[tuple[Factors, float]]:
    rng = np.random.default_rng(2)
    direction = Factors(rng.normal(size=2), rng.normal(size=(3, 2)))
    wild = Factors(np.array([math.nan, 0.0]), np.zeros((1, 2)))
    off = Factors(np.array([0.3, 0.0]), np.zeros((1, 2)))
    hair = [(boundary(direction, bound, grids(bound), 2), bound) for bound in (0.5, 7.0)]
    long = [(scaled(direction, Fraction(5), grids(bound)), bound) for bound in (0.5, 7.0)]
    square = Factors(np.zeros(2), np.eye(2))  # no row is too long, but both together are
    return [*hair, *long, (wild, 1.0), (off, 1.0), (square, 1.0)]


def _faulty(old: str, new: str) -> Rule:
    found: Rule = checks.planted(received, old, new).broken_rule
    return found
