"""What one caller does never decides what others get: order of releases, locks, dimensions, configuration, load."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.harness import ITEMS, SHELF, WINDOW, FakeClock, inline, offered, released_by, stocked, visit

from quietshelf.serving.service import writer
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.lookup import TO_CHANGE, Keyed
from quietshelf.serving.service.models import ItemBody, OfferBody, ShelfBody
from quietshelf.serving.service.problems import Frozen, OfferExpired, Unavailable
from quietshelf.serving.service.releases import steps
from quietshelf.serving.service.releases.steps import Outcome
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors import answers, slot_rows
from quietshelf.serving.service.visitors.answers import Choice
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.writer import AGAIN, Writer

ADMIN = Key("id", "test", "", frozenset({"admin"}), None)
BATCH = ("shelf", "batch")
RHO = 1e3
"""Large, so that batches are small."""


@pytest.fixture
def service(postgres: Any, tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    """Two shelves on PostgreSQL, whose numbers and names are in opposite order; nothing runs by itself."""
    found = Service(ServiceSettings(database=fresh_postgres(postgres), secrets=str(tmp_path / "secrets")), clock=clock)
    found.prepare()
    with found.store.write() as connection:
        for name in ("zinc", "acid"):
            shelves.put(connection, name, ShelfBody.model_validate({**SHELF, "rho": RHO}), clock.time)
            items.put_items(connection, name, [ItemBody.model_validate(item) for item in ITEMS])
    yield found
    found.store.close()


def fill(service: Service, name: str, batches: int, now: float) -> list[dict[str, Any]]:
    """Visitors until so many batches are full."""
    made = []
    while True:
        with service.store.write() as connection:
            made += service.writing.place(connection, [visit(name, now)])
        with service.store.read() as connection:
            shelf = shelf_row(connection, name)["shelf"]
            table = schema.batches
            full = sa.select(sa.func.count()).where(table.c.shelf == shelf, table.c.full_at.isnot(None))
            if connection.execute(full).scalar_one() == batches:
                return made


def test_an_arrival_reads_two_batches_however_many_wait(service: Service, clock: FakeClock) -> None:
    """The one that is released next, and the one that has slots to take."""
    fill(service, "zinc", 3, clock.time)
    with service.store.write() as connection:
        service.writing.place(connection, [visit("zinc", clock.time)])
        number = shelf_row(connection, "zinc")["shelf"]
        found = slot_rows.in_use(connection, service.store.frozen, [number])[number]
    assert [(batch.frozen.number, batch.full) for batch in found.values()] == [(0, True), (3, False)]


def test_an_answer_in_flight_does_not_change_the_order_of_releases(service: Service, clock: FakeClock) -> None:
    """The releaser waits for it; the batch after it is not released in its place."""
    fill(service, "zinc", 2, clock.time)
    clock.time += WINDOW
    found: list[Outcome | None] = []
    thread = threading.Thread(target=lambda: found.append(_release(service, clock)))
    with service.store.write() as connection:
        answers._SHARED.rows(connection, [(1, 0)])
        thread.start()
        _until_somebody_waits(service)
        assert found == []
    thread.join()
    found.append(_release(service, clock))
    assert [(each.batch, each.released) for each in found if each is not None] == [(0, True), (1, True)]


def test_a_late_answer_does_not_wait_and_is_not_waited_for(service: Service, clock: FakeClock) -> None:
    """It is refused without a lock: at once while a release is under way, and no release waits for it."""
    offer = fill(service, "zinc", 1, clock.time)[0]
    ticket = service.vault.ticket(offer["offer"])
    assert ticket is not None
    clock.time += WINDOW
    late = Choice(ticket, None, Receipt(clock.time))
    with service.store.write() as first:
        Keyed(schema.batches, ("shelf", "batch"), lock=TO_CHANGE).rows(first, [(1, 0)])
        with service.store.write() as second:
            second.exec_driver_sql("SET LOCAL lock_timeout = '5s'")  # an answer that waits is to fail, not to hang
            assert isinstance(answers.take(second, service.store, [late])[0], OfferExpired)
    with service.store.write() as connection:
        answers.take(connection, service.store, [late])
        outcome = _release(service, clock)
    assert outcome is not None
    assert outcome.batch == 0


def test_a_batch_is_never_released_before_an_older_one(service: Service, clock: FakeClock) -> None:
    """Even if the older one is not due."""
    fill(service, "zinc", 2, clock.time)
    table = schema.batches
    with service.store.write() as connection:
        connection.execute(sa.update(table).where(table.c.batch == 0).values(window=2 * WINDOW))
    clock.time += WINDOW
    assert _release(service, clock) is None


def test_transactions_of_several_processes_hold_offers_or_answers(service: Service, clock: FakeClock) -> None:
    """Where others write too, jobs are grouped by operation, and what stands alone is alone."""
    ticket = service.vault.ticket(fill(service, "zinc", 1, clock.time)[0]["offer"])
    assert ticket is not None
    receipt = Receipt(clock.time)
    given = [Choice(ticket, None, receipt), Choice(ticket._replace(shelf=2), None, receipt)]
    loop = asyncio.new_event_loop()
    payloads: list[tuple[writer.Operation, Any]] = [
        *((service.writing.place, visit(name, clock.time)) for name in ("zinc", "acid", "zinc")),
        *((service.writing.take_choices, answer) for answer in (*given, given[0])),
        *((service.writing.each, step) for step in (lambda _: None, lambda _: None)),
    ]
    jobs = [writer.Job(operation, payload, loop, print) for operation, payload in payloads]
    groups = service.writer._groups(jobs)
    loop.close()
    assert sorted(len(group) for group in groups) == [1, 1, 3, 3]
    assert all(len({job.operation for job in group}) == 1 for group in groups)


def test_rows_of_one_transaction_are_locked_in_the_order_of_their_shelves(service: Service, clock: FakeClock) -> None:
    """By offers as by answers, whatever the shelves are called: who waits for the first has not locked the second."""
    tickets = [service.vault.ticket(fill(service, name, 1, clock.time)[0]["offer"]) for name in ("zinc", "acid")]
    given = [Choice(each, None, Receipt(clock.time)) for each in reversed(tickets) if each is not None]
    visits = [visit(name, clock.time) for name in ("acid", "zinc")]
    shelves, batches = Keyed(schema.shelves, ["shelf"], lock=TO_CHANGE), Keyed(schema.batches, BATCH, lock=TO_CHANGE)
    waiting: list[tuple[Keyed, list[Any], Any]] = [
        (shelves, [(1,), (2,)], lambda c: service.writing.place(c, visits)),
        (batches, [(1, 0), (2, 0)], lambda c: service.writing.take_choices(c, given)),
        (
            batches,
            [(1, 1), (2, 1)],
            lambda c: service.writing.place(c, visits),
        ),  # each opens its second batch, in this order
    ]
    with service.store.write() as connection:
        service.writing.place(connection, visits)
    for rows, (first, second), operation in waiting:

        def work(operation: Any = operation) -> None:
            with service.store.rehearse() as connection:
                operation(connection)

        thread = threading.Thread(target=work)
        with service.store.rehearse() as connection:
            assert rows.rows(connection, [first])
            thread.start()
            _until_somebody_waits(service)
            with service.store.rehearse() as other:
                other.exec_driver_sql("SET LOCAL lock_timeout = '100ms'")
                assert rows.rows(other, [second])
        thread.join()


def test_releases_of_one_transaction_lock_shelves_in_the_order_of_their_numbers(
    service: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As offers do, though the release of the second shelf was due first."""
    fill(service, "acid", 1, clock.time)
    fill(service, "zinc", 1, clock.time + 1)
    with monkeypatch.context() as before:
        before.setattr(steps, "publish", lambda *_: [])
        clock.time += WINDOW + 1
        assert [_release(service, clock) is not None for _ in range(2)] == [True, True]
    with service.store.write() as connection:
        assert steps.publish(connection, math.inf) == ["zinc", "acid"]


