"""Visitors of many shelves in one transaction: what it costs does not grow with shelves, and none knows of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.harness import FIRST, ITEMS, SHELF, WINDOW, FakeClock, visit
from tests.serving.service.machines import machine

from quietshelf.curation.coins import Coins
from quietshelf.serving.service import writer
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.database import lookup, prepared, schema
from quietshelf.serving.service.models import ItemBody, ShelfBody
from quietshelf.serving.service.problems import Failure, Invalid, NotFound, Unavailable
from quietshelf.serving.service.releases.schedule import PATIENCE
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors import slot_rows
from quietshelf.serving.service.visitors.answers import Choice
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.offers import OfferRequest
from quietshelf.serving.service.writer import AGAIN

NAMES = [f"shelf-{n}" for n in range(8)]
KEPT = (schema.offers, schema.batches, schema.leases, schema.persons, schema.retries, schema.shelves)


@contextmanager
def shops(database: str, folder: Path, block: int = 0, names: Sequence[str] = NAMES) -> Iterator[Service]:
    """Shelves that have had a visitor each, of a process that leases so many slots; nothing runs by itself."""
    clock = FakeClock()
    service = machine(database, folder / "secrets", clock, coins=lambda shelf: Coins(b"%d" % shelf))
    service.prepare()
    service.leasing.block = lambda _, free: min(block, free)
    with service.store.write() as connection:
        for name in names:
            shelves.put(connection, name, ShelfBody.model_validate(SHELF), clock.time)
            items.put_items(connection, name, [ItemBody.model_validate(item) for item in ITEMS])
    placed(service, [asked(service, name, n) for n, name in enumerate(names)])
    yield service
    service.following.catalogues.close()
    service.store.close()


def asked(service: Service, name: str, number: int, **body: Any) -> OfferRequest:
    """A visitor with a person id, whose number is that of the visit, and an Idempotency-Key."""
    features = {"features": [0.1 * number, -0.2], **body}
    return visit(name, service.store.local_now(0.0), f"key-{number}", person=f"person {number}", **features)


def placed(service: Service, requests: Sequence[OfferRequest]) -> list[Any]:
    """One transaction, and what the writer does after it."""
    with service.store.write() as connection:
        replies = service.writing.place(connection, requests)
    service.writing.settled(True, [])
    return replies


def chosen(service: Service, offers: Sequence[Any]) -> list[Choice]:
    """Answers to offers, by whoever may answer at every shelf."""
    tickets = [service.vault.ticket(each["offer"]) for each in offers]
    now = Receipt(service.store.local_now(0.0))
    return [
        Choice(ticket, each["items"][0], now)
        for ticket, each in zip(tickets, offers, strict=True)
        if ticket is not None
    ]


def statements(service: Service, work: Callable[[Connection], list[Any]]) -> tuple[list[str], list[Any]]:
    """What PostgreSQL itself says that it was asked for in one transaction, and what came of it."""
    seen: list[str] = []
    with service.store.write() as connection:
        driver: Any = connection.connection.driver_connection
        connection.execute(sa.text("SET LOCAL log_statement = 'all'"))
        connection.execute(sa.text("SET LOCAL client_min_messages = 'log'"))

        def hear(told: Any) -> None:
            seen.append(told.message_primary)

        driver.add_notice_handler(hear)
        found = work(connection)
        driver.remove_notice_handler(hear)
    return seen, found


@pytest.mark.parametrize("block", [0, 16])
def test_statements_of_a_transaction_do_not_grow_with_shelves(postgres: Any, tmp_path: Path, block: int) -> None:
    """Eight visitors of eight shelves cost as many as eight of one, with slots that are leased and without."""
    with shops(fresh_postgres(postgres), tmp_path, block) as service:
        counts: list[tuple[int, int]] = []
        for turn, names in enumerate(([NAMES[0]] * 8, NAMES)):
            visits = [asked(service, name, 100 * (turn + 1) + n) for n, name in enumerate(names)]
            of_offers, offers = statements(service, partial(service.writing.place, requests=visits))
            service.writing.settled(True, [])
            of_answers, _ = statements(service, partial(service.writing.take_choices, choices=chosen(service, offers)))
            counts.append((len(of_offers), len(of_answers)))
        assert counts[0] == counts[1]
        assert 0 < counts[0][0] <= 14


@pytest.mark.parametrize("block", [0, 4])
def test_shelves_in_one_transaction_are_as_each_alone(database: str, tmp_path: Path, block: int) -> None:
    """Every reply, and every row that is kept, but the random part of an offer's id."""
    both = [f"sqlite:///{tmp_path}/other.db", database] if database.startswith("sqlite") else [database] * 2
    found = []
    for turn, alone in enumerate((True, False)):
        if turn and not database.startswith("sqlite"):
            _emptied(database)
        with shops(both[turn], tmp_path / str(turn), block, NAMES[:3]) as service:
            groups = [[asked(service, NAMES[n % 3], 10 + n) for n in range(step, step + 15)] for step in (0, 15)]
            offers = []
            for group in groups:
                parts = [[r for r in group if r.shelf == name] for name in NAMES[:3]] if alone else [group]
                replies = {
                    r.retry: reply for part in parts for r, reply in zip(part, placed(service, part), strict=True)
                }
                offers += [replies[r.retry] for r in group]
            for part in [[each] for each in chosen(service, offers)] if alone else [chosen(service, offers)]:
                with service.store.write() as connection:
                    assert service.writing.take_choices(connection, part) == [None] * len(part)
            found.append((service.vault, [_plain(each) for each in offers], _rows(service)))
    (_, first, rows), (_, second, others) = found
    assert first == second
    assert rows == others


