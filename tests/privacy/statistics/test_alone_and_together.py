"""A contribution has the same bits alone, in any group, and with any number of empty places."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.statistics.crowds import SIZES, part_of, some_crowd

from quietshelf.privacy.statistics import ObservedChoice, Pair, clip, contribution


def same_bits(one: Pair, other: Pair) -> None:
    for mine, yours in zip(one, other, strict=True):
        assert mine.shape == yours.shape
        assert mine.tobytes() == yours.tobytes()


def without_gaps(shown: ObservedChoice) -> ObservedChoice:
    """One visitor's offer without its empty places."""
    place = int(shown.position)
    position = np.count_nonzero(shown.offered[:place]) if place >= 0 else -1
    return ObservedChoice(shown.rows[shown.offered], shown.offered[shown.offered], np.asarray(position))


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    visitors=st.integers(1, 40),
    places=st.integers(1, 12),
    dim=st.integers(1, 18),
    worlds=st.booleans(),
)
def test_a_visitor_contributes_the_same_alone_and_in_any_group(
    seed: int, visitors: int, places: int, dim: int, worlds: bool
) -> None:
    """Without an axis, as a group of one, in another group, with more empty places and with none."""
    rng = np.random.default_rng(seed)
    crowd = some_crowd(rng, visitors, places, dim)
    lead = (visitors,) if worlds else ()
    theta, frame = rng.normal(size=(*lead, dim)), rng.normal(size=(*lead, dim, dim))
    bound = 10.0 ** rng.uniform(-3, 3, size=lead)
    together = contribution(crowd, theta, frame, bound)
    for who in (*rng.integers(0, visitors, size=4), *(rng.integers(0, visitors, size=size) for size in (1, 7))):
        one = part_of(crowd, who)
        own = (theta[who], frame[who], bound[who]) if worlds else (theta, frame, bound)
        expected = part_of(together, who)
        same_bits(contribution(one, *own), expected)
        wider = [(0, 0)] * (one.offered.ndim - 1) + [(0, 3)]
        same_bits(
            contribution(
                ObservedChoice(np.pad(one.rows, [*wider, (0, 0)]), np.pad(one.offered, wider), one.position), *own
            ),
            expected,
        )
        if np.ndim(who) == 0 and one.offered.any():
            same_bits(contribution(without_gaps(one), *own), expected)


def test_a_crowd_contributes_the_same_in_pieces_of_any_length() -> None:
    """5,000 visitors at once, in pieces of 1 to 4,999, and as a grid of visits and worlds."""
    rng = np.random.default_rng(0)
    crowd = some_crowd(rng, 5000, 6, 3)
    theta, frame = rng.normal(size=3), rng.normal(size=(3, 3))
    together = contribution(crowd, theta, frame, 0.7)
    for length in (1, 2, 3, 7, 511, 512, 513, 2047, 2048, 2049, 4999):
        for begin in (0, 2040, 4999):
            piece = slice(begin, begin + length)
            same_bits(contribution(part_of(crowd, piece), theta, frame, 0.7), part_of(together, piece))
    grid = ObservedChoice(
        crowd.rows.reshape(50, 100, 6, 3), crowd.offered.reshape(50, 100, 6), crowd.position.reshape(50, 100)
    )
    pair = contribution(grid, np.tile(theta, (100, 1)), np.tile(frame, (100, 1, 1)), np.full(100, 0.7))
    same_bits(Pair(pair.score.reshape(5000, 3), pair.information.reshape(5000, 3, 3)), together)


def test_coordinates_in_another_memory_order_change_no_bit() -> None:
    """What a batch froze is its numbers, not how they lie in memory."""
    rng = np.random.default_rng(1)
    crowd = some_crowd(rng, 30, 6, 9)
    theta, frame = rng.normal(size=(9, 2)), rng.normal(size=(9, 9))
    found = contribution(crowd, theta[:, 0], np.asfortranarray(frame), 1.0)
    same_bits(found, contribution(crowd, theta[:, 0].copy(), frame, 1.0))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 18))
def test_clipping_is_the_same_alone_and_beside_anybody(seed: int, visitors: int, dim: int) -> None:
    """Also beside features whose squares overflow."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(SIZES, size=(visitors, 1)) * rng.normal(size=(visitors, dim))
    together = clip(rows)
    for who in range(visitors):
        assert together[who].tobytes() == clip(rows[who].copy()).tobytes()


def test_an_empty_group_contributes_nothing() -> None:
    """No visitors, no pairs, no error; with empty places and without."""
    for places in (0, 4):
        nobody = ObservedChoice(
            np.zeros((0, places, 3)), np.zeros((0, places), dtype=bool), np.zeros(0, dtype=np.int64)
        )
        pair = contribution(nobody, np.zeros(3), np.eye(3), 1.0)
        assert pair.score.shape == (0, 3)
        assert pair.information.shape == (0, 3, 3)
