"""R2 with leases: each slot is taken at most once, whichever process gives it out, and public times end a lease."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.curation.batches import filled, first_batch

from quietshelf.curation.batches import MIXED, Batch, Lease, arrive, block, due, end, ended, lease, published, take
from quietshelf.curation.persons import admit

SIZE = first_batch().frozen.size
ACTS = st.lists(
    st.tuples(st.sampled_from(["lease", "take", "end", "arrive"]), st.integers(0, 2), st.integers(1, SIZE)),
    max_size=40,
)


def played(acts: list[tuple[str, int, int]]) -> tuple[Batch, dict[int, Lease], list[int], list[float]]:
    """A batch and three processes after some acts, one per second: what they hold, slots taken, and when each ended."""
    batch, held = first_batch(), dict[int, Lease]()
    slots, ends = list[int](), list[float]()
    for now, (act, who, count) in enumerate(acts):
        mine = held.get(who)
        if act == "lease" and mine is None and batch.free:
            batch, held[who] = lease(batch, min(count, batch.free), now, until=now + 5.0)
        elif act == "take" and mine is not None and not ended(mine, now):
            slots.append(mine.next)
            held[who] = take(mine, now)
        elif act == "end" and mine is not None and ended(mine, now):
            batch = end(batch, held.pop(who))
            ends.append(mine.ended_at)
        elif act == "arrive" and batch.free:
            slots.append(batch.given)
            batch = arrive(batch, now)
            ends.append(now)
    return batch, held, slots, ends


@given(ACTS)
def test_no_slot_is_taken_twice_whoever_gives_it_out(acts: list[tuple[str, int, int]]) -> None:
    """Slots are numbers below the size, each taken at most once; those that nobody took stay so."""
    batch, held, slots, _ = played(acts)
    assert len(set(slots)) == len(slots)
    assert all(0 <= slot < SIZE for slot in slots)
    assert batch.taken + sum(each.taken for each in held.values()) == len(slots)
    assert batch.given + batch.free == SIZE
    assert batch.leased == sum(each.size for each in held.values())


@given(ACTS)
def test_a_batch_is_full_when_its_last_lease_has_ended(acts: list[tuple[str, int, int]]) -> None:
    """Not before, and as of the latest end, in whatever order ends were entered; then it is due one window later."""
    batch, held, _, ends = played(acts)
    assert batch.full == (batch.free == 0 and not held)
    assert batch.full_at == (max(ends) if batch.full else None)
    assert due(batch, batch.due_at) == batch.full or batch.due_at == math.inf


@given(ACTS, st.randoms(use_true_random=False))
def test_the_order_in_which_ended_leases_are_entered_changes_nothing(acts: list[tuple[str, int, int]], dice) -> None:  # type: ignore[no-untyped-def]
    """In whichever order they are entered: taken, unused, time, arms."""
    batch, held, _, _ = played(acts)
    over = [each._replace(until=min(each.until, 100.0)) for each in held.values()]
    shuffled = dice.sample(over, len(over))
    one, other = batch, batch
    for each in over:
        one = end(one, each)
    for each in shuffled:
        other = end(other, each)
    assert one == other


def test_slots_that_nobody_took_are_never_taken() -> None:
    """A lease whose time is over takes its slots with it; the next arrival has the slot behind them."""
    batch, held = lease(first_batch(), 3, 0.0, until=2.0)
    held = take(held, 1.0)
    with pytest.raises(ValueError, match="a lease that has ended has no slot to take"):
        take(held, 2.0)
    batch = end(batch, held)
    assert (batch.taken, batch.unused, batch.leased, batch.given) == (1, 2, 0, 3)
    assert filled(batch, at=1.5).full_at == 2.0  # its end, which was after the last arrival
    assert filled(batch, at=9.0).taken == SIZE - 2


def test_a_lease_that_is_used_up_ends_with_its_last_arrival() -> None:
    """Whenever that is found out; and it gives out nothing more."""
    batch, held = lease(first_batch(), 2, 0.0, until=2.0)
    held = take(take(held, 0.5), 0.75)
    assert ended(held, 0.75)
    assert held.ended_at == 0.75
    assert end(batch, held).latest == 0.75


def test_nobody_leases_what_is_not_there() -> None:
    """No slot is leased twice, and none beyond the size."""
    batch, _ = lease(first_batch(), SIZE - 1, 0.0, until=2.0)
    with pytest.raises(ValueError, match="a full batch has no slot to take"):
        lease(batch, 2, 0.0, until=2.0)
    assert lease(batch, 1, 0.0, until=2.0)[1].first == SIZE - 1


def test_arms_of_leases_add_up_to_those_of_the_batch() -> None:
    """Who served whom is counted by slot; a share that differs between leases is mixed."""
    batch, held = lease(first_batch(), 2, 0.0, until=2.0)
    batch = arrive(batch, 0.0, present=True, share=0.5)
    same = end(batch, take(held, 1.0, present=True, share=0.5))
    other = end(batch, take(held, 1.0, share=0.8))
    assert (same.present, same.share) == (2, 0.5)
    assert (other.present, other.share) == (1, MIXED)
    assert end(batch, held).share == 0.5  # nobody came


def test_a_quiet_shop_leases_nothing_and_a_busy_one_a_part() -> None:
    """Blocks follow the rate of arrivals, and leave most of what is left to others."""
    assert block(20.0, 10_000) == 0
    assert block(1000.0, 10_000) == 500
    assert block(1000.0, 40) == 10
    assert block(1000.0, 3) == 0


def test_releases_are_published_in_order() -> None:
    """A batch that was full before the one before it bears the time of that one's release, not an earlier one."""
    batch = filled(first_batch(window=1.0), at=3.0)
    assert published(batch, None) == 4.0
    assert published(batch, 3.5) == 4.0
    assert published(batch, 6.0) == 6.0


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 4))
def test_a_person_counts_once_per_batch_in_whatever_order_batches_come(batches: list[int], visits: int) -> None:
    """Where two batches take arrivals at once, the same person may come to the earlier one after the later."""
    counted: dict[str, tuple[int, int]] = {}
    admitted = [number for number in batches if admit(counted, "ann", batch=number, visits=visits)]
    assert len(set(admitted)) == len(admitted) <= visits
    assert admitted == sorted(admitted)