def test_what_one_visitor_brings_changes_nothing_of_others_in_the_transaction(tmp_path: Path) -> None:
    """Two worlds that differ in one visitor's features, wishes and answer: to the last bit, at every shelf."""
    found = []
    for world, private in enumerate(({}, {"features": [1e200, -1e-310], "capacity": 1, "exclude": ["item 1"]})):
        folder = tmp_path / str(world)
        folder.mkdir()
        with shops(f"sqlite:///{folder}/shop.db", folder, names=NAMES[:3]) as service:
            visits = [asked(service, NAMES[n % 3], 20 + n) for n in range(9)]
            visits[4] = asked(service, NAMES[1], 24, **private)
            offers = placed(service, visits)
            answers = chosen(service, offers)
            answers[4] = answers[4]._replace(item=None if world else answers[4].item)
            with service.store.write() as connection:
                replies = service.writing.take_choices(connection, answers)
            table = schema.offers
            others = sa.select(*(table.c[name] for name in ("items", "answer", "contribution", "made"))).where(
                sa.or_(table.c.shelf != 2, table.c.slot != 2)
            )
            with service.store.read() as connection:
                kept = connection.execute(others.order_by(table.c.shelf, table.c.slot)).all()
            told = [_plain(each) for n, each in enumerate(offers) if n != 4]
            found.append((told, replies, kept, _rows(service, but=schema.offers)))
            assert _plain(offers[4])["offer"] == "2.0.2"
    assert len(found[0][2]) == 11
    assert found[0] == found[1]


def test_who_is_refused_at_one_shelf_is_alone(database: str, tmp_path: Path) -> None:
    """One that is not there, one whose items are being read, a visitor who asks for what cannot be."""
    with shops(database, tmp_path, names=NAMES[:3]) as service:
        look, unread = service.following.catalogues.follow, NAMES[1]

        def follow(connection: Connection, row: Any, limits: Any, before: Any) -> Any:
            if row["name"] == unread:
                raise Unavailable("the items of this shelf are being read; try again in some seconds")
            return look(connection, row, limits, before)

        service.following.catalogues.follow = follow  # type: ignore[method-assign]
        with service.store.write() as connection:
            items.put_items(connection, unread, [ItemBody.model_validate({"id": "new", "features": [1.0, 1.0]})])
        requests = [asked(service, name, 50 + n) for n, name in enumerate([*NAMES[:3], "nowhere"])]
        first, wrong, other, nowhere = placed(
            service, [*requests[:1], asked(service, NAMES[0], 60, features=[1.0]), *requests[2:]]
        )
        assert [type(each) for each in (wrong, nowhere)] == [Invalid, NotFound]
        again = placed(service, [*requests[1:3], requests[0]])
        assert isinstance(again[0], Unavailable)
        assert [each["offer"] for each in again[1:]] == [other["offer"], first["offer"]]
        with service.store.read() as connection:
            arrivals = connection.execute(sa.select(schema.shelves.c.arrivals).order_by(schema.shelves.c.shelf))
            assert arrivals.scalars().all() == [2, 1, 2]


