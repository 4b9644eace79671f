"""More items than are scored one by one, with nothing made small for the test: R3 where it is served."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.curation.coins import Coins
from quietshelf.curation.decisions import decide
from quietshelf.curation.requests import visitor_context
from quietshelf.curation.settings import ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import Release
from quietshelf.policies import shortlist
from quietshelf.serving.shelf import Shelf

ITEMS = 40_000


def some_stock() -> Stock:
    """Features of which a hundred items share each."""
    rng = np.random.default_rng(0)
    return Stock.of(ITEMS, rng.normal(size=(400, 3))[rng.integers(0, 400, size=ITEMS)], None, None)


def test_a_visitor_is_shown_the_same_alone_and_beside_others() -> None:
    """Ties by the hundred, a neighbour of any size, and neighbours who name candidates or required items."""
    settings = ShelfSettings(rho=1.0, capacity=5, feature_map="full", visitor_dim=2)
    stock, coins, rng = some_stock(), Coins(b"secret"), np.random.default_rng(1)
    dim = feature_map("full").dim(2, 3)
    release = Release(rng.normal(size=dim), np.eye(dim), np.asarray(1.0), np.asarray(False), np.asarray(0))
    features = [[0.5, 0.1], [1e200, 1.0], [0.0, 0.0], [1e-320, 2.0], [3.0, -1.0]]
    contexts = [visitor_context(settings, stock, features=each) for each in features]
    contexts.append(visitor_context(settings, stock, features=[0.5, 0.1], candidates=[7, 9, 30_000], required=[9]))
    assert all(shortlist.suits(each) for each in contexts)
    slots = [(0, place) for place in range(len(contexts))]
    together = decide(["quiet"] * len(contexts), contexts, release, coins.of(slots))
    for place, context in enumerate(contexts):
        (alone,) = decide(["quiet"], [context], release, coins.of([slots[place]]))
        np.testing.assert_array_equal(together[place].items, alone.items)
        np.testing.assert_array_equal(together[place].rows, alone.rows)
    assert together[-1].items.tolist() == [7, 9, 30_000]


def test_visitors_in_the_same_place_see_different_ones_of_tied_items() -> None:
    """Their coins are their own."""
    settings = ShelfSettings(rho=1.0, capacity=5, feature_map="item", visitor_dim=0)
    stock, coins = some_stock(), Coins(b"secret")
    release = Release(np.ones(4), np.eye(4), np.asarray(1.0), np.asarray(False), np.asarray(0))
    contexts = [visitor_context(settings, stock, features=None)] * 8
    found = decide(["quiet"] * 8, contexts, release, coins.of([(0, place) for place in range(8)]))
    assert len({tuple(each.items) for each in found}) == 8
    assert stock.catalogue is not None
    assert len({tuple(row) for each in found for row in stock.catalogue[each.items]}) == 1


@pytest.mark.parametrize("kind", ["features", "available"])
def test_a_changed_item_is_in_the_next_offer(kind: str) -> None:
    """The copy that items are screened by follows the items."""
    shelf = Shelf(
        catalogue=np.zeros((ITEMS, 1)), feature_map="item", capacity=1, rho=1.0, prior=([0.0, 9.0], np.eye(2))
    )
    first = shelf.offer().items[0]
    item = 31_000 if first != 31_000 else 31_001
    shelf.change(item, features=[50.0])
    assert shelf.offer().items == (item,)
    if kind == "available":
        shelf.change(item, available=False)
    else:
        shelf.change(item, features=[-50.0])
        shelf.change(item + 2, features=[50.0])
    assert shelf.offer().items != (item,)
