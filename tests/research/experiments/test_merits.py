"""Figures of merit, on curves made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.model.types import FloatArray
from quietshelf.research.experiments.merits import (
    Spread,
    geometric_mean,
    long_enough,
    lost_between,
    merit,
    shares,
    stuck,
    worse_than_random,
)

TIMES = np.arange(10.0, 101.0, 10.0)
RANDOM = np.arange(10.0, 101.0, 10.0)
"""Random offers lose 1 a visitor."""


def curves(*losses: list[float]) -> FloatArray:
    """Cumulative regret from what each tenth loses."""
    return np.cumsum(np.array(losses, dtype=np.float64), axis=-1)


LEARNS = [10.0, 5.0, 2.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5]
STAYS = [8.0, 6.0, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
ERRS = [9.0, 9.0, 11.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
RELAPSES = [5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 12.0]


def test_shares_are_of_random_in_the_same_run() -> None:
    """Each run by its own random offers; mean, median and the 90 % quantile between runs."""
    random = np.array([[10.0], [20.0], [40.0]])
    found = shares(np.array([[5.0], [5.0], [5.0]]), random)
    np.testing.assert_allclose(found, [0.5, 0.25, 0.125])
    assert Spread.of(found) == pytest.approx((0.875 / 3, 0.25, 0.25 + 0.8 * 0.25))


@pytest.mark.parametrize(("losses", "is_stuck"), [(LEARNS, False), (STAYS, True), (ERRS, False), (RELAPSES, True)])
def test_stuck_is_who_loses_a_quarter_of_random_in_the_later_half(losses: list[float], is_stuck: bool) -> None:
    """However much was lost before; exactly a quarter is not yet stuck."""
    assert stuck(TIMES, curves(losses), RANDOM[None]).tolist() == [is_stuck]
    level = [9.0] * 5 + [2.5] * 5
    assert not stuck(TIMES, curves(level), RANDOM[None]).any()


def test_worse_than_random_needs_one_bad_tenth() -> None:
    """Equal is not worse; tenths that begin before the third release may be left out."""
    every = curves(LEARNS, STAYS, ERRS, RELAPSES)
    random = np.broadcast_to(RANDOM, every.shape)
    assert worse_than_random(TIMES, every, random).tolist() == [False, False, True, True]
    assert worse_than_random(TIMES, every, random, after=20).tolist() == [False, False, True, True]
    assert worse_than_random(TIMES, every, random, after=21).tolist() == [False, False, False, True]
    assert not worse_than_random(TIMES, every, random, after=95).any()


def test_parts_of_a_run_are_interpolated_between_checkpoints() -> None:
    """Three checkpoints of thirty visitors: tenths are even within each, and add up to the whole."""
    lost = lost_between(np.array([10.0, 20.0, 30.0]), np.array([[10.0, 13.0, 13.0]]), np.linspace(0, 1, 11))
    np.testing.assert_allclose(lost, [[3.0, 3.0, 3.0, 1.6, 0.9, 0.9, 0.6, 0.0, 0.0, 0.0]])
    assert lost.sum() == pytest.approx(13.0)


def test_merit_puts_all_figures_together() -> None:
    """Multiples compare mean with mean, median with median, quantile with quantile."""
    regret = curves(LEARNS, STAYS, ERRS, RELAPSES)
    random = np.broadcast_to(RANDOM, regret.shape)
    floor = 0.05 * random
    found = merit(TIMES, regret, random, floor, after=31)
    finals = regret[:, -1] / 100
    assert found.share == pytest.approx((finals.mean(), np.median(finals), np.quantile(finals, 0.9)))
    assert found.multiple == pytest.approx(tuple(20 * value for value in found.share))
    assert (found.stuck, found.worse, found.worse_later, found.runs) == (2, 2, 1, 4)
    with pytest.raises(ValueError, match="all must have the same runs"):
        merit(TIMES, regret[:2], random, floor)


def test_worlds_count_alike_in_the_geometric_mean() -> None:
    """A multiple of four in one world is as bad as twice two."""
    assert geometric_mean([4.0, 1.0]) == pytest.approx(geometric_mean([2.0, 2.0])) == pytest.approx(2.0)


def test_a_run_is_long_enough_if_the_floor_loses_a_twentieth_of_random() -> None:
    """By the mean, not by the worst run."""
    assert long_enough(Spread(0.05, 0.01, 0.2))
    assert not long_enough(Spread(0.051, 0.01, 0.05))
