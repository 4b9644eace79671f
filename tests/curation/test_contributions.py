"""R6: what a slot contributes is the same bits alone and in a group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.curation import contributions as room
from quietshelf.curation.contributions import added, contributions, sum_of, summed, total, width
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.batch_pair import Scales
from quietshelf.privacy.release.noise import GRID
from quietshelf.privacy.release.quiet import OpenBatch
from quietshelf.privacy.statistics import ObservedChoice, contribution, upper

DIM = 5


def frozen(rng: np.random.Generator, dim: int = DIM) -> OpenBatch:
    """A batch with some theta and coordinates."""
    root = rng.normal(size=(dim, dim))
    frame, scales = root @ root.T + np.eye(dim), Scales(1.0, 1.0, 0.5)
    return OpenBatch(0, 10, rng.normal(size=dim), frame, scales, np.eye(dim)[None] / dim, np.ones(()))


def crowd(
    rng: np.random.Generator, visitors: int, extreme: float, dim: int = DIM
) -> tuple[list[np.ndarray], list[int]]:
    """Visitors who saw none, some or many items, a third of them with features of that size; and what they chose."""
    counts = rng.integers(0, 7, size=visitors).tolist()
    rows = [rng.normal(size=(n, dim)) * (extreme if place % 3 == 0 else 1.0) for place, n in enumerate(counts)]
    return rows, [int(rng.integers(-1, n)) if n else -1 for n in counts]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    grid=st.sampled_from([0.0, GRID]),
    extreme=st.sampled_from([1.0, 1e200, 1e-310, 0.0]),
)
def test_contributions_alone_and_in_a_group_are_the_same_bits(seed: int, grid: float, extreme: float) -> None:
    """In any group and any order, with features that overflow or vanish."""
    rng = np.random.default_rng(seed)
    batch = frozen(rng)
    rows, chosen = crowd(rng, 12, extreme)
    found = contributions(rows, chosen, batch, grid)
    assert [part.size for part in found] == [DIM + (len(shown) + 1) * DIM for shown in rows]
    backwards = contributions(rows[::-1], chosen[::-1], batch, grid)[::-1]
    for place in range(12):
        (alone,) = contributions(rows[place : place + 1], chosen[place : place + 1], batch, grid)
        assert alone.tobytes() == found[place].tobytes() == backwards[place].tobytes()
    if grid:  # sums as well, however they are grouped
        whole = summed(found, DIM)
        cut = int(rng.integers(1, 12))
        np.testing.assert_array_equal(summed(found[:cut], DIM) + summed(found[cut:], DIM), whole)
        np.testing.assert_array_equal(summed(found[::-1], DIM), whole)
        np.testing.assert_array_equal(sum_of(rows, chosen, batch, grid), whole)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.sampled_from([1, 5, 16, 70]),
    grid=st.sampled_from([0.0, GRID]),
    extreme=st.sampled_from([1.0, 1e200, 1e-310]),
)
def test_contributions_to_several_batches_at_once_are_the_same_bits(
    seed: int, dim: int, grid: float, extreme: float
) -> None:
    """Visitors of batches of other sizes, bounds and tastes, of other shelves even, change no bit of anybody's."""
    rng = np.random.default_rng(seed)
    batches = [
        frozen(rng, dim)._replace(size=size, scales=Scales(1.0, size / 7.0, bound))
        for size, bound in ((10, 0.5), (333, 2.0), (50_000, 1e-3))
    ]
    rows, chosen = crowd(rng, 12, extreme, dim)
    own = [batches[place] for place in rng.integers(0, 3, size=12)]
    found = contributions(rows, chosen, own, grid)
    for place, batch in enumerate(own):
        (alone,) = contributions(rows[place : place + 1], chosen[place : place + 1], batch, grid)
        assert alone.tobytes() == found[place].tobytes()


def test_a_group_taken_in_steps_is_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many visitors one step holds makes no difference."""
    rng = np.random.default_rng(0)
    batch = frozen(rng)
    rows, chosen = crowd(rng, 40, 1.0)
    expected = contributions(rows, chosen, batch, GRID)
    for numbers in (1, 100, 333):
        monkeypatch.setattr(room, "NUMBERS", numbers)
        again = contributions(rows, chosen, batch, GRID)
        assert [part.tobytes() for part in again] == [part.tobytes() for part in expected]


def test_contributions_are_the_bounded_pair_on_the_grid() -> None:
    """The score in whole steps, within one of the exact pair; the information in whole squares of the grid of rows."""
    rng = np.random.default_rng(1)
    batch = frozen(rng)
    rows = rng.normal(size=(3, DIM))
    (found,) = contributions([rows], [1], batch, GRID)
    pair = contribution(ObservedChoice(rows, np.ones(3, bool), np.asarray(1)), batch.theta, batch.coordinates, 0.5)
    parts = total(summed([found], DIM), DIM)
    fine = float(batch_pair.grids(batch.scales, batch.size, GRID).rows)
    for part, step in ((parts.score, GRID), (parts.information, fine**2)):
        np.testing.assert_array_equal(part / step, np.rint(part / step))
    np.testing.assert_allclose(parts.score, pair.score, atol=GRID, rtol=0)
    np.testing.assert_allclose(parts.information, upper(pair.information), atol=100 * fine, rtol=0)


def test_sums_of_a_group_are_those_of_its_slots() -> None:
    """What simulations add for many at a time is, on a grid, what stores add for each."""
    rng = np.random.default_rng(3)
    batch = frozen(rng)
    rows = rng.normal(size=(40, 3, DIM))
    chosen = rng.integers(-1, 3, size=40)
    grids = batch_pair.grids(batch.scales, batch.size, GRID)
    seen = ObservedChoice(rows, np.ones((40, 3), bool), chosen)
    found = added(np.zeros(width(DIM)), seen, batch.theta, batch.coordinates, 0.5, grids)
    parts = contributions(list(rows), chosen.tolist(), batch, GRID)
    np.testing.assert_array_equal(found, summed(parts, DIM))


def test_nothing_shown_and_not_counted_contribute_zero() -> None:
    """An empty offer teaches nothing, nor does a visitor beyond the cap."""
    rng = np.random.default_rng(2)
    batch = frozen(rng)
    (nothing,) = contributions([np.zeros((0, DIM))], [-1], batch, GRID)
    assert not nothing.any()
    assert contributions([], [], batch, GRID) == []
    assert not summed([], DIM).any()
    seen = ObservedChoice(rng.normal(size=(2, 3, DIM)), np.ones((2, 3), bool), np.array([0, 1]))
    for grid in (0.0, GRID):
        public = batch.theta, batch.coordinates, 0.5, batch_pair.grids(batch.scales, batch.size, grid)
        found = added(np.zeros(width(DIM)), seen, *public, np.array([True, False]))
        alone = added(np.zeros(width(DIM)), ObservedChoice(seen.rows[:1], seen.offered[:1], seen.position[:1]), *public)
        assert found.any()
        np.testing.assert_array_equal(found, alone)
