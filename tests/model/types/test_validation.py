"""Refusals name the rule, then the value."""

from __future__ import annotations

import re

import numpy as np
import pytest

from quietshelf.model.types import Release, as_float, check_shape, finite, integer, positive, require


def test_require_names_rule_and_values() -> None:
    """The message is the rule, then each keyword with its value."""
    with pytest.raises(ValueError, match=re.escape("a must exceed b, got a=1, b=2")):
        require(False, "a must exceed b", a=1, b=2)
    require(True, "never raised")


@pytest.mark.parametrize("bad", [0, 101, 2.5, True])
def test_whole_refuses_what_is_no_integer_in_range(bad: int) -> None:
    """Capacity is between 1 and the number of items."""
    with pytest.raises(ValueError, match=re.escape(f"capacity must be between 1 and items=100, got capacity={bad}")):
        integer("capacity", bad, high=100, high_name="items")


def test_whole_returns_a_plain_integer() -> None:
    """NumPy integers are welcome."""
    assert type(integer("capacity", np.int64(3), high=5)) is int


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "1", True])
def test_positive_refuses(bad: float) -> None:
    """Budgets are positive and finite."""
    with pytest.raises(ValueError, match="rho must be positive and finite, got rho="):
        positive("rho", bad)


def test_finite_points_at_the_first_bad_entry() -> None:
    """The index of the offending number is part of the message."""
    with pytest.raises(ValueError, match=re.escape("x must be finite, got x[1, 0]=inf")):
        finite("x", [[0.0, 1.0], [np.inf, np.nan]])


def test_shapes_and_kinds_are_checked() -> None:
    """Wrong trailing axes and non-numbers are refused."""
    with pytest.raises(ValueError, match=re.escape("x must have shape (..., any, 3), got shape=(2,)")):
        check_shape("x", np.zeros(2), (None, 3))
    with pytest.raises(ValueError, match="x must be an array of numbers"):
        as_float("x", ["a"])


def test_release_inverts_its_precision_once() -> None:
    """The covariance is the symmetric inverse and is computed a single time."""
    precision = np.array([[2.0, 0.5], [0.5, 1.0]])
    release = Release(np.zeros(2), precision, np.ones(()), np.zeros((), bool), np.zeros((), np.int64))
    np.testing.assert_allclose(release.covariance @ precision, np.eye(2), atol=1e-15)
    assert release.covariance is release.covariance
