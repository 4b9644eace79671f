"""Where leases meet the rest: a catalogue that is being read, clocks that were ahead, due times, releases that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.serving.service.harness import FIRST, ITEMS, SHELF, WINDOW, FakeClock, visit
from tests.serving.service.leasing import BLOCK, came, figures, slots, two_processes, visits
from tests.serving.service.machines import machine, shop

from quietshelf.curation.batches import LEASE_SECONDS
from quietshelf.serving.service.catalogue import catalogues, items, shelves
from quietshelf.serving.service.database import forgetting, schema
from quietshelf.serving.service.database.frozen import FrozenBatches
from quietshelf.serving.service.models import ItemBody, ShelfBody
from quietshelf.serving.service.problems import Unavailable
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors import answers
from quietshelf.serving.service.visitors.answers import Choice
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.slot_rows import in_use
from quietshelf.serving.service.writer import AGAIN


@pytest.fixture
def pair(database: str, tmp_path: Path) -> Iterator[tuple[Service, Service, FakeClock]]:
    with two_processes(database, tmp_path) as found:
        yield found


def test_a_lease_that_ends_while_the_items_are_read_is_entered_once_they_are(
    pair: tuple[Service, Service, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The visitor who finds it ended is refused until the items are there; nobody's slot is lost by that."""
    other, lost, clock = pair
    came(lost, *visits(clock, 1))
    came(other, *visits(clock, FIRST - BLOCK))
    clock.time += LEASE_SECONDS
    other.following.views.clear()
    with monkeypatch.context() as patched:
        patched.setattr(catalogues, "_MANY", sa.select(schema.items.c.number).limit(1))
        (refused,) = came(other, *visits(clock, 1))
    assert isinstance(refused, Unavailable)
    other._chores()
    assert figures(other)[0] == FIRST - BLOCK + 1
    clock.time += WINDOW
    other._chores()
    other._chores()
    assert figures(other) == (FIRST - BLOCK + 1, 1)


def test_a_clock_that_was_ahead_holds_up_no_lease(database: str, tmp_path: Path) -> None:
    """Stamps go on from the shelf's time, and leases end by them, whoever enters the end."""
    clock = FakeClock()
    before = machine(database, tmp_path / "secrets", clock, poll_seconds=3600.0)
    before.prepare()
    shop(before)
    came(before, *visits(clock, 1))
    before.store.close()
    clock.time -= 3600.0
    service = machine(database, tmp_path / "secrets", clock, poll_seconds=3600.0)
    service.prepare()
    service.leasing.block = lambda _, free: min(BLOCK, free)
    came(service, visit("teas", service.inbox.stamp().time))
    service.inbox._open.clear()
    clock.time += LEASE_SECONDS
    service._chores()
    service._chores()
    with service.store.read() as connection:
        (batch,) = in_use(connection, FrozenBatches(), [1])[1].values()
    service.store.close()
    assert (batch.leased, batch.taken, batch.unused) == (0, 2, BLOCK - 1)


def test_the_arrival_after_the_last_slot_of_a_lease_waits_for_its_release(
    pair: tuple[Service, Service, FakeClock],
) -> None:
    """R5: also in one transaction with the arrival that filled the batch."""
    other, one, clock = pair
    came(other, *visits(clock, 1))
    came(one, *visits(clock, FIRST - BLOCK))
    last, late = visits(clock, BLOCK - 1), visit("teas", clock.time + WINDOW)
    replies = came(other, *last, late)
    assert slots(replies[:-1]) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]
    assert replies[-1] is AGAIN


def test_a_shelf_that_is_deleted_as_its_lease_ends_fails_no_chores(
    pair: tuple[Service, Service, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leases were found before it was gone."""
    other, lost, clock = pair
    came(lost, *visits(clock, 1))
    came(other, *visits(clock, 1))
    clock.time += LEASE_SECONDS
    with other.store.write() as connection:
        shelves.delete(connection, "teas", clock.time)
    monkeypatch.setattr("quietshelf.serving.service.visitors.leasing.shelves_with_ended_leases", lambda *_: ["teas"])
    assert other.leasing.end(clock.time) is False


def fill(service: Service, name: str, clock: FakeClock, count: int) -> list[Any]:
    """So many visitors, one at a time."""
    service.leasing.block = lambda *_: 0
    return [each for _ in range(count) for each in came(service, visit(name, clock.time))]


def test_a_release_that_fails_holds_up_neither_other_shelves_nor_later_batches(
    pair: tuple[Service, Service, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: what was due by then was tried with it; visitors are served from the last release."""
    one, _, clock = pair
    with one.store.write() as connection:
        shelves.put(connection, "pots", ShelfBody.model_validate(SHELF), 0.0)
        items.put_items(connection, "pots", [ItemBody.model_validate(item) for item in ITEMS])
    fill(one, "teas", clock, FIRST)
    clock.time += 1.0
    fill(one, "pots", clock, FIRST)
    fill(one, "teas", clock, 25)
    clock.time += 1.0
    (open_,) = fill(one, "teas", clock, 1)
    clock.time += WINDOW - 1.0

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(type(one.vault), "note", broken)
    one.schedule.look_at = 0.0
    with pytest.raises(OSError, match="no space"):
        one._chores()
    (pots,) = came(one, visit("pots", clock.time))
    assert pots["release"] == 0
    ticket = one.vault.ticket(open_["offer"])
    assert ticket is not None
    with one.store.write() as connection:
        assert one.writing.take_choices(connection, [Choice(ticket, open_["items"][0], Receipt(clock.time))]) == [None]


def test_an_erasure_counts_no_visit_that_was_released(
    pair: tuple[Service, Service, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a large batch stay for a moment after its release: nobody is told that they were taken back."""
    one, _, clock = pair
    monkeypatch.setattr(forgetting, "PIECE", 5)
    one.leasing.block = lambda *_: 0
    came(one, *(visit("teas", clock.time, person=f"p{n}") for n in range(FIRST)))
    clock.time += WINDOW
    assert one.releasing.release()
    with one.store.write() as connection:
        person = one.vault.person(1, f"p{FIRST - 1}")
        assert connection.execute(sa.select(schema.offers).where(schema.offers.c.person == person)).first()
        assert answers.erase(connection, 1, person, received=clock.time) == 0
