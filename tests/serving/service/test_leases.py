"""Two processes on one shelf, each with slots of its own: nobody waits, no slot is taken twice, nobody is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, visit
from tests.serving.service.leasing import BLOCK, came, figures, slots, two_processes, visits

from quietshelf.curation.batches import LEASE_SECONDS
from quietshelf.serving.service import queries
from quietshelf.serving.service.catalogue import shelves
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import cleaning, forgetting, schema
from quietshelf.serving.service.database.frozen import FrozenBatches
from quietshelf.serving.service.database.pieces import Piece
from quietshelf.serving.service.problems import OfferExpired
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors.slot_rows import in_use
from quietshelf.serving.service.writer import AGAIN


@pytest.fixture
def pair(database: str, tmp_path: Path) -> Iterator[tuple[Service, Service, FakeClock]]:
    with two_processes(database, tmp_path) as found:
        yield found


def test_each_process_gives_out_its_own_slots(pair: tuple[Service, Service, FakeClock]) -> None:
    """In order of arrival at that process; nobody is given another's, and all are counted at once."""
    one, other, clock = pair
    first, second = came(one, *visits(clock, 1)), came(other, *visits(clock, 2))
    third = came(one, *visits(clock, 2))
    assert [slots(each) for each in (first, second, third)] == [[(0, 0)], [(0, 6), (0, 7)], [(0, 1), (0, 2)]]
    assert figures(one) == (5, 0)


def test_an_offer_from_a_lease_waits_for_no_lock_of_the_shelf(
    pair: tuple[Service, Service, FakeClock],
) -> None:
    """While another process has the shelf's row and its batch's, slots that are leased are given out."""
    one, other, clock = pair
    if one.store.sqlite:
        pytest.skip("SQLite has one writer")
    came(one, *visits(clock, 1))
    with other.store.write() as connection:
        shelf_row(connection, "teas", lock=True)
        connection.execute(sa.select(schema.batches).with_for_update()).all()
        with one.store.write() as mine:
            mine.execute(sa.text("SET LOCAL lock_timeout = 200"))
            replies = one.writing.place(mine, visits(clock, 2, person="ann"))
        one.writing.settled(True, [])
    assert slots(replies) == [(0, 1), (0, 2)]


def test_a_slot_is_never_taken_after_its_lease_has_ended(pair: tuple[Service, Service, FakeClock]) -> None:
    """Another process enters the end; an arrival that was received before it gets another slot."""
    one, other, clock = pair
    came(one, *visits(clock, 1))
    early = visits(clock, 1)
    clock.time += LEASE_SECONDS
    came(other, *visits(clock, 1))
    with one.store.read() as connection:
        (batch,) = in_use(connection, FrozenBatches(), [1])[1].values()
    assert (batch.taken, batch.unused) == (1, BLOCK - 1)
    assert slots(came(one, *early)) == [(0, 2 * BLOCK)]


def test_a_process_that_is_lost_holds_up_its_batch_until_its_lease_ends(
    pair: tuple[Service, Service, FakeClock],
) -> None:
    """Its slots contribute zero; the others are released, and whoever came to it is counted as an arrival."""
    other, one, clock = pair  # the first leads
    came(one, *visits(clock, 1))
    came(other, *visits(clock, FIRST - BLOCK))
    assert slots(came(other, *visits(clock, 1))) == [(1, 0)]
    other._chores()
    assert other.schedule.due is None  # not full: slots of the lost process may still be taken
    clock.time += LEASE_SECONDS
    other._chores()
    assert other.schedule.due == clock.time + WINDOW
    clock.time += WINDOW
    other._chores()
    assert figures(other) == (FIRST - BLOCK + 2, 1)
    with other.store.read() as connection:
        (release,) = queries.releases(connection, shelf_row(connection, "teas"))
    assert release["visitors"] == FIRST


def test_a_batch_that_is_full_waits_for_the_one_before_it(pair: tuple[Service, Service, FakeClock]) -> None:
    """And its release bears no earlier time than that one's."""
    other, one, clock = pair  # the first leads
    came(one, *visits(clock, 1))
    came(other, *visits(clock, FIRST - BLOCK))
    clock.time += 1.0
    other.leasing.block = lambda *_: 0
    came(other, *visits(clock, 25))
    with other.store.read() as connection:
        first, second = in_use(connection, FrozenBatches(), [1])[1].values()
    assert (first.full, second.full) == (False, True)
    clock.time += LEASE_SECONDS + WINDOW
    other._chores()
    other._chores()
    with other.store.read() as connection:
        times = [each["released"] for each in queries.releases(connection, shelf_row(connection, "teas"))]
    assert len(times) == 2
    assert times[0] == times[1]


