"""A release is made beside the service and published at a time that was known before: nobody sees when it was made."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.cut_short import Counting, Cut
from tests.serving.service.elections import full, ledger, people, two_machines
from tests.serving.service.harness import FIRST, ITEMS, SHELF, WINDOW, FakeClock, visit
from tests.serving.service.machines import machine, shop

from quietshelf.curation.batches import lag
from quietshelf.serving.service import queries
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.catalogue.views import look
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.frozen import FrozenBatches
from quietshelf.serving.service.models import ItemBody, ShelfBody
from quietshelf.serving.service.pages import views
from quietshelf.serving.service.pages.budget_summary import BudgetSummaries
from quietshelf.serving.service.pages.insights import insights
from quietshelf.serving.service.problems import OfferExpired
from quietshelf.serving.service.releases import verify
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors import answers, slot_rows
from quietshelf.serving.service.visitors.answers import Choice
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.work import Task, Work
from quietshelf.serving.service.writer import AGAIN

LATER = 100.0
"""Seconds that a release is given."""
DIM = 5
SECOND = 25
"""Visitors in the second batch."""


@pytest.fixture
def service(database: str, tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    """A service whose first batch is full, and that does nothing by itself."""
    found = machine(database, tmp_path / "secrets", clock, source=Counting(), release_seconds=LATER)
    found.prepare()
    shop(found)
    people(found, FIRST, "person")
    yield found
    found.store.close()


def came(service: Service, now: float, **wishes: Any) -> Any:
    """What one visitor is told."""
    request = visit("teas", now, **wishes)
    with service.store.write() as connection:
        (reply,) = service.writing.place(connection, [request])
    service.writing.settled(True, [request])
    return reply


def stored(service: Service) -> tuple[int, int]:
    """Releases that are published, and all that were made; of a ledger that is in order."""
    with service.store.read() as connection:
        row = queries.latest_row(connection, "teas")
        assert verify.verify(connection, row) == []
        assert len(queries.releases(connection, row)) == row["releases"]
        return row["releases"], len(learning.release_rows(connection, row["shelf"]))


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restart"])
def test_a_release_is_published_at_its_time_and_not_when_it_is_made(
    service: Service, database: str, tmp_path: Path, clock: FakeClock, restart: bool
) -> None:
    """It is made as soon as it is due; offers rest on it from its time on, also if the process dies in between."""
    due = clock.time + WINDOW
    time = due + lag(LATER, FIRST, DIM)
    clock.time = due
    service._chores()
    assert stored(service) == (0, 1)
    if restart:
        service.store.close()
        service = machine(database, tmp_path / "secrets", clock, source=Counting(), release_seconds=LATER)
        clock.time += 60.0  # its lease has ended
        service.prepare()
    clock.time = time - 0.01
    service._chores()
    assert came(service, clock.time)["release"] == 0
    clock.time = time
    service._chores()
    assert stored(service) == (1, 1)
    assert came(service, clock.time)["release"] == 1
    with service.store.read() as connection:
        assert connection.execute(sa.select(schema.releases.c.released_at)).scalar_one() == time
    assert service.source.draws == (0 if restart else 3)  # type: ignore[attr-defined]
    service.store.close()


def test_nothing_changes_a_batch_that_is_due(service: Service, clock: FakeClock) -> None:
    """An answer, an erasure and a repeat that come while it is added up, or wait for its time, come too late."""
    reply = came(service, clock.time, retry="mine", person="ann")  # of the next batch
    with service.store.read() as connection:
        row = connection.execute(sa.select(schema.offers).where(schema.offers.c.batch == 0).limit(1)).mappings().one()
    clock.time += WINDOW
    for _ in range(2):
        ticket = service.vault.ticket(reply["offer"])
        assert ticket is not None
        ticket = ticket._replace(batch=0, slot=row["slot"], nonce=bytes(row["nonce"]))
        with service.store.write() as connection:
            (late,) = service.writing.take_choices(connection, [Choice(ticket, None, Receipt(clock.time))])
            assert isinstance(late, OfferExpired)
            person = service.vault.person(1, "person 0")
            assert answers.erase(connection, 1, person, received=clock.time) == 0
        service._chores()
    assert stored(service) == (0, 1)


def test_nobody_reads_of_a_release_before_its_time(service: Service, clock: FakeClock) -> None:
    """Promise, statement, ledger and the page of a shelf are what they were until it is published."""
    room: Any = SimpleNamespace(budgets=BudgetSummaries(), service=service)

    def read() -> Any:
        with service.store.read() as connection:
            row = queries.latest_row(connection, "teas")
            told = queries.promise(connection, row, 1e-6), queries.everything(connection, 1e-6)
            pages = views.statement(room, connection, row), insights(connection, row, look(connection, row))
            return json.loads(json.dumps([*told, {**pages[0], "now": None}, pages[1]]))

    before = read()
    clock.time += WINDOW
    service._chores()
    assert stored(service) == (0, 1)
    assert read() == before
    clock.time += lag(LATER, FIRST, DIM)
    service._chores()
    assert stored(service) == (1, 1)
    promised, _, page, seen = read()
    assert [each["batch"] for each in promised["events"]] == [0]
    assert page["promise"]["rho"] == promised["rho"] > 0
    assert len(page["events"]) == len(seen["releases"]) == 1


@pytest.fixture
def crossed(service: Service, database: str, tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    """Its second batch is due and full, and its own time is before that of the first, with which it is published."""
    service.store.close()
    found = machine(database, tmp_path / "secrets", clock, source=Counting(), release_seconds=0.0)
    clock.time += 60.0  # the lease of the first process has ended
    found.prepare()
    people(found, SECOND, "more")
    clock.time += WINDOW
    yield found
    found.store.close()


def time_of_both(service: Service) -> float:
    with service.store.read() as connection:
        return max(batch.published_at for batch in slot_rows.in_use(connection, FrozenBatches(), [1])[1].values())


def test_an_arrival_waits_for_a_release_that_shares_its_time_with_the_one_before(
    crossed: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: it is published with that one, and waited for all the same if it is late."""
    clock.time = time_of_both(crossed)
    asked: list[Task] = []
    monkeypatch.setattr(crossed.releasing.work, "ask", asked.append)
    for _ in range(2):  # the sum and the draw of the first; nobody does the work of the second
        crossed._chores()
        while asked[-1].run():
            pass
    crossed._chores()
    assert stored(crossed) == (1, 1)
    assert came(crossed, clock.time) is AGAIN


