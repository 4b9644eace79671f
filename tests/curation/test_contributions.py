"""R6: what a slot contributes is the same bits alone and in a group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.curation import contributions as room
from quietshelf.curation.contributions import contributions, rounded, total, width
from quietshelf.release.batch_pair import Scales
from quietshelf.release.noise import GRID
from quietshelf.release.quiet import OpenBatch
from quietshelf.statistics import Shown, contribution, svec

DIM = 5


def frozen(rng: np.random.Generator) -> OpenBatch:
    """A batch with some theta and coordinates."""
    root = rng.normal(size=(DIM, DIM))
    frame, scales = root @ root.T + np.eye(DIM), Scales(1.0, 1.0, 0.5)
    return OpenBatch(0, 10, rng.normal(size=DIM), frame, scales, np.eye(DIM)[None] / DIM, np.ones(()))


def crowd(rng: np.random.Generator, visitors: int, extreme: float) -> tuple[list[np.ndarray], list[int]]:
    """Visitors who saw none, some or many items, a third of them with features of that size; and what they chose."""
    counts = rng.integers(0, 7, size=visitors).tolist()
    rows = [rng.normal(size=(n, DIM)) * (extreme if place % 3 == 0 else 1.0) for place, n in enumerate(counts)]
    return rows, [int(rng.integers(-1, n)) if n else -1 for n in counts]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    grid=st.sampled_from([0.0, GRID]),
    extreme=st.sampled_from([1.0, 1e200, 1e-310, 0.0]),
)
def test_contributions_alone_and_in_a_group_are_the_same_bits(seed: int, grid: float, extreme: float) -> None:
    """Whoever is computed beside them, in whichever order, with features that overflow or vanish."""
    rng = np.random.default_rng(seed)
    batch = frozen(rng)
    rows, chosen = crowd(rng, 12, extreme)
    found = contributions(rows, chosen, batch, grid)
    assert found.shape == (12, width(DIM))
    backwards = contributions(rows[::-1], chosen[::-1], batch, grid)[::-1]
    np.testing.assert_array_equal(backwards, found)
    for place in range(12):
        (alone,) = contributions(rows[place : place + 1], chosen[place : place + 1], batch, grid)
        np.testing.assert_array_equal(alone, found[place])


def test_a_group_taken_in_steps_is_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many visitors one step holds makes no difference."""
    rng = np.random.default_rng(0)
    batch = frozen(rng)
    rows, chosen = crowd(rng, 40, 1.0)
    expected = contributions(rows, chosen, batch, GRID)
    for numbers in (1, 100, 333):
        monkeypatch.setattr(room, "NUMBERS", numbers)
        np.testing.assert_array_equal(contributions(rows, chosen, batch, GRID), expected)


def test_contributions_are_the_bounded_pair_on_the_grid() -> None:
    """Score and svec of the information, each a whole number of grid steps, within half a step of the exact pair."""
    rng = np.random.default_rng(1)
    batch = frozen(rng)
    rows = rng.normal(size=(3, DIM))
    (found,) = contributions([rows], [1], batch, GRID)
    steps = found / GRID
    np.testing.assert_array_equal(steps, np.rint(steps))
    pair = contribution(Shown(rows, np.ones(3, bool), np.asarray(1)), batch.theta, batch.coordinates, 0.5)
    parts = total(found, DIM)
    np.testing.assert_allclose(parts.score, pair.score, atol=GRID, rtol=0)
    np.testing.assert_allclose(parts.information, svec(pair.information), atol=GRID, rtol=0)


def test_nothing_shown_and_not_counted_contribute_zero() -> None:
    """An empty offer teaches nothing, nor does a visitor beyond the cap."""
    rng = np.random.default_rng(2)
    batch = frozen(rng)
    assert not contributions([np.zeros((0, DIM))], [-1], batch, GRID).any()
    assert contributions([], [], batch, GRID).shape == (0, width(DIM))
    seen = Shown(rng.normal(size=(2, 3, DIM)), np.ones((2, 3), bool), np.array([0, 1]))
    found = rounded(seen, batch.theta, batch.coordinates, 0.5, GRID, np.array([True, False]))
    assert found[0].any()
    assert not found[1].any()
