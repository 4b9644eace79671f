"""R2, R5 and R7 by themselves: slots, due times, and one release, as pure functions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.curation.batches import DIM, DRAWS, Counting, filled, first_batch, learner, open_batch

from quietshelf.curation.batches import Schedule, arrive, charge, draw, due, end, lease, shelf_time, take
from quietshelf.privacy.accounting import BudgetExceeded
from quietshelf.privacy.release.noise import GRID
from quietshelf.privacy.statistics import nothing

TIMES = st.lists(st.floats(0, 1e9), min_size=6, max_size=6)


@given(TIMES, st.floats(0.001, 1e6))
def test_the_last_arrival_alone_says_when_a_batch_is_due(times: list[float], window: float) -> None:
    """Nothing is due before the last slot is taken; then it is due one window after the latest stamp."""
    batch = first_batch(window)
    assert batch.frozen.size == len(times)
    for taken, received in enumerate(times):
        assert (batch.taken, batch.full, batch.full_at, batch.due_at) == (taken, False, None, math.inf)
        assert not due(batch, 1e300)
        batch = arrive(batch, received)
    assert (batch.taken, batch.full, batch.full_at) == (len(times), True, max(times))
    assert batch.due_at == max(times) + window
    assert due(batch, batch.due_at)
    assert due(batch, math.nextafter(batch.due_at, math.inf))
    assert not due(batch, math.nextafter(batch.due_at, -math.inf))


@given(TIMES, st.lists(st.tuples(st.booleans(), st.sampled_from([0.5, 1.0])), min_size=6, max_size=6))
def test_an_arrival_is_a_lease_that_is_used_up_at_once(times: list[float], arms: list[tuple[bool, float]]) -> None:
    """Whichever arm serves the slot: one step, or a lease, its one slot, and its end."""
    batch = leased = first_batch()
    for received, (present, share) in zip(times, arms, strict=True):
        batch = arrive(batch, received, present=present, share=share)
        leased, held = lease(leased, 1, received, until=math.inf)
        leased = end(leased, take(held, received, present=present, share=share))
        assert batch == leased


def test_nothing_is_due_where_no_batch_waits() -> None:
    """A shelf without batches has nothing to release."""
    assert not due(None, math.inf)


def test_a_full_batch_refuses_a_slot() -> None:
    """A full batch takes no one more and stays unchanged: its size was fixed when it opened."""
    batch = filled(first_batch(), at=3.0)
    with pytest.raises(ValueError, match="a full batch has no slot to take, got batch=0"):
        arrive(batch, 4.0)
    assert (batch.taken, batch.full_at) == (batch.frozen.size, 3.0)


def test_no_batch_is_larger_than_sums_exactly() -> None:
    """Batches grow as they follow each other, up to what float64 adds without rounding, on whichever grid."""
    for grid in (GRID, 2.0**-45):
        source = Counting(grid=grid)
        _, batch = open_batch(Schedule(7, last_size=2**40), learner(source), source)
        assert batch.frozen.size == 2**53 * grid


def test_an_arrival_changes_nothing_but_the_slots_taken() -> None:
    """What was frozen when the batch opened is the very same object afterwards."""
    batch = first_batch(window=3.0)
    after = filled(batch, at=7.0)
    assert after.frozen is batch.frozen
    assert (after.grid, after.window) == (batch.grid, 3.0)
    assert batch.taken == 0


def test_time_of_a_shelf_never_goes_back() -> None:
    """A request stamped by a clock that lags counts as having come with the latest arrival."""
    assert shelf_time(5.0, last=3.0) == 5.0
    assert shelf_time(2.0, last=3.0) == 3.0


def test_batches_open_by_the_schedule_and_freeze_the_grid() -> None:
    """6 visitors, then 9: each number follows the last, and contributions are rounded as the noise needs it."""
    source = Counting()
    schedule, first = open_batch(Schedule(), learner(source), source, window=2.0)
    schedule, second = open_batch(schedule, learner(source), source, window=2.0)
    assert [(each.frozen.number, each.frozen.size) for each in (first, second)] == [(0, 6), (1, 9)]
    assert (first.grid, first.window) == (GRID, 2.0)
    assert schedule == Schedule(opened=1, last_size=9)


def test_the_batch_after_a_drop_is_as_large_as_the_first_that_was_dropped() -> None:
    """However many are dropped and however often, sizes do not run away; afterwards the rule goes on from there."""
    source = Counting()
    known, sizes = Schedule(), []
    for _ in range(3):
        known, first = open_batch(known, learner(source), source, window=1.0)
        known, second = open_batch(known, learner(source), source, window=1.0)
        sizes.append((first.frozen.size, second.frozen.size))
        known = known.dropped([first, second]).dropped([])
    assert sizes == [(6, 9)] * 3
    known, again = open_batch(known, learner(source), source, window=1.0)
    _, after = open_batch(known, learner(source), source, window=1.0)
    assert (again.frozen.size, after.frozen.size) == (6, 9)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["drop", "go on"]), min_size=1, max_size=12))
def test_numbers_of_batches_are_never_used_twice(steps: list[str]) -> None:
    """Also after drops, so that a cost once entered can never be taken for another batch's."""
    source, known, numbers = Counting(), Schedule(), []
    for step in steps:
        known, batch = open_batch(known, learner(source), source, window=1.0)
        numbers.append(batch.frozen.number)
        if step == "drop":
            known = known.dropped([batch])
    assert numbers == list(range(len(steps)))


