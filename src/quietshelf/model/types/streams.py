"""Randomness with owners: one stream a world, read in blocks.

A world's numbers depend on its own seed, on what is drawn and on how often, and on nothing else: not on how many worlds
run beside it, in which process, or how large a block is. So a study gives the same rows on any number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from quietshelf.model.types.validation import BoolArray, FloatArray, IntArray

BLOCK_NUMBERS = 1 << 17
"""Numbers a block may hold (1 MB: they stay in the cache): many rounds of few worlds, or few rounds of many."""
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


class RoundDraws(Random, Protocol):
    """Draws of many rounds at once, the rounds along the first axis: the same whenever they are asked for again."""

    def keep(self, count: int) -> None:
        """Only the first ``count`` rounds took place: what was drawn for the others comes next."""


NOT_DRAWN: tuple[FloatArray, int] = (np.empty((0, 0)), 0)


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

    def rounds(self, count: int) -> RoundDraws:
        """Draws with a first axis of ``count`` rounds: the numbers that as many draws, one after the other, would give.

        For those who draw numbers of one kind and shape at most once a round.
        """
        return _Rounds(self, count)

    def _give_back(self, key: tuple[int, ...], rows: FloatArray) -> None:
        """Numbers drawn last and not used, which come next again."""
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
        """The next block, a multiple of ``count`` rounds: what is asked for is then mostly there in one piece."""
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
    """Draws of many rounds at once; those who ask for fewer get the first."""

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
        """Give back what was drawn for the rounds after the first ``count``."""
        for key, rows in self._drawn.items():
            self._streams._give_back(key, rows[count:])

    def _of(self, kind: int, size: tuple[int, ...]) -> FloatArray:
        key = (kind, *size[2:])
        if key not in self._drawn:
            self._drawn[key] = self._streams._rows(kind, size[1:], self._count)
        return self._drawn[key][: size[0]]


class Common:
    """Draws that all along one axis, the first by default, share: made once, with the shape of the other axes."""

    def __init__(self, rng: Random, axis: int = 0) -> None:
        self._rng, self._axis = rng, axis

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), equal along the axis."""
        return self._shared(self._rng.random(self._own(size)), size)

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal, equal along the axis."""
        return self._shared(self._rng.standard_normal(self._own(size)), size)

    def rounds(self, count: int) -> Random:
        """The same for many rounds at once, along a new first axis; for draws from `Streams` alone."""
        return Common(self._rng.rounds(count), self._axis + 1) if isinstance(self._rng, Streams) else self

    def keep(self, count: int) -> None:
        """Only the first ``count`` rounds took place, as `RoundDraws` have it."""
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
