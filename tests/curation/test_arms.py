"""Two arms: who serves whom, what is contributed, and that nothing of a visitor decides it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from quietshelf import Shelf
from quietshelf.curation.coins import Coins
from quietshelf.shelf.testing import shelf_with
from quietshelf.types import Offer

RANKING = [3, 1, 0, 2]


def shelf(**options: Any) -> Shelf:
    """Four items, two shown, a ranking."""
    settings: dict[str, Any] = {"catalogue": np.eye(4), "feature_map": "item", "capacity": 2, "rho": 10.0}
    made = Shelf(**{**settings, "conversion": 0.8, **options})
    made.rank(RANKING)
    return made