def test_a_release_waits_for_no_other_shelf(service: Service, clock: FakeClock) -> None:
    """Whoever has locked that may want this one next: of the two a release would be burnt, for it is drawn already."""
    fill(service, "zinc", 1, clock.time)
    fill(service, "acid", 1, clock.time + 1)
    releasing = service.releasing
    clock.time += WINDOW
    assert any(releasing.release() for _ in range(5))
    with service.store.read() as connection:
        published = steps.publications(connection).next
    assert published is not None
    assert published > clock.time  # the release of the first is made, and not published
    clock.time = published + 1
    with service.store.write() as connection:
        shelf_row(connection, "zinc", lock=True)
        assert any(releasing.release() for _ in range(5))
    assert releasing.publish()
    with service.store.read() as connection:
        assert [shelf_row(connection, name)["releases"] for name in ("zinc", "acid")] == [1, 1]


def test_visitors_who_wait_for_a_late_release_do_not_ask_for_it_all_the_time(
    service: Service, clock: FakeClock
) -> None:
    """Not before the next look; and one who was received before the release is due does not wait with them."""
    fill(service, "zinc", 1, clock.time)
    with service.store.read() as connection:
        published = steps.publications(connection).next
    assert published is not None
    clock.time = published
    late = [visit("zinc", published), visit("zinc", published + 1)]
    with service.store.rehearse() as connection:
        assert service.writing.place(connection, late) == [AGAIN, AGAIN]
    service.writing.settled(False, [])
    assert not service.writing._waits_still(
        late[0], service.schedule.turn
    )  # it was rolled back, and so was what it saw
    with service.store.write() as connection:
        assert service.writing.place(connection, late) == [AGAIN, AGAIN]
    service.writing.settled(True, [])
    nobody: Any = None
    assert service.writing.place(nobody, late) == [AGAIN, AGAIN]
    with service.store.write() as connection:
        early, still = service.writing.place(connection, [visit("zinc", published - 0.5), late[0]])
    assert (early["release"], still) == (0, AGAIN)
    assert any(service.releasing.release() for _ in range(5))
    service.schedule.look()
    with service.store.write() as connection:
        assert [each["release"] for each in service.writing.place(connection, late)] == [1, 1]


