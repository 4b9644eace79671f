"""What a shop may declare: products that are all alike are served, absurd numbers refused before the first visitor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quietshelf import Shelf
from quietshelf.serving.shelf.testing import state_of

ONE: dict[str, Any] = {"capacity": 1, "rho": 1.0}


@pytest.mark.parametrize("conversion", [None, 0.03])
@pytest.mark.parametrize(("items", "spread"), [(1, 0.0), (20, 0.0), (20, 1e-7), (2, 1e-7)])
def test_products_that_are_all_alike_do_not_stop_a_shelf(items: int, spread: float, conversion: float | None) -> None:
    """Rounding is not variance: every offer is made, and estimates stay finite, over some ten releases."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        catalogue = rng.uniform(-1, 1, 4) + spread * rng.normal(size=(items, 4))
        shelf = Shelf(catalogue=catalogue, feature_map="item", conversion=conversion, max_batch=8, **ONE)
        for visitor in range(80):
            offer = shelf.offer()
            shelf.choose(offer.id, offer.items[0] if visitor % 3 == 0 else None)
        assert np.isfinite(shelf.estimate().theta).all()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"curvature": 1e-320 * np.eye(3)}, "curvature must be positive semidefinite"),
        ({"curvature": -np.eye(3)}, "curvature must be positive semidefinite"),
        ({"prior": (np.zeros(3), 1e-320 * np.eye(3))}, "prior must be of usual size"),
        ({"prior": (np.full(3, 1e300), np.eye(3))}, "prior must be of usual size"),
        ({"rho": 1e-19}, "rho of one release, rho / visits, must be at least 1e-12"),
        ({"conversion": "3%"}, "conversion must be a share of visitors, above 0 and below 1"),
    ],
)
def test_absurd_declarations_are_refused_before_the_first_visitor(declared: dict[str, Any], message: str) -> None:
    """They would end in estimates that are no numbers, or in a release that cannot be drawn."""
    with pytest.raises(ValueError, match=message):
        Shelf(items=5, dim=3, **{**ONE, **declared})


def test_a_number_too_large_for_a_float_is_refused_by_name() -> None:
    """As every other request that is not valid; the shelf stays as it was."""
    shelf = Shelf(items=3, dim=2, **ONE)
    with pytest.raises(ValueError, match="features must be an array of numbers"):
        shelf.offer([[10**400, 1]] * 3)
    assert shelf.arrivals == 0


def test_a_catalogue_is_copied() -> None:
    """Whoever changes theirs later does not change the shelf's past the check."""
    mine = np.asfortranarray(np.eye(3))
    shelf = Shelf(catalogue=mine, feature_map="item", **ONE)
    mine[:] = np.nan
    np.testing.assert_array_equal(state_of(shelf).stock.catalogue, np.eye(3))