def test_a_shelf_that_is_deleted_takes_its_leases_with_it(pair: tuple[Service, Service, FakeClock]) -> None:
    """The next visitor of the process that held one is told that the shelf does not exist."""
    one, other, clock = pair
    came(one, *visits(clock, 1))
    with other.store.write() as connection:
        shelves.delete(connection, "teas", clock.time)
    (reply,) = came(one, *visits(clock, 1))
    assert reply.status == 404


def test_visitors_without_an_id_count_for_the_promise_at_once(pair: tuple[Service, Service, FakeClock]) -> None:
    """Also those who came to a lease: the promise is to a visit from the first of them on."""
    one, _, clock = pair
    came(one, *visits(clock, 1, person="ann"))

    def unit() -> str:
        with one.store.read() as connection:
            return str(queries.ledger_of(connection, shelf_row(connection, "teas")).promise().unit)

    assert unit() == "person"
    came(one, *visits(clock, 1))
    assert unit() == "visit"


@pytest.mark.parametrize("what", ["person", "key"])
def test_the_same_person_or_key_at_two_processes_at_once_counts_once(
    what: str, pair: tuple[Service, Service, FakeClock]
) -> None:
    """The second transaction waits for the first, is undone, and comes again."""
    one, other, clock = pair
    if one.store.sqlite:
        pytest.skip("SQLite has one writer")
    came(one, *visits(clock, 1))
    came(other, *visits(clock, 1))
    retry, body = (None, {"person": "ann"}) if what == "person" else ("k", {})
    began, found = threading.Event(), list[Any]()

    def second() -> None:
        began.set()
        found.extend(came(other, visit("teas", clock.time, retry, **body)))

    thread = threading.Thread(target=second)
    with one.store.write() as connection:
        (first,) = one.writing.place(connection, [visit("teas", clock.time, retry, **body)])
        thread.start()
        began.wait()
        thread.join(0.3)
    one.writing.settled(True, [])
    thread.join(20)
    (reply,) = found
    with one.store.read() as connection:
        rows = connection.execute(sa.select(schema.offers.c.rows).where(schema.offers.c.person.isnot(None))).scalars()
        counted = sum(row is not None for row in rows)
    assert counted == (what == "person")
    assert (reply["offer"] == first["offer"]) == (what == "key")


def test_a_large_batch_is_forgotten_piece_by_piece(
    pair: tuple[Service, Service, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the chores, after its release; keys that were used are refused meanwhile."""
    one, _, clock = pair
    one.leasing.block = lambda *_: 0
    monkeypatch.setattr(forgetting, "PIECE", 5)
    monkeypatch.setattr(cleaning, "RESTS", 0.0)
    one.cleaning._piece = Piece(5, 5, seconds=1.0)
    came(one, *(visit("teas", clock.time, f"key {n}", person=f"p{n}") for n in range(FIRST)))
    clock.time += WINDOW
    kept = []
    while one._chores() <= 0.0:
        with one.store.read() as connection:
            kept.append(connection.execute(sa.select(sa.func.count()).select_from(schema.offers)).scalar_one())
        for used in (0, FIRST - 1):
            (again,) = came(one, visit("teas", clock.time, f"key {used}", person=f"p{used}"))
            assert isinstance(again, OfferExpired)
    assert kept == [13, 8, 3, 0]
    with one.store.read() as connection:
        assert not connection.execute(sa.select(schema.offers)).all()
        assert set(connection.execute(sa.select(schema.retries.c.fingerprint)).scalars()) == {None}


def test_a_row_that_somebody_has_locked_is_not_waited_for_long(pair: tuple[Service, Service, FakeClock]) -> None:
    """The lock of one shelf stops its own visitors for two seconds at most, and those of other shelves no longer."""
    one, other, clock = pair
    if one.store.sqlite:
        pytest.skip("SQLite has one writer")
    with other.store.write() as connection:
        shelf_row(connection, "teas", lock=True)
        with pytest.raises(OperationalError, match="lock timeout"):
            came(one, *visits(clock, 1))


def test_what_is_leased_does_not_depend_on_who_shares_a_transaction(
    pair: tuple[Service, Service, FakeClock],
) -> None:
    """One by one or all at once: the same slots, and the same left to others."""
    one, other, clock = pair
    found = came(one, *visits(clock, 4))
    clock.time += 10 * LEASE_SECONDS
    singly = [each for _ in range(4) for each in came(other, *visits(clock, 1))]
    assert [slot for _, slot in slots(found)] == [0, 1, 2, 3]
    assert [slot for _, slot in slots(singly)] == [6, 7, 8, 9]
    assert AGAIN not in singly
