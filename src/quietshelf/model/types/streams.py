"""One random stream per world, read in blocks.

The numbers of a world depend on its seed, on what is drawn and on how often, and on nothing else: not on the number of
worlds simulated together, the process, or the size of a block. A study gives the same rows on any number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from quietshelf.model.types.validation import FloatArray, IntArray

BLOCK_NUMBERS = 1 << 17
"""Numbers per block, at most (1 MB, so that they stay in the cache): many rounds of few worlds, or few of many."""
LONGEST_BLOCK = 256
KINDS = ("random", "standard_normal")
PUBLIC_SEED = 1701
"""The seed of draws that anyone may know."""
ALONE = 1_000_003
"""Spawn key of draws made in one world only."""


class Random(Protocol):
    """The draws that policies and simulated noise need; NumPy generators and `Streams` both provide them.

    The leading axes of a draw are visitors. Policies use each row for its own visitor only.
    """

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""


class RoundDraws(Random, Protocol):
    """Draws for many rounds at once, rounds along the first axis; asking again returns the same numbers."""

    def keep(self, count: int) -> None:
        """Keep the first ``count`` rounds; the numbers drawn for the others are drawn again next."""


NOT_DRAWN: tuple[FloatArray, int] = (np.empty((0, 0)), 0)


class Streams:
    """One generator per world. The first axis of every draw is the worlds, in the order of their seeds."""

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
        """Streams for draws made in some worlds only; they leave the draws made in all worlds undisturbed."""
        if not self._alone:
            self._alone.extend(Streams([child(seed, ALONE)]) for seed in self._seeds)
        return _Some([self._alone[int(world)] for world in worlds])

    def rounds(self, count: int) -> RoundDraws:
        """Draw for ``count`` rounds at once, along a new first axis: the same numbers as ``count`` single draws.

        For callers that draw numbers of one kind and shape at most once per round.
        """
        return _Rounds(self, count)

    def _give_back(self, key: tuple[int, ...], rows: FloatArray) -> None:
        """Return unused numbers, drawn last, so that they come next."""
        block, used = self._blocks[key]
        if used >= len(rows):
            self._blocks[key] = (block, used - len(rows))
        else:
            self._blocks[key] = (np.concatenate([rows, block[used:]]), 0)

    def _next(self, kind: int, size: tuple[int, ...]) -> FloatArray:
        row: FloatArray = self._rows(kind, size, 1)[0]
        return row

    def _rows(self, kind: int, size: tuple[int, ...], count: int) -> FloatArray:
        """The numbers of ``count`` draws, (count, worlds, ...)."""
        key, parts, left = (kind, *size[1:]), list[FloatArray](), count
        while left:
            block, used = self._blocks.get(key, NOT_DRAWN)
            if used >= len(block):
                block, used = self._refill(key, count), 0
            parts.append(block[used : used + left])
            left -= len(parts[-1])
            self._blocks[key] = (block, used + len(parts[-1]))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _refill(self, key: tuple[int, ...], count: int) -> FloatArray:
        """Draw the next block: a multiple of ``count`` rounds, so that most requests are one slice of it."""
        if key not in self._generators:
            self._generators[key] = [_generator(seed, key) for seed in self._seeds]
        generators = self._generators[key]
        numbers = int(np.prod(key[1:], dtype=np.int64))
        longest = int(np.clip(BLOCK_NUMBERS // max(len(generators) * numbers, 1), 1, LONGEST_BLOCK))
        block = np.empty((len(generators), longest - longest % count or count, *key[1:]))
        for numbers_of_one, generator in zip(block, generators, strict=True):
            getattr(generator, KINDS[key[0]])(out=numbers_of_one)
        return np.moveaxis(block, 1, 0)


class _Rounds:
    """Draws for many rounds at once; a request for fewer rounds gets the first ones."""

    def __init__(self, streams: Streams, count: int) -> None:
        self._streams, self._count = streams, count
        self._drawn: dict[tuple[int, ...], FloatArray] = {}

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), (rounds, worlds, ...)."""
        return self._of(KINDS.index("random"), size)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal, (rounds, worlds, ...)."""
        return self._of(KINDS.index("standard_normal"), size)

    def keep(self, count: int) -> None:
        """Return what was drawn for the rounds after the first ``count``."""
        for key, rows in self._drawn.items():
            self._streams._give_back(key, rows[count:])

    def _of(self, kind: int, size: tuple[int, ...]) -> FloatArray:
        key = (kind, *size[2:])
        if key not in self._drawn:
            self._drawn[key] = self._streams._rows(kind, size[1:], self._count)
        return self._drawn[key][: size[0]]


class Common:
    """Draws that are the same along one axis, by default the first: made once and broadcast."""

    def __init__(self, rng: Random, axis: int = 0) -> None:
        self._rng, self._axis = rng, axis

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), the same along the axis."""
        return self._shared(self._rng.random(self._own(size)), size)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal, the same along the axis."""
        return self._shared(self._rng.standard_normal(self._own(size)), size)

    def rounds(self, count: int) -> Random:
        """The same for many rounds at once, along a new first axis; only for draws from `Streams`."""
        return Common(self._rng.rounds(count), self._axis + 1) if isinstance(self._rng, Streams) else self

    def keep(self, count: int) -> None:
        """Keep the first ``count`` rounds, as `RoundDraws.keep` does."""
        if isinstance(self._rng, _Rounds):
            self._rng.keep(count)

    def _own(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return size[: self._axis] + size[self._axis + 1 :]

    def _shared(self, drawn: FloatArray, size: tuple[int, ...]) -> FloatArray:
        return np.broadcast_to(np.expand_dims(drawn, self._axis), size)


class _Some(Streams):
    """Streams of single worlds, side by side."""

    def __init__(self, parts: Sequence[Streams]) -> None:
        super().__init__([seed for part in parts for seed in part._seeds])
        self._parts = parts

    def _rows(self, kind: int, size: tuple[int, ...], count: int) -> FloatArray:
        return np.concatenate([part._rows(kind, (1, *size[1:]), count) for part in self._parts], axis=1)


def child(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """Derive the seed of a role from its parent; equal keys give equal seeds."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


def _generator(seed: np.random.SeedSequence, key: tuple[int, ...]) -> np.random.Generator:
    return np.random.default_rng(child(seed, len(key), *key))


@lru_cache(maxsize=4)
def balanced_normal(count: int, dim: int) -> FloatArray:
    """Public standard normal numbers, (count, d), with mean 0 and covariance I to rounding.

    Without balancing, one chance sample would bias the expectation of every batch in the same direction.
    """
    drawn = np.random.default_rng(PUBLIC_SEED).standard_normal((count - count // 2, dim))
    both = np.concatenate([drawn, -drawn])[:count]
    if not (count < 2 * dim or count % 2 or not dim):  # otherwise there are too few to have a covariance
        lower = np.linalg.cholesky(both.T @ both / count)
        both = np.ascontiguousarray(np.linalg.solve(lower, both.T).T)
    both.flags.writeable = False  # cached: every batch that opens asks for the same
    return both
