"""The items of a shelf: a value, whose changes leave the one before as it was."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quietshelf.curation.stock import Stock

CATALOGUE = np.asfortranarray(np.random.default_rng(0).normal(size=(4, 2)))


def test_changes_leave_the_stock_before_as_it_was() -> None:
    """Who holds the old one still sees the old items: an offer in the making is not disturbed."""
    stock = Stock.of(4, CATALOGUE, None, None)
    more = stock.with_more([[1.0, 2.0]], 3.0, None)
    other = stock.changed(0, features=[9.0, 9.0], revenue=2.0, available=False)
    fewer = stock.without(1)
    assert (len(stock), len(more)) == (4, 5)
    np.testing.assert_array_equal(stock.catalogue, CATALOGUE)
    np.testing.assert_array_equal(stock.revenue, 1.0)
    assert stock.everything
    assert more.revenue.tolist() == [1.0, 1.0, 1.0, 1.0, 3.0]
    assert other.catalogue is not None
    assert other.catalogue[0].tolist() == [9.0, 9.0]
    assert other.offerable.tolist() == [False, True, True, True]
    assert fewer.offerable.tolist() == [True, False, True, True]


def test_ids_are_found_after_any_changes() -> None:
    """The index goes along with changes and grows with new items; the stock before does not know them."""
    stock = replace(Stock.of(4, CATALOGUE, None, None), ids=("a", "b", "c", "d"))
    assert stock.index("c") == 2
    changed = stock.changed("c", features=[0.0, 1.0], revenue=2.0, available=True)
    assert changed.numbers is stock.numbers
    more = changed.with_more(np.zeros((2, 2)), 1.0, None, ["e", 7])
    assert [more.index(name) for name in ("a", "d", "e", 7)] == [0, 3, 4, 5]
    assert more.numbers == dict(zip(more.ids or (), range(6), strict=True))
    other = changed.with_more(np.zeros((1, 2)), 1.0, None, [7])
    assert other.index(7) == 4
    with pytest.raises(ValueError, match="item must be the id of an item of this shelf, got item='e'"):
        changed.index("e")


def test_equal_revenues_are_one_number() -> None:
    """By which policies know that they are equal."""
    stock = Stock.of(4, CATALOGUE, None, None)
    assert stock.earned.strides == (0,)
    dearer = stock.changed(2, features=None, revenue=5.0, available=None)
    assert dearer.earned.tolist() == [1.0, 1.0, 5.0, 1.0]
    assert dearer.earned.strides != (0,)


def test_groups_of_new_items_are_checked() -> None:
    """None by default; a group that has no limit is refused, as is any group where there are none."""
    grouped = Stock.of(4, CATALOGUE, [0, 0, 1, 1], [1, 1])
    added = grouped.with_more(np.zeros((2, 2)), 1.0, [1, -1])
    assert added.groups is not None
    assert added.groups.tolist() == [0, 0, 1, 1, 1, -1]
    with pytest.raises(ValueError, match="groups"):
        grouped.with_more(np.zeros((1, 2)), 1.0, 2)
    with pytest.raises(ValueError, match="group needs a shelf with groups and limits, got group=1"):
        Stock.of(4, CATALOGUE, None, None).with_more(np.zeros((1, 2)), 1.0, 1)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (4, "item must be from 0 to 3, got item=4"),
        (-1, "item must be from 0 to 3, got item=-1"),
        (True, "item must be from 0 to 3, got item=True"),
        ("0", "item must be from 0 to 3, got item='0'"),
        (1, "item must not be retired, got item=1"),
    ],
)
def test_items_that_are_not_there_are_refused(item: Any, message: str) -> None:
    """An index keeps its item for good, also after it is retired."""
    stock = Stock.of(4, CATALOGUE, None, None).without(1)
    with pytest.raises(ValueError, match=re.escape(message)):
        stock.without(item)


def test_features_belong_to_a_catalogue() -> None:
    """Where offers bring the features there is nothing to add or change."""
    dense = Stock.of(4, None, None, None)
    with pytest.raises(ValueError, match="items can be added only to a catalogue"):
        dense.with_more(np.ones((1, 2)), 1.0, None)
    with pytest.raises(ValueError, match="features can be changed only in a catalogue"):
        dense.changed(0, features=[1.0, 2.0], revenue=None, available=None)
    with pytest.raises(ValueError, match=re.escape("features must have shape (n, 2), got shape=(1, 3)")):
        Stock.of(4, CATALOGUE, None, None).with_more(np.ones((1, 3)), 1.0, None)
