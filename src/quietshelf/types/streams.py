"""Randomness with owners: one stream a world, read in blocks.

A world's numbers depend on its own seed, on what is drawn and on how often, and on nothing else: not on how many worlds
run beside it, in which process, or how large a block is. So a study gives the same rows on any number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from quietshelf.types.validation import BoolArray, FloatArray, IntArray

BLOCK_NUMBERS = 1 << 21
"""Numbers a block may hold (16 MB): many rounds of few worlds, or few rounds of many."""
LONGEST_BLOCK = 256
KINDS = ("random", "standard_normal")
PUBLIC_SEED = 1701
"""Of draws that anybody may know."""
ALONE = 1_000_003
"""Spawn key of the draws that one world makes by itself."""


class Random(Protocol):
    """The draws that policies and simulated noise need; a NumPy generator has them, and so have streams.

    The first axes of a draw are the visitors. Policies use of a row what concerns its visitor alone.
    """

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""


class SelectiveRandom(Random, Protocol):
    """A generator for each visitor, of whom some may need no draw: what one draws leaves the others' numbers alone."""

    def random_where(self, needed: BoolArray, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), (..., N), where ``needed``, (...): there what ``random`` draws; zero elsewhere."""


class Streams:
    """A generator a world. The first axis of every draw is the worlds, in the order of their seeds."""

    def __init__(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        self._seeds = list(seeds)
        self._generators: dict[tuple[int, ...], list[np.random.Generator]] = {}
        self._blocks: dict[tuple[int, ...], tuple[FloatArray, int]] = {}
        self._alone: list[Streams] = []

    def __len__(self) -> int:
        return len(self._seeds)

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), (worlds, ...)."""
        return self._next(KINDS.index("random"), size)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal, (worlds, ...)."""
        return self._next(KINDS.index("standard_normal"), size)

    def only(self, worlds: IntArray) -> Streams:
        """The streams of some worlds, for draws that happen in them alone; the common draws are not disturbed."""
        if not self._alone:
            self._alone.extend(Streams([child(seed, ALONE)]) for seed in self._seeds)
        return _Some([self._alone[int(world)] for world in worlds])

    def _next(self, kind: int, size: tuple[int, ...]) -> FloatArray:
        key = (kind, *size[1:])
        block, used = self._blocks.get(key, (np.empty((0, 0)), 0))
        if used >= block.shape[0]:
            block, used = self._refill(key), 0
        self._blocks[key] = (block, used + 1)
        row: FloatArray = block[used]
        return row

    def _refill(self, key: tuple[int, ...]) -> FloatArray:
        generators = self._generators.setdefault(key, [_generator(seed, key) for seed in self._seeds])
        numbers = len(generators) * int(np.prod(key[1:], dtype=np.int64))
        length = int(np.clip(BLOCK_NUMBERS // max(numbers, 1), 1, LONGEST_BLOCK))
        block = np.empty((len(generators), length, *key[1:]))
        for numbers_of_one, generator in zip(block, generators, strict=True):
            getattr(generator, KINDS[key[0]])(out=numbers_of_one)
        return np.moveaxis(block, 1, 0)


class Common:
    """Draws that all along the first axis share: made once, with the shape of the other axes."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), equal along the first axis."""
        return np.broadcast_to(self._rng.random(size[1:]), size)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal, equal along the first axis."""
        return np.broadcast_to(self._rng.standard_normal(size[1:]), size)


class _Some(Streams):
    """Streams of single worlds, side by side."""

    def __init__(self, parts: Sequence[Streams]) -> None:
        super().__init__([seed for part in parts for seed in part._seeds])
        self._parts = parts

    def _next(self, kind: int, size: tuple[int, ...]) -> FloatArray:
        return np.concatenate([part._next(kind, (1, *size[1:])) for part in self._parts])


def child(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """The seed of one role under another; equal keys give equal seeds."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


def _generator(seed: np.random.SeedSequence, key: tuple[int, ...]) -> np.random.Generator:
    return np.random.default_rng(child(seed, len(key), *key))


@lru_cache(maxsize=4)
def balanced_normal(count: int, dim: int) -> FloatArray:
    """Standard normal numbers, public, (count, d), whose means are 0 and whose covariance is I to rounding.

    Chance would otherwise tilt what every batch is expected to hold, always in the same direction.
    """
    drawn = np.random.default_rng(PUBLIC_SEED).standard_normal((count - count // 2, dim))
    both = np.concatenate([drawn, -drawn])[:count]
    if not (count < 2 * dim or count % 2 or not dim):  # else too few to have a covariance
        lower = np.linalg.cholesky(both.T @ both / count)
        both = np.ascontiguousarray(np.linalg.solve(lower, both.T).T)
    both.flags.writeable = False  # every batch that opens asks for the same
    return both