def test_only_a_full_batch_is_announced() -> None:
    """One visitor fewer and the release is refused, with nothing drawn or spent."""
    source = Counting()
    start = learner(source)
    _, batch = open_batch(Schedule(), start, source, window=1.0)
    for taken in range(batch.frozen.size):
        with pytest.raises(ValueError, match="only a full batch may be released, got batch=0"):
            charge(start, batch._replace(taken=taken), source)
    assert source.draws == 0
    assert start.ledger.events == ()


def test_charging_spends_and_drawing_draws_noise() -> None:
    """The cost is in the ledger before the noise is drawn; drawing adds nothing to it."""
    source = Counting()
    start = learner(source)
    _, batch = open_batch(Schedule(), start, source, window=1.0)
    charged = charge(start, filled(batch), source)
    assert charged.ledger.rho == pytest.approx(1.0)
    assert (source.draws, charged.records, charged.estimate) == (0, (), start.estimate)
    after = draw(charged, filled(batch), nothing((), DIM), source)
    assert after.ledger == charged.ledger
    assert (source.draws, len(after.records)) == (DRAWS, 1)


def test_a_batch_is_charged_once_and_drawn_only_then() -> None:
    """Charged or released, a second charge is refused; without one nothing is drawn."""
    source = Counting()
    start = learner(source)
    _, batch = open_batch(Schedule(), start, source, window=1.0)
    batch = filled(batch)
    with pytest.raises(ValueError, match="a batch must be charged before it is released, got batch=0"):
        draw(start, batch, nothing((), DIM), source)
    assert source.draws == 0
    charged = charge(start, batch, source)
    for known in (charged, draw(charged, batch, nothing((), DIM), source)):
        with pytest.raises(ValueError, match="a batch must be released once, got batch=0"):
            charge(known, batch, source)
    assert source.draws == DRAWS


def test_a_refused_budget_draws_nothing() -> None:
    """Noise that is too small for the budget is refused when charged; neither ledger nor source is touched."""
    rich, source = learner(Counting(), rho=2.0), Counting()
    poor = learner(source, rho=1.0)
    _, batch = open_batch(Schedule(), rich, source, window=1.0)
    with pytest.raises(BudgetExceeded):
        charge(poor, filled(batch), source)
    assert source.draws == 0
    assert poor.ledger.events == ()


def test_noise_on_another_grid_than_contributions_is_refused_before_anything_is_charged() -> None:
    """Sums that were not rounded may not be released with discrete noise: it would show their fractions."""
    batch = filled(first_batch())
    with pytest.raises(ValueError, match="noise must be on the grid"):
        charge(learner(), batch, Counting())
