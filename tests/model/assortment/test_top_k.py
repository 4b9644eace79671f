"""The short way to the best sellers gives what the solver gives, or says that it does not know."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.model.assortment import best, top_k

DOUBT = 1e-12
NOISES = (0.0, 1e-15, 1e-3)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5))
def test_top_k_are_those_of_the_solver_where_they_are_clear(seed: int, items: int, values: int) -> None:
    """Few distinct utilities, equal or nearly so: clear are problems without a tie for the last place."""
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(1, items + 1))
    utility = rng.integers(0, values, size=(3, 4, items)) + NOISES[seed % 3] * rng.normal(size=(3, 4, items))
    found, clear = top_k(utility, capacity, largest=1e9, doubt=DOUBT)
    expected = best(utility=utility, revenue=1.0, capacity=capacity).items
    np.testing.assert_array_equal(found[clear], expected[clear])
    ranked = np.sort(utility, axis=-1)[..., ::-1]
    size = np.maximum(np.abs(utility).max(axis=-1), 1.0)
    tied = np.zeros((3, 4), dtype=bool)
    if capacity < items:
        tied = ranked[..., capacity - 1] - ranked[..., capacity] <= DOUBT * size
    np.testing.assert_array_equal(clear, ~tied)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e300])
def test_numbers_out_of_range_are_in_doubt(odd: float) -> None:
    """Their problem alone; the others are answered."""
    utility = np.array([[1.0, 2.0, 3.0], [1.0, odd, 3.0]])
    found, clear = top_k(utility, 2, largest=1e290, doubt=DOUBT)
    assert clear.tolist() == [True, False]
    assert found[0].tolist() == [1, 2]
    assert not top_k(-utility[1:, 1:], 2, largest=1e290, doubt=DOUBT)[1].any()