def test_an_answer_waits_for_no_release_before_its_time(crossed: Service, clock: FakeClock) -> None:
    """Not even for one whose own time has come: its answer would wait for the clock, and the clock for the answer."""
    reply = came(crossed, clock.time)
    ticket = crossed.vault.ticket(reply["offer"])
    assert ticket is not None
    crossed._chores()
    assert clock.time < time_of_both(crossed)
    with crossed.store.write() as connection:
        assert crossed.writing.take_choices(connection, [Choice(ticket, None, Receipt(clock.time))]) == [None]


def test_a_release_that_is_made_does_not_wait_for_one_of_another_shelf(
    service: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published at its time, however late the other is."""
    service.settings = replace(service.settings, release_seconds=0.0)
    with service.store.write() as connection:
        shelves.put(connection, "late", ShelfBody.model_validate(SHELF), 0.0)
        items.put_items(connection, "late", [ItemBody.model_validate(item) for item in ITEMS])
        service.writing.place(connection, [visit("late", clock.time + 1.0) for _ in range(FIRST)])
    service.writing.settled(True, [])
    service.schedule.look_at = 0.0
    clock.time += WINDOW
    service._chores()
    assert stored(service) == (0, 1)
    monkeypatch.setattr(service.releasing.work, "ask", lambda _: None)  # nobody does the work of the other
    clock.time += lag(LATER, FIRST, DIM)
    service._chores()
    assert stored(service) == (1, 1)


def test_a_process_that_ends_finishes_what_it_has_announced(
    postgres: Any, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the others to note it, and nobody has to burn the batch."""
    with two_machines(fresh_postgres(postgres), tmp_path, clock) as pair:
        first, second = pair
        full(pair, clock)
        assert not first.releasing.release()
        monkeypatch.setattr(
            "quietshelf.serving.service.releases.releasing.time.sleep", lambda _: second.releasing.stay()
        )
        first.releasing.leave()
        assert ledger(second) == [(0, "")]


def test_an_announced_batch_is_released_though_something_fails_before_its_draw(
    postgres: Any, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is not got, a clock that was read anew: who knows that nothing was drawn burns nothing."""
    with two_machines(fresh_postgres(postgres), tmp_path, clock) as pair:
        first, second = pair
        full(pair, clock)
        assert not first.releasing.release()
        clock.time -= WINDOW / 2
        second.releasing.stay()

        def failing() -> bool:
            raise Cut

        with monkeypatch.context() as patch:
            patch.setattr(first.releasing, "_leads", failing)
            with pytest.raises(Cut):
                first.releasing.release()
        assert first.releasing.release()
        assert ledger(first) == [(0, "")]


class Counted(Task):
    """So many steps, each noted."""

    def __init__(self, name: str, steps: int, rank: float, seen: list[str]) -> None:
        super().__init__((1, rank))
        self._name, self._left, self._seen = name, steps, seen

    def step(self) -> bool:
        self._seen.append(self._name)
        self._left -= 1
        return self._left > 0


def test_a_small_batch_does_not_wait_for_a_large_one() -> None:
    """Of what there is to do the most urgent comes first, whenever a step is done."""
    seen: list[str] = []
    done = threading.Semaphore(0)
    work = Work(done.release)
    small = Counted("small", 2, 1.0, seen)

    class Large(Counted):
        def step(self) -> bool:
            if len(seen) == 1:
                work.ask(small)
            return super().step()

    work.start()
    work.ask(Large("large", 4, 2.0, seen))
    assert done.acquire(timeout=30)
    assert done.acquire(timeout=30)
    work.stop()
    assert seen == ["large", "large", "small", "small", "large", "large"]


def test_a_task_that_fails_says_so_and_harms_no_other() -> None:
    """Its error waits for whoever asks for what it found."""
    work = Work(lambda: None)

    class Failing(Counted):
        def step(self) -> bool:
            raise Cut

    failing, fine = Failing("failing", 1, 0.0, []), Counted("fine", 1, 1.0, [])
    work.ask(failing)
    work.ask(fine)
    assert isinstance(failing.error, Cut)
    assert (failing.done, fine.done, fine.error) == (True, True, None)


def test_nobody_waits_long_for_a_release_that_is_late(
    service: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arrival waits while the release is made, up to a limit; then the last one serves it, and it comes later."""
    asked: list[Task] = []
    monkeypatch.setattr(service.releasing.work, "ask", asked.append)  # nobody does the work
    clock.time += WINDOW + lag(LATER, FIRST, DIM)
    service._chores()
    assert came(service, clock.time) is AGAIN
    monkeypatch.setattr("quietshelf.serving.service.releases.schedule.PATIENCE", 0.0)
    service._chores()
    assert came(service, clock.time)["release"] == 0
    for _ in range(2):  # its sum, then its draw
        while asked[-1].run():
            pass
        service._chores()
    assert stored(service) == (1, 1)
    assert came(service, clock.time)["release"] == 1
