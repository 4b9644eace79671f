"""R1: whether a request is valid depends on that request and on public state alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from quietshelf.curation.requests import check_person, visitor_context
from quietshelf.curation.settings import ShelfSettings
from quietshelf.curation.stock import Stock

CATALOGUE = np.asfortranarray(np.random.default_rng(0).normal(size=(6, 2)))
SETTINGS = ShelfSettings(rho=1.0, capacity=3, feature_map="full", visitor_dim=2)
STOCK = Stock.of(6, CATALOGUE, None, None)
HERE = [0.1, -0.2]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([0.1], "features must have length 2, got length=1"),
        ([0.1, 0.2, 0.3], "features must have length 2, got length=3"),
        ([], "features must have length 2, got length=0"),
        (None, "features must have length 2, got length=0"),
        ([[0.1, 0.2]], "features must be one visitor's, a list of numbers, got shape=(1, 2)"),
        ([0.1, np.inf], "features must be finite"),
    ],
)
def test_features_must_have_the_declared_length(features: Any, message: str) -> None:
    """The first visitor is checked like every other: nobody's request decides what is asked of the next."""
    for _ in range(2):
        with pytest.raises(ValueError, match=re.escape(message)):
            visitor_context(SETTINGS, STOCK, features=features)
    assert visitor_context(SETTINGS, STOCK, features=HERE).capacity == 3


def test_who_asks_for_nothing_special_shares_the_rules_of_the_shelf() -> None:
    """The same objects for all such visitors, by which they are decided in one step."""
    one, other = (visitor_context(SETTINGS, STOCK, features=each) for each in (HERE, [3.0, 4.0]))
    assert one.revenue is other.revenue
    assert one.available is None
    fewer = STOCK.changed(2, features=None, revenue=None, available=False)
    one, other = (visitor_context(SETTINGS, fewer, features=each) for each in (HERE, [3.0, 4.0]))
    assert one.available is other.available
    assert one.available is not None
    assert one.available.tolist() == [True, True, False, True, True, True]


def test_candidates_and_exclusions_narrow_what_the_shelf_has() -> None:
    """Masks or indices; a retired item stays retired, even if named."""
    gone = STOCK.without(5)
    asked = visitor_context(SETTINGS, gone, features=HERE, candidates=[1, 2, 5], exclude=np.arange(6) == 2)
    assert asked.available is not None
    assert np.flatnonzero(asked.available).tolist() == [1]
    with pytest.raises(ValueError, match="required items must be available"):
        visitor_context(SETTINGS, gone, features=HERE, required=[5])


def test_a_request_leaves_the_public_state_as_it_was() -> None:
    """Neither valid nor invalid ones write anything."""
    before = [np.copy(part) for part in (STOCK.revenue, STOCK.available, STOCK.retired, CATALOGUE)]
    visitor_context(SETTINGS, STOCK, features=HERE, revenue=np.arange(6), required=[1], exclude=[2], capacity=1)
    with pytest.raises(ValueError, match="capacity must be between 1 and the shelf's capacity=3, got capacity=4"):
        visitor_context(SETTINGS, STOCK, features=HERE, capacity=4)
    for old, new in zip(before, (STOCK.revenue, STOCK.available, STOCK.retired, CATALOGUE), strict=True):
        np.testing.assert_array_equal(old, new)


def test_persons_are_texts_and_needed_where_visits_are_counted() -> None:
    """A request without a person is refused by the setting alone, whatever other requests name."""
    several = ShelfSettings(rho=1.0, capacity=3, visits=2, dim=2)
    check_person(SETTINGS, None)
    check_person(several, "anna")
    with pytest.raises(ValueError, match="person must be given where visits of a person are counted"):
        check_person(several, None)
    for wrong in ("", 7, b"anna"):
        with pytest.raises(ValueError, match="person must be a non-empty text"):
            check_person(SETTINGS, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="person must be text that UTF-8 can hold"):
        check_person(SETTINGS, "\ud800")
