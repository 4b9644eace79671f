"""For tests and audits only: copies of a shelf with injected noise and coins, and access to raw data.

Never use this in a shop: injected noise promises nothing, and a copy used beside the original would release the same
visitors twice.
"""

from __future__ import annotations

import copy

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.shelf.shelf import Shelf
from quietshelf.serving.shelf.state import State


def copied(shelf: Shelf, *, source: NoiseSource | None = None, coins: Coins | None = None) -> Shelf:
    """Copy a shelf for a second, independent run."""
    twin = Shelf.__new__(Shelf)
    twin._start(copy.deepcopy(shelf._state), source, coins)
    return twin


def state_of(shelf: Shelf) -> State:
    """Everything a shelf remembers, including its visitors' raw data."""
    return shelf._state