def test_a_shelf_that_is_damaged_fails_its_own_visitors_alone(database: str, tmp_path: Path) -> None:
    """Its row cannot be read: the others of its transaction are served, and nothing of it is kept."""
    with shops(database, tmp_path, names=NAMES[:3]) as service:
        table = schema.shelves
        with service.store.write() as connection:
            damaged = {"config": "{", "config_version": 99}
            connection.execute(sa.update(table).where(table.c.name == NAMES[1]).values(damaged))
        loop = asyncio.new_event_loop()
        names = [NAMES[n % 3] for n in range(9)]
        jobs = [
            writer.Job(service.writing.place, asked(service, name, 50 + n), loop, print) for n, name in enumerate(names)
        ]
        service.writer._commit(jobs)
        loop.close()
        assert [isinstance(job.answer, Failure) for job in jobs] == [name == NAMES[1] for name in names]
        with service.store.read() as connection:
            assert connection.execute(sa.select(table.c.arrivals).order_by(table.c.shelf)).scalars().all() == [4, 1, 4]


@pytest.mark.parametrize("block", [0, 8])
def test_a_cut_at_any_statement_leaves_nothing_at_any_shelf(
    database: str, tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails, all of it is undone; who comes again gets the slots that were next, and none is skipped."""
    with shops(database, tmp_path, block, NAMES[:3]) as service:
        requests = [asked(service, NAMES[n % 3], 50 + n) for n in range(6)]
        before, left = _rows(service), [0]
        for room, name in ((prepared, "driven"), (lookup, "driven"), (slot_rows, "insert_rows")):
            monkeypatch.setattr(room, name, _cut(getattr(room, name), left))
        offers, cuts = list[Any](), 0
        while not offers:
            left[0] = cuts
            try:
                offers = placed(service, requests)
            except Cut:
                service.writing.settled(False, [])
                left[0], cuts = 10**6, cuts + 1
                assert _rows(service) == before
        assert cuts > 6
        slots = [tuple(map(int, each["offer"].split(".")[:3])) for each in offers]
        assert slots == [(1 + n % 3, 0, 1 + n // 3) for n in range(6)]


class Cut(Exception):  # noqa: N818 - the power is cut
    """Everything ends here."""


def _cut(real: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """The same function, until so many statements have been said."""

    def cut(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Cut
        return real(*given, **named)

    return cut


def test_nobody_waits_longer_where_many_releases_are_late(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are published one after the other: that does not begin the wait of another shelf's visitors anew."""
    passed, undone = [0.0], list[Any]()
    schedule = "quietshelf.serving.service.releases.schedule"
    monkeypatch.setattr(f"{schedule}.time", SimpleNamespace(monotonic=lambda: passed[0]))
    with shops(database, tmp_path, names=NAMES[:2]) as service:
        clock: Any = service.store._clock
        for first, name in enumerate(NAMES[:2]):  # the first shelf's batch is due a second before the other's
            placed(service, [asked(service, name, 100 * first + n) for n in range(10, 10 + FIRST - 1)])
            clock.time += 1.0
        monkeypatch.setattr(service.releasing.work, "ask", undone.append)
        clock.time += WINDOW

        def came(name: str, number: int) -> Any:
            passed[0] += 1.0
            service.schedule.look_at = 0.0
            service._chores()
            return placed(service, [asked(service, name, number)])[0]

        assert [came(name, 500) for name in NAMES[:2]] == [AGAIN, AGAIN]
        for number in range(2):  # the first one's sum, then its draw
            while undone[-number].run():
                pass
            last = came(NAMES[0], 600)
        assert last["release"] == 1
        assert came(NAMES[1], 700) is AGAIN
        passed[0] += PATIENCE - 4.0  # by now that has passed since the first was late, not since it was published
        assert came(NAMES[1], 800)["release"] == 0


def _plain(offer: Any) -> dict[str, Any]:
    return {**offer, "offer": offer["offer"].rpartition(".")[0]}


def _rows(service: Service, but: sa.Table | None = None) -> list[list[tuple[Any, ...]]]:
    """All that is kept, but what is random: nonces, names of processes, and hashes under keys of their own."""
    hidden = {"nonce", "holder", "person", "key", "fingerprint"}
    with service.store.read() as connection:
        return [
            sorted(
                map(tuple, connection.execute(sa.select(*(c for c in table.c if c.name not in hidden))).all()),
                key=repr,
            )
            for table in KEPT
            if table is not but
        ]


def _emptied(database: str) -> None:
    engine = sa.create_engine(database)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()
