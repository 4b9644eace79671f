"""A world's randomness is its own."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.model.types import Common, Streams


def seeds(count: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(7).spawn(count)


def test_a_world_draws_the_same_whoever_runs_beside_it() -> None:
    """Five worlds together, or the last two alone: the same numbers."""
    together, alone = Streams(seeds(5)), Streams(seeds(5)[3:])
    for _ in range(600):
        np.testing.assert_array_equal(together.random((5, 3))[3:], alone.random((2, 3)))
        np.testing.assert_array_equal(together.standard_normal((5,))[3:], alone.standard_normal((2,)))


def test_block_length_does_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading ahead is a matter of speed."""
    long = Streams(seeds(3))
    drawn = [long.standard_normal((3, 2)) for _ in range(20)]
    monkeypatch.setattr("quietshelf.model.types.streams.LONGEST_BLOCK", 3)
    short = Streams(seeds(3))
    np.testing.assert_array_equal(drawn, [short.standard_normal((3, 2)) for _ in range(20)])


def test_draws_of_some_worlds_leave_the_others_alone() -> None:
    """What one world draws by itself neither shifts nor repeats the common draws, and depends on that world only."""
    streams, undisturbed = Streams(seeds(4)), Streams(seeds(4))
    first = streams.only(np.array([1, 3])).random((2, 2))
    second = streams.only(np.array([3])).random((1, 2))
    np.testing.assert_array_equal(streams.random((4, 2)), undisturbed.random((4, 2)))
    same_world = undisturbed.only(np.array([3]))
    np.testing.assert_array_equal(first[1], same_world.random((1, 2))[0])
    np.testing.assert_array_equal(second, same_world.random((1, 2)))
    assert not np.isin(first, streams.random((4, 2))).any()


def test_worlds_and_kinds_are_independent() -> None:
    """Uniform and normal draws, and different worlds, do not share numbers; uniform ones are uniform."""
    streams = Streams(seeds(2))
    u = np.array([streams.random((2, 50)) for _ in range(200)])
    assert abs(np.corrcoef(u[:, 0].ravel(), u[:, 1].ravel())[0, 1]) < 0.04  # 4 standard errors of 10,000 pairs
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / u.size)


def test_numbers_of_rounds_that_did_not_take_place_come_next() -> None:
    """Asking again returns the same numbers; those given back are drawn again, across the ends of blocks."""
    seeds = np.random.SeedSequence(4).spawn(3)
    single, many = Streams(seeds), Streams(seeds)
    for count, kept in ((5, 2), (300, 1), (300, 299), (2, 2), (400, 150)):
        rounds = many.rounds(count)
        drawn = rounds.random((count, 3, 7))
        np.testing.assert_array_equal(rounds.random((kept, 3, 7)), drawn[:kept])
        np.testing.assert_array_equal(drawn[:kept], np.stack([single.random((3, 7)) for _ in range(kept)]))
        rounds.keep(kept)


def test_draws_of_many_rounds_are_those_of_one_after_the_other() -> None:
    """In pieces of any size, of either kind, shared along an axis or not."""
    seeds = np.random.SeedSequence(4).spawn(3)
    single, many, shared = Streams(seeds), Streams(seeds), Common(Streams(seeds))
    for count in (1, 5, 300, 2):
        for kind in ("random", "standard_normal"):
            expected = np.stack([getattr(single, kind)((3, 7)) for _ in range(count)])
            np.testing.assert_array_equal(getattr(many.rounds(count), kind)((count, 3, 7)), expected)
            both = getattr(shared.rounds(count), kind)((count, 2, 3, 7))
            np.testing.assert_array_equal(both, np.broadcast_to(expected[:, None], both.shape))