def test_a_late_release_is_not_looked_for_while_it_is_made_here(
    service: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another shelf's, which is made, is published meanwhile."""
    for name in ("zinc", "acid"):
        fill(service, name, 1, clock.time)
    clock.time += WINDOW
    assert any(service.releasing.release() for _ in range(5))
    with service.store.read() as connection:
        published, made = steps.publications(connection)
    assert published == made
    assert made is not None
    clock.time = made
    service.schedule.look()
    tried, publish = [], service.releasing.publish
    monkeypatch.setattr(service.releasing, "publish", lambda: tried.append(1) or publish())  # type: ignore[func-returns-value]
    monkeypatch.setattr(service.beside, "busy", lambda _: True)
    for _ in range(3):
        service.schedule.go_on()
    assert len(tried) == 1
    with service.store.read() as connection:
        assert [shelf_row(connection, name)["releases"] for name in ("zinc", "acid")] == [1, 0]


def test_two_processes_and_two_shelves_do_not_deadlock(postgres: Any, tmp_path: Path) -> None:
    """Offers and answers of both, by both, at once: every one is taken."""
    options = {"database": fresh_postgres(postgres), "secrets": str(tmp_path / "secrets"), "log_level": "error"}
    both = [Service(ServiceSettings(**options)), Service(ServiceSettings(**options))]  # type: ignore[arg-type]

    async def visits(service: Service, name: str) -> None:
        for _ in range(12):
            made = await service.offer(name, OfferBody.model_validate({"features": [0.1, -0.2]}), None)
            await service.choose(made["offer"], None, ADMIN)

    async def run() -> None:
        for name in ("zinc", "acid"):
            await both[0].put_shelf(name, ShelfBody.model_validate({**SHELF, "window": 3600.0}))
            await both[0].put_items(name, [ItemBody.model_validate(item) for item in ITEMS])
        await asyncio.gather(*(visits(one, name) for one in both for name in ("zinc", "acid") for _ in range(6)))

    for each in both:
        each.start()
    try:
        asyncio.run(run())
        with both[0].store.read() as connection:
            # not the shelves' arrivals: a lease enters its own at its end
            slots = sa.select(sa.func.count(schema.offers.c.slot)).group_by(schema.offers.c.shelf)
            assert connection.execute(slots).scalars().all() == [144, 144]
    finally:
        for each in both:
            each.stop()


def test_settings_stay_fixed_where_only_the_ledger_or_a_batch_number_tells_of_visitors(service: Service) -> None:
    """A restored backup may have no arrivals but costs: its promise must not be altered."""
    changed = ShelfBody.model_validate({**SHELF, "rho": RHO / 2})
    with service.store.write() as connection:
        shelves.put(connection, "zinc", changed, 0.0)
        connection.execute(sa.insert(schema.events), {"shelf": 1, "number": 0, "batch": 0, "event": "{}"})
        connection.execute(sa.update(schema.shelves).where(schema.shelves.c.shelf == 2).values(opened=0))
    body = ShelfBody.model_validate({**SHELF, "rho": RHO / 4})
    for name in ("zinc", "acid"):
        with service.store.write() as connection, pytest.raises(Frozen, match="rho must stay"):
            shelves.put(connection, name, body, 0.0)


def test_the_first_visitor_does_not_decide_how_long_features_are(tmp_path: Path) -> None:
    """The shop declares it, or by a list of scales; a map without visitor features has none."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        base = {key: value for key, value in SHELF.items() if key != "visitor_dim"}
        reply = client.put("/v1/shelves/x", json=base)
        assert reply.status_code == 422
        assert "visitor_dim must be given with feature_map='concat'" in reply.json()["detail"]
        reply = client.put("/v1/shelves/x", json={**base, "visitor_dim": 2, "visitor_scale": [1.0]})
        assert "visitor_dim must be the length of visitor_scale, 1" in reply.json()["detail"]
        reply = client.put("/v1/shelves/x", json={**base, "visitor_scale": [1.0] * 513})
        assert "visitor_dim must be at most 512" in reply.json()["detail"]
        stocked(client, "declared")
        stocked(client, "scaled", visitor_dim=None, visitor_scale=[1.0, 2.0])
        stocked(client, "plain", visitor_dim=None, feature_map="item")
        for name, length in (("declared", 2), ("scaled", 2), ("plain", 0)):
            assert offered(client, name, features=[1.0] * (length + 1)).status_code == 422
            assert offered(client, name, features=[1.0] * length).status_code == 200


def test_too_many_coordinates_are_refused(tmp_path: Path) -> None:
    """Before anything is frozen, and it is nobody's visit."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client, feature_map="full", visitor_dim=200)
        reply = offered(client, features=[0.0] * 200)
        assert "the feature map must give 1 to 512 coordinates, got 603" in reply.json()["detail"]
        assert client.get("/v1/shelves/teas").json()["arrivals"] == 0


def test_a_full_queue_refuses_at_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who wait already are served."""
    monkeypatch.setattr(writer, "WAITING", 2)

    def nothing(_: Any, asked: Any) -> list[None]:
        return [None for _ in asked]

    async def run() -> list[Any]:
        busy = Writer(service.store, lambda: 1.0, group_limit=8)
        asked = [asyncio.ensure_future(busy.submit(nothing, None)) for _ in range(3)]
        await asyncio.sleep(0)
        busy.start()
        found = await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.to_thread(busy.stop)
        return list(found)

    found = asyncio.run(run())
    assert found[:2] == [None, None]
    assert isinstance(found[2], Unavailable)


def _release(service: Service, clock: FakeClock) -> Outcome | None:
    return released_by(service, clock.time)


def _until_somebody_waits(service: Service) -> None:
    query = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    for _ in range(1000):
        with service.store.read() as connection:
            if connection.execute(query).scalar_one():
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits")
