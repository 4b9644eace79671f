"""Features that move together are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quietshelf.data.logs.collinear import move_together
from quietshelf.data.logs.searches import EncodedRounds

RNG = np.random.default_rng(0)
PRICE, SIZE = RNG.normal(120, 40, (2, 50, 3))


def said(**columns: Any) -> list[str]:
    """About these features of 50 rounds of 3 items; the last place is empty in half of them."""
    features = np.stack([np.broadcast_to(column, (50, 3)) for column in columns.values()], axis=-1)
    available = np.ones((50, 3), dtype=bool)
    available[::2, 2] = False
    return move_together(
        EncodedRounds(np.where(available[..., None], features, 7.0), np.zeros(50, int), available), list(columns)
    )


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"price": PRICE, "size": SIZE}, []),
        ({"price": PRICE, "price_eur": 0.92 * PRICE}, ["price and price_eur move together: drop one"]),
        ({"price": PRICE, "price_f": 1.8 * PRICE + 32}, ["intercept, price and price_f move together: drop one"]),
        (
            {"price": PRICE, "size": SIZE, "both": PRICE - 2 * SIZE},
            ["price, size and both move together: drop one"],
        ),
        ({"price": PRICE, "year": 2024.0}, ["year is the same everywhere, as the intercept is: drop it"]),
        ({"price": PRICE, "nothing": 0.0}, ["nothing is 0 everywhere: drop it"]),
        ({"price": PRICE, "rounded": PRICE.round(-1)}, []),
        (
            {"a": PRICE, "b": SIZE, "c": 2 * PRICE, "d": 3 * SIZE},
            ["a and c move together: drop one", "b and d move together: drop one"],
        ),
        ({"price": PRICE, "tiny": 1e-9 * SIZE}, []),
    ],
)  # fmt: skip
def test_features_that_move_together_are_named(columns: dict[str, Any], names: list[str]) -> None:
    """Whatever their units; nothing else is."""
    assert said(intercept=1.0, **columns) == names
