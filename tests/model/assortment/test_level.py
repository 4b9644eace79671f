"""Expected revenue to more digits than a double has."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from quietshelf.model.assortment.level import Level, expected, rise, scores
from quietshelf.model.assortment.weights import from_weight
from quietshelf.model.types import FloatArray

EPS = Fraction(2) ** -52


def exact(level: Level) -> Fraction:
    """The number a level stands for."""
    high, low, shift = (float(part[0]) for part in level)
    return Fraction(high) + Fraction(low) * Fraction(2) ** int(shift)


def some_set(rng: np.random.Generator, power: int) -> tuple[FloatArray, FloatArray]:
    """Four items, one or two of them as heavy as 2^power, (1, 4)."""
    weight = np.ldexp(rng.uniform(0.5, 1, 4), [power, rng.choice([power, 0]), 0, -3])
    return weight[None], rng.uniform(0.5, 1.5, (1, 4))


@pytest.mark.parametrize("power", [0, 10, 33, 40, 60, 300, 1000])
def test_expected_revenue_is_known_to_the_digits_that_scores_need(power: int) -> None:
    """Over 200 sets the error is a few roundings of the mean distance from z, tiny beside a heavy item."""
    rng = np.random.default_rng(power)
    for _ in range(200):
        weight, revenue = some_set(rng, power)
        level = expected(from_weight(weight), revenue, np.arange(4)[None], np.ones((1, 4), dtype=np.bool_))
        pairs = [(Fraction(w), Fraction(r)) for w, r in zip(weight[0], revenue[0], strict=True)]
        total = sum((w for w, _ in pairs), Fraction(1))
        z = sum((w * r for w, r in pairs), Fraction(0)) / total
        distance = sum((w * abs(r - z) for w, r in pairs), abs(z)) / total
        assert abs(exact(level) - z) <= 8 * EPS * distance


@pytest.mark.parametrize("power", [0, 10, 33])
def test_scores_of_ordinary_weights_are_exact_to_rounding(power: int) -> None:
    """Over 200 sets each score is right to a few roundings of the scores in the set."""
    rng = np.random.default_rng(power)
    for _ in range(200):
        weight, revenue = some_set(rng, power)
        weights = from_weight(weight)
        level = expected(weights, revenue, np.arange(4)[None], np.ones((1, 4), dtype=np.bool_))
        found = scores(weights, revenue, level)[0]
        z = exact(level)
        right = [Fraction(w) * (Fraction(r) - z) for w, r in zip(weight[0], revenue[0], strict=True)]
        assert all(abs(Fraction(f) - s) <= 4 * EPS * abs(s) for f, s in zip(found, right, strict=True))


def test_scores_of_far_weights_keep_sign_and_order() -> None:
    """Ranks stand for scores that no double holds: equal ones stay equal, zero stays zero."""
    weights = from_weight(np.array([[np.inf, 1e300, 1e300, 0.0, 1e-300, 1.0]]))
    level = Level(np.array([1.0]), np.array([0.25]), np.array([-2000.0]))
    found = scores(weights, np.array([[0.0, 3.0, 3.0, 5.0, 1.0, 2.0]]), level)[0]
    assert found[1] == found[2] > found[5] > 0 == found[3] > found[4] > found[0]


def test_rise_keeps_the_sign_of_differences_too_small_for_a_double() -> None:
    """2^-5000 more is more; a difference in the leading double decides before that."""
    weights = from_weight(np.array([[np.inf]]))
    one, more = (Level(np.array([1.0]), np.array([low]), np.array([-5000.0])) for low in (0.5, 0.75))
    above = Level(np.array([1.0 + 2.0**-52]), np.array([0.5]), np.array([-9000.0]))
    assert rise(more, one, weights)[0] > 0 > rise(one, more, weights)[0]
    assert rise(one, one, weights)[0] == 0
    assert rise(above, more, weights)[0] == 2.0**-52
