"""For tests and audits: a shelf in a world of its own, with injected noise and coins, and a look at what is raw.

Nothing here is for a shop: noise that is injected promises nothing, and a copy of a shelf that goes on beside the
original would release the same visitors twice.
"""

from __future__ import annotations

import copy

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.shelf.shelf import Shelf
from quietshelf.serving.shelf.state import State


def copied(shelf: Shelf, *, source: NoiseSource | None = None, coins: Coins | None = None) -> Shelf:
    """The same shelf in another world: a second run, not a second release in one."""
    twin = Shelf.__new__(Shelf)
    twin._start(copy.deepcopy(shelf._state), source, coins)
    return twin


def state_of(shelf: Shelf) -> State:
    """Everything a shelf remembers, raw data of its visitors included."""
    return shelf._state
