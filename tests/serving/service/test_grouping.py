"""Who shares a transaction, a queue or a machine with whom changes nothing that anybody receives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.serving.service.harness import FIRST, ITEMS, WINDOW, FakeClock, answered, inline, like, offered, visit
from tests.serving.service.machines import machine, shop, visitors

from quietshelf.serving.service import writer
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database.vault import Ticket
from quietshelf.serving.service.models import ItemBody
from quietshelf.serving.service.problems import NotFound, OfferExpired
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors import answers, slot_rows
from quietshelf.serving.service.visitors.answers import Choice
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.offers import RELEASE_FIRST, OfferRequest


def received(service: Service, clock: FakeClock, now: float) -> OfferRequest:
    """A request that comes in now."""
    clock.time = now
    return replace(visit("teas", now), receipt=service.inbox.stamp())


def placed(service: Service, requests: Sequence[OfferRequest]) -> list[Any]:
    """One transaction, and what the writer does after it."""
    with service.store.write() as connection:
        replies = service.writing.place(connection, requests)
    service.writing.settled(
        True, [each for each, reply in zip(requests, replies, strict=True) if reply is not RELEASE_FIRST]
    )
    return replies


@pytest.fixture
def full(database: str, tmp_path: Path) -> Any:
    """A machine whose first batch has just filled, its clock, and when that batch is due."""
    clock = FakeClock()
    service = machine(database, tmp_path / "secrets", clock)
    service.prepare()
    shop(service)
    visitors(service, FIRST)
    yield service, clock, clock.time + WINDOW
    service.store.close()


def test_an_arrival_from_before_a_due_time_waits_for_nothing(full: Any, database: str, tmp_path: Path) -> None:
    """Even if another machine, which releases nothing, has served somebody after it; else both would wait for ever."""
    service, clock, due = full
    other = machine(database, tmp_path / "secrets", clock, releaser=False)
    other.prepare()
    early = received(service, clock, due - 0.001)
    (served,) = placed(other, [received(other, clock, due + 0.001)])
    assert served["release"] == 0
    service._chores()
    (reply,) = placed(service, [early])
    assert reply["release"] == 0
    service._chores()
    (late,) = placed(service, [received(service, clock, due + 1.0)])
    assert late["release"] == 1
    other.store.close()


def test_an_arrival_that_waits_holds_back_only_those_who_came_after_the_due_time(full: Any) -> None:
    """Whatever their order in the queue."""
    service, clock, due = full
    early, late = received(service, clock, due - 0.001), received(service, clock, due + 0.001)
    first, second = placed(service, [late, early])
    assert first is RELEASE_FIRST
    assert second["release"] == 0
    service._chores()
    (again,) = placed(service, [late])
    assert again["release"] == 1


def test_a_refused_answer_is_refused_in_the_same_words_alone_and_in_a_group(full: Any) -> None:
    """A late answer with a key for another shelf: the shelf does not exist for it, whoever else answers."""
    service, clock, due = full
    with service.store.read() as connection:
        shelf = shelf_row(connection, "teas")["shelf"]
        (batch, *_) = slot_rows.in_use(connection, service.store.frozen, [shelf])[shelf].values()
    (offer,) = placed(service, [received(service, clock, clock.time)])
    ticket = service.vault.ticket(offer["offer"])._replace(batch=batch.frozen.number, slot=0)
    late, foreign = Receipt(due), Choice(ticket, None, Receipt(due), "another shelf")
    with service.store.write() as connection:
        (alone,) = answers.take(connection, service.store, [foreign])
    with service.store.write() as connection:
        early, beside, expired = answers.take(
            connection, service.store, [Choice(ticket, None, Receipt(due - 1.0)), foreign, Choice(ticket, None, late)]
        )
    assert isinstance(alone, NotFound)
    assert isinstance(beside, NotFound)
    assert alone.response().body == beside.response().body
    assert isinstance(early, OfferExpired)  # its nonce is another's
    assert isinstance(expired, OfferExpired)


@pytest.mark.parametrize("limit", [1, 2, 3, 64])
def test_what_the_shop_changes_is_seen_by_whoever_asks_after_it(database: str, tmp_path: Path, limit: int) -> None:
    """However the queue is cut into transactions, and however many answers are in it."""
    service = machine(database, tmp_path / "secrets", FakeClock(), group_limit=limit)
    service.prepare()
    shop(service)
    only = [ItemBody.model_validate({"id": item["id"], "available": False}) for item in ITEMS[1:]]

    async def ask() -> list[Any]:
        body = visit("teas", 0.0).body
        asked = [
            asyncio.ensure_future(service.offer("teas", body, None)),
            asyncio.ensure_future(service.put_items("teas", only)),
            asyncio.ensure_future(service.offer("teas", body, None)),
        ]
        await asyncio.sleep(0)
        service.writer.start()
        found = await asyncio.gather(*asked)
        await asyncio.to_thread(service.writer.stop)
        return list(found)

    before, _, after = asyncio.run(ask())
    assert len(before["items"]) == 3
    assert after["items"] == [ITEMS[0]["id"]]
    service.store.close()


def test_answers_that_wait_leave_room_for_offers(full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of request has a queue limit of its own: nobody's answer makes an offer fail."""
    service, _, _ = full
    monkeypatch.setattr(writer, "WAITING", 1)
    admin = keys.Key("id", "test", "", frozenset({"admin"}), None)
    offer = service.vault.offer_id(Ticket(1, 0, 0, b"x" * 9))

    async def ask() -> list[Any]:
        asked = [asyncio.ensure_future(service.choose(offer, None, admin)) for _ in range(2)]
        asked.append(asyncio.ensure_future(service.offer("teas", visit("teas", 0.0).body, None)))
        await asyncio.sleep(0)
        service.writer.start()
        found = await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.to_thread(service.writer.stop)
        return list(found)

    *_, made = asyncio.run(ask())
    assert made["items"]


def test_answers_and_erasures_are_in_no_count_however_they_fail(tmp_path: Path) -> None:
    """Refused before their route is known, by size or key, they are neither counted nor timed."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, body_limit=300, clock=FakeClock()) as client:
        terms = {"rho": 1, "capacity": 1, "window": 9, "feature_map": "item"}
        assert client.put("/v1/shelves/teas", json=terms).status_code == 201
        before = client.get("/metrics").text
        stranger = like(client, None)
        for who in (client, stranger):
            who.post("/v1/offers/x/choice", content="x" * 400)
            who.post("/v1/shelves/teas/erasures", content="x" * 400)
            answered(who, "nobody", None)
            who.post("/v1/shelves/teas/erasures", json={"person": "anna"})
        after = client.get("/metrics").text
        counts = [[line for line in text.splitlines() if "requests_total" in line and "/metrics" not in line]
                  for text in (before, after)]  # fmt: skip
        assert counts[0] == counts[1]
        offered(client)
        assert "offers" in client.get("/metrics").text
