"""R3: every slot has its own coins: a counter-based generator keyed by a secret and the number of the slot.

What a visitor draws (for ties or random offers) therefore does not depend on other visitors, on how many are decided
together, or on their draws (docs/proofs.md, section 6). Noise never comes from here, but from `release.noise`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import local

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray

WORTH_DRAWING_ALL = 1000
"""Drawing this many numbers in a row is faster than drawing one from the middle."""

_LOCAL = local()
"""One generator per thread, reset for each slot: making one takes longer than deciding an offer."""
_HALF = 2**64 - 1


@dataclass(frozen=True)
class Coins:
    """The coins of one shelf; ``key`` is secret."""

    key: bytes = field(repr=False)

    @classmethod
    def derived(cls, secret: bytes) -> Coins:
        """Derive coins from a secret that is also used elsewhere; neither reveals the other."""
        return cls(hashlib.blake2b(b"quietshelf coins", key=secret[:64], digest_size=32).digest())

    def of(self, slots: Sequence[tuple[int, int]]) -> SlotCoins:
        """R3: the coins of slots given as (batch number, slot number), in that order."""
        names = [b"%d.%d" % slot for slot in slots]
        return SlotCoins([hashlib.blake2b(name, key=self.key, digest_size=16).digest() for name in names])


class SlotCoins:
    """Draws with visitors along the first axis, each row from the visitor's own generator."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys

    def only(self, places: Sequence[int]) -> SlotCoins:
        """The coins of some of these visitors."""
        return SlotCoins([self._keys[place] for place in places])

    @property
    def alone(self) -> OwnCoins:
        """The coins of the only visitor, without a visitor axis."""
        (key,) = self._keys
        return OwnCoins(key)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def seeds(self) -> list[str]:
        """The seed of each visitor's generator, in hex; a device that gets its seed tosses the same coins."""
        return [key.hex() for key in self._keys]

    @classmethod
    def seeded(cls, seeds: Sequence[str]) -> SlotCoins:
        """The inverse of `seeds`."""
        return cls([bytes.fromhex(seed) for seed in seeds])

    def arms(self) -> list[float]:
        """One number per visitor, uniform on [0, 1) and independent of all other draws; it selects the arm."""
        found = (hashlib.blake2b(b"arm", key=key, digest_size=7).digest() for key in self._keys)
        return [(int.from_bytes(each, "little") >> 3) * 2.0**-53 for each in found]

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""
        found = np.empty(size)
        for row, key in zip(found, self._keys, strict=True):
            _generator(key).random(out=row)
        return found

    def random_where(self, needed: BoolArray, size: tuple[int, ...]) -> FloatArray:
        """`random` for the visitors in ``needed``, (visitors,), zero for the others: most decisions need no coin."""
        found = np.zeros(size)
        if needed.any():
            places = np.flatnonzero(needed)
            found[places] = self.only(places.tolist()).random((places.size, *size[1:]))
        return found

    def random_at(self, visitor: int, items: IntArray, count: int) -> FloatArray:
        """What ``random`` draws for some items (n,) of one visitor's ``count``."""
        return _random_at(self._keys[visitor], items, count)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""
        found = np.empty(size)
        for row, key in zip(found, self._keys, strict=True):
            _generator(key).standard_normal(out=row)
        return found


class OwnCoins:
    """The draws of a single visitor, without a visitor axis."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""
        return _generator(self._key).random(size)

    def random_where(self, needed: BoolArray, size: tuple[int, ...]) -> FloatArray:
        """`random` if needed, else zeros."""
        return self.random(size) if needed else np.zeros(size)

    def random_at(self, visitor: int, items: IntArray, count: int) -> FloatArray:  # noqa: ARG002 - there is only one
        """What ``random`` draws for some items (n,) of ``count``."""
        return _random_at(self._key, items, count)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""
        return _generator(self._key).standard_normal(size)


def _random_at(key: bytes, items: IntArray, count: int) -> FloatArray:
    """The uniform numbers of some items; a counter-based generator need not draw those in between.

    One step of its counter makes four numbers, of which the upper 53 bits are used.
    """
    number = int.from_bytes(key, "little")
    if items.size * WORTH_DRAWING_ALL >= count:
        return np.random.Generator(np.random.Philox(key=number)).random(count)[items]
    raw = [np.random.Philox(key=number, counter=int(item) // 4).random_raw(4)[item % 4] for item in items]
    return (np.array(raw, dtype=np.uint64) >> np.uint64(11)) * 2.0**-53


def _generator(key: bytes) -> np.random.Generator:
    """The generator of a slot, reset to its start; use it before asking for the next one."""
    if not hasattr(_LOCAL, "generator"):
        _LOCAL.generator = np.random.Generator(np.random.Philox(key=0))
    found: np.random.Generator = _LOCAL.generator
    number = int.from_bytes(key, "little")
    found.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": (0, 0, 0, 0), "key": (number & _HALF, number >> 64)},
        "buffer": (0, 0, 0, 0),
        "buffer_pos": 4,  # the buffer is empty
        "has_uint32": 0,
        "uinteger": 0,
    }
    return found
