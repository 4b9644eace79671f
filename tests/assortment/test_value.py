"""What a given assortment earns."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.assortment import best, expected_revenue


def test_expected_revenue_is_that_of_the_multinomial_logit() -> None:
    """``sum r w / (1 + sum w)`` over the shown items, empty places left out."""
    utility, revenue = np.log([1.0, 2.0, 4.0]), np.array([1.0, 10.0, 100.0])
    assert expected_revenue(utility, revenue, np.array([0, 2, -1])) == pytest.approx(401 / 6)
    assert expected_revenue(utility, revenue, np.array([-1, -1])) == 0.0
    assert expected_revenue(utility, 2.0, np.array([1, -1])) == pytest.approx(4 / 3)


def test_expected_revenue_agrees_with_best() -> None:
    """The value of the best assortment is the one `best` reports, in every problem of a batch."""
    rng = np.random.default_rng(1)
    utility, revenue = rng.normal(size=(3, 40, 9)) * 5, rng.uniform(-0.1, 1, (40, 9))
    answer = best(utility=utility, revenue=revenue, capacity=4)
    np.testing.assert_allclose(
        expected_revenue(utility, revenue, answer.items), answer.expected_revenue, rtol=1e-13, atol=1e-15
    )


def test_expected_revenue_does_not_overflow() -> None:
    """Overwhelming utilities share the choice; hopeless ones earn nothing."""
    assert expected_revenue(np.array([1e4, 1e4, 0.0]), np.array([1.0, 3.0, 9.0]), np.array([0, 1, 2])) == 2.0
    assert expected_revenue(np.array([-1e4]), np.array([5.0]), np.array([0])) == 0.0


def test_expected_revenue_is_broadcast() -> None:
    """One assortment against many utilities, and many assortments against one."""
    rng = np.random.default_rng(2)
    utility, items = rng.normal(size=(6, 5)), np.array([1, 3])
    one = [float(expected_revenue(row, 1.0, items)) for row in utility]
    np.testing.assert_array_equal(expected_revenue(utility, 1.0, items), one)
    many = np.array([[0, 1], [2, -1]])
    two = [float(expected_revenue(utility[0], 1.0, row)) for row in many]
    np.testing.assert_array_equal(expected_revenue(utility[0], 1.0, many), two)
