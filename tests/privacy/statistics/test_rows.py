"""A round is cut down to what was shown and chosen."""

from __future__ import annotations

import numpy as np

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Round
from quietshelf.privacy.statistics import observed_choice


def test_shown_finds_places_and_positions() -> None:
    """Rows follow the assortment, empty places are zero and masked, the choice becomes a position."""
    x = np.arange(12.0).reshape(2, 3, 2)
    context = Context(Dense(x), np.ones((2, 3)), 2)
    seen = observed_choice(Round(context, np.array([[2, 0], [1, -1]]), np.array([0, -1])))
    np.testing.assert_array_equal(seen.rows[0], x[0, [2, 0]])
    np.testing.assert_array_equal(seen.rows[1], [x[1, 1], [0.0, 0.0]])
    assert seen.offered.tolist() == [[True, True], [True, False]]
    assert seen.position.tolist() == [1, -1]


def test_a_choice_that_was_not_shown_is_no_choice() -> None:
    """An invalid answer changes nothing for others: it counts as choosing nothing."""
    context = Context(Dense(np.ones((3, 2))), np.ones(3), 2)
    assert observed_choice(Round(context, np.array([0, 1]), np.asarray(2))).position == -1
    assert observed_choice(Round(context, np.array([0, -1]), np.asarray(-1))).position == -1
