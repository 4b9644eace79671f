"""What one visitor adds to a comparison: bounded whatever the numbers, and in one arm alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.noise import GRID
from quietshelf.privacy.statistics import OUTCOME_NUMBERS, OUTCOME_SENSITIVITY, Total, if_chosen, on_grid, outcome

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
WORTH = arrays(np.float64, (3, OUTCOME_NUMBERS), elements=ANY)
REVENUE = arrays(np.float64, 3, elements=ANY)
PLACE = st.integers(-1, 2)


def contributed(revenue: FloatArray, place: int, *, present: bool, most: float) -> FloatArray:
    """What reaches the sum, on the grid."""
    with np.errstate(all="ignore"):
        return on_grid(outcome(if_chosen(revenue, present=present, most=most), np.asarray(place)), GRID)


def test_sums_of_two_parts_have_the_outcomes_of_both() -> None:
    """Nothing of a comparison is lost where parts are added; sums without one have none to add."""
    one, other = (Total(np.full(2, n), np.full(3, n), np.full(4, n)) for n in (1.0, 2.0))
    np.testing.assert_array_equal((one + other).outcomes, np.full(4, 3.0))
    assert (one._replace(outcomes=np.empty(0)) + other._replace(outcomes=np.empty(0))).outcomes.size == 0


@given(REVENUE, REVENUE, PLACE, PLACE, st.booleans(), st.floats(1e-300, 1e300))
def test_replacing_a_visitor_moves_the_sums_by_the_sensitivity_at_most(
    one: FloatArray, other: FloatArray, place: int, elsewhere: int, present: bool, most: float
) -> None:
    """Any revenue, any choice, the same arm: sqrt(2) at most, exactly, after rounding; the other arm does not move."""
    first = contributed(one, place, present=present, most=most)
    second = contributed(other, elsewhere, present=present, most=most)
    moved = first - second
    assert float((moved**2).sum()) <= OUTCOME_SENSITIVITY**2
    assert not moved.reshape(2, 2)[int(not present)].any()


@given(WORTH, PLACE)
def test_whatever_was_stored_is_bounded_again(worth: FloatArray, place: int) -> None:
    """A row that somebody tampered with adds at most 1 in a coordinate."""
    found = outcome(worth, np.asarray(place))
    assert ((found >= 0) & (found <= 1)).all()
    assert place >= 0 or not found.any()


def test_the_bound_is_attained() -> None:
    """Somebody who buys the dearest item, against somebody who buys nothing."""
    dear = np.array([7.0, 0.0, 0.0])
    moved = contributed(dear, 0, present=False, most=7.0) - contributed(dear, -1, present=False, most=7.0)
    assert np.linalg.norm(moved) == pytest.approx(OUTCOME_SENSITIVITY)


def test_revenue_below_nothing_counts_as_nothing() -> None:
    """A choice that loses money is a choice."""
    assert contributed(np.array([-3.0, 1.0, 1.0]), 0, present=True, most=2.0).tolist() == [0.0, 0.0, 1.0, 0.0]
