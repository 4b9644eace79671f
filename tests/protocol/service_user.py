"""The service as a user of the protocol: its own calls, its own writer and releaser, without HTTP and without threads.

Each worker is a `Service`. Requests are stamped and queued as a handler would; a `Write` lets the worker's writer run
until its queue is empty, in this thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import warnings
from collections.abc import Coroutine
from typing import Any, NamedTuple

import sqlalchemy as sa
from tests.protocol.cuts import Stopped, count_arrivals, cut_notes, cut_writes, limit_turns
from tests.protocol.looks import SHELF, plain, public, untimed
from tests.protocol.places import COINS, Place
from tests.protocol.requests import bodies, change, invalid, shelf_body
from tests.protocol.steps import (
    TARGET,
    Answer,
    Arrive,
    Change,
    Crash,
    Erase,
    Invalid,
    Look,
    Lose,
    Save,
    Step,
    Tick,
    Write,
)
from tests.protocol.worlds import Seen, World
from tests.serving.service.backups import put_back_live, snapshot
from tests.serving.service.harness import FakeClock

from quietshelf.serving.service import logs
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.catalogue import items, shelves
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.database.vault import Ticket
from quietshelf.serving.service.models import OfferBody, ShelfBody
from quietshelf.serving.service.pages import views
from quietshelf.serving.service.problems import Problem
from quietshelf.serving.service.service import Service

ADMIN = Key("id", "test", "", frozenset({"admin"}), None)
FOREIGN = Key("id", "test", "", frozenset({"choose"}), "coffees")
FORGED = "1.0.0." + "A" * 24
START = 1_800_000_000.0


class Request(NamedTuple):
    """One that waits for its reply: whose it is, what was asked, when it was received."""

    owner: int | str | None
    what: str
    task: asyncio.Task[Any]
    facts: dict[str, Any]


class ServiceUser:
    """Workers on one database; ``place`` says which."""

    def __init__(self, world: World, place: Place) -> None:
        self._world, self._shop, self._place = world, world.schedule.shop, place
        self.clock = FakeClock(START)
        self._loop = place.loop
        self._offers: dict[int, dict[str, Any]] = {}
        self._waiting: list[list[Request]] = []
        self._standby: Any = None
        place.empty()
        logs.level("debug")
        self._taken: dict[Service, list[Any]] = {}
        self.workers = [self._started() for _ in range(world.schedule.workers)]
        self._rooms = [views.Room.of(each) for each in self.workers]
        self._waiting = [[] for _ in self.workers]
        with self.workers[0].store.write() as connection:
            shelves.put(connection, SHELF, self._settings(), START)
            items.put_items(connection, SHELF, bodies(self._shop))

    def _started(self) -> Service:
        service = self._place.service(
            source=self._world.tape,
            coins=lambda _: COINS,
            clock=self.clock,
            poll_seconds=1e-9 if self._shop.poll else 1e6,
            group_limit=self._shop.group_limit,
            release_seconds=self._shop.release_seconds,
        )
        service.leasing.block = lambda _, free: min(self._shop.block, free)
        service.prepare()
        self._taken[service] = count_arrivals(service)
        return service

    def close(self) -> None:
        """Let go of the database."""
        logs.level("info")
        for worker in range(len(self.workers)):
            self._forget(worker)
            self.workers[worker].store.close()

    def take(self, step: Step) -> list[Seen]:
        """What is received when that happens, log lines included."""
        log = io.StringIO()
        with contextlib.redirect_stderr(log), warnings.catch_warnings():
            warnings.simplefilter("always", RuntimeWarning)  # in a log too, were there any
            seen = self._take(step)
        return seen + [Seen(None, "log", untimed(line)) for line in log.getvalue().splitlines()]

    def kept(self) -> dict[int, Any]:
        """The rows of offers that are not released, but their nonces, by visit."""
        with self.workers[0].store.read() as connection:
            rows = [dict(row) for row in connection.execute(sa.select(schema.offers)).mappings()]
        made = [self.workers[0].vault.offer_id(Ticket(*(row[name] for name in Ticket._fields))) for row in rows]
        kept = {name: {**row, "nonce": None} for name, row in zip(made, rows, strict=True)}
        return {visit: kept[offer["offer"]] for visit, offer in self._offers.items() if offer["offer"] in kept}

    def _take(self, step: Step) -> list[Seen]:
        worker = self.workers[step.worker]
        match step:
            case Tick(seconds=seconds):
                self.clock.time += seconds
            case Arrive(visit=visit):
                retry = f"key of {visit}" if step.retry else None
                self._ask(step.worker, visit, "offer", self._arrival(worker, visit, retry))
            case Answer(visit=visit) if visit in self._offers:
                item, asked = self._answer(worker, step)
                offer = self._offers[visit]
                facts = {"offer": offer["offer"].rpartition(".")[0], "expires": offer["expires"], "item": item}
                self._ask(step.worker, visit, "answer", asked, **facts)
            case Erase(person=person):
                self._ask(step.worker, person, "erasure", worker.erase(SHELF, person))
            case Change():
                self._ask(step.worker, None, "change", change(worker, SHELF, step))
            case Invalid(kind="forged id"):
                self._ask(step.worker, None, "refusal", worker.choose(FORGED, None, ADMIN))
            case Invalid():
                self._refused(step)
            case Write():
                return self._write(step.worker)
            case Look():
                return self._look(step.worker)
            case Save():
                self._standby = snapshot(worker.store)
            case Lose() if self._standby is not None:
                put_back_live(worker.store, self._standby)
            case Crash():
                return self._crash(step)
        return []

    # What visitors do

    def _settings(self) -> ShelfBody:
        return shelf_body(self._shop)

    def _arrival(self, worker: Service, visit: int, retry: str | None) -> Coroutine[Any, Any, Any]:
        return worker.offer(SHELF, self._body(visit), retry)

    def _answer(self, worker: Service, step: Answer) -> tuple[Any, Coroutine[Any, Any, Any]]:
        """What tells one answer from another, and the request."""
        item, key = self._item(step), FOREIGN if step.foreign else ADMIN
        return item, worker.choose(self._offers[step.visit]["offer"], item, key)

    def _body(self, number: int) -> OfferBody:
        visit = self._world.visit(number)
        named = {"person": visit.person, "capacity": visit.capacity, "features": list(visit.features)}
        wishes = {"required": [str(i) for i in visit.required], "exclude": [str(i) for i in visit.exclude]}
        wanted = None if visit.candidates is None else [str(i) for i in visit.candidates]
        return OfferBody.model_validate({**named, **wishes, "candidates": wanted})

    def _item(self, answer: Answer) -> str | None:
        shown = self._offers[answer.visit]["items"]
        if answer.place is None:
            return "an item that nobody has"
        return None if answer.place < 0 or not shown else str(shown[answer.place % len(shown)])

    def _refused(self, step: Invalid) -> None:
        owner = TARGET if step.private else None
        body = OfferBody.model_validate(invalid(self._shop, step.kind))
        self._ask(step.worker, owner, "refusal", self.workers[step.worker].offer(SHELF, body, None))

    def _ask(
        self, worker: int, owner: int | str | None, what: str, asked: Coroutine[Any, Any, Any], **facts: Any
    ) -> None:
        """As a handler does: the request is stamped and in the queue when this returns."""
        task = self._loop.create_task(asked)
        self._loop.run_until_complete(asyncio.sleep(0))
        received = {"received": timestamp(self.clock.time)}
        self._waiting[worker].append(Request(owner, what, task, {**received, **facts}))

    # What machines do

    def _write(self, worker: int) -> list[Seen]:
        """Let the writer run until all is written; if the machine stops on the way, another is started."""
        writer = self.workers[worker].writer
        self._taken[self.workers[worker]].clear()
        writer._queue.put(None)
        limit_turns(writer)
        try:
            writer._run()
            writer._chore()  # the thread would go on
        except Stopped:
            return self._restart(worker)
        return self._replies(worker)

    def _replies(self, worker: int) -> list[Seen]:
        found = self._loop.run_until_complete(_all([each.task for each in self._waiting[worker]]))
        seen = [
            Seen(each.owner, each.what, {**each.facts, **self._reply(each, reply)})
            for each, reply in zip(self._waiting[worker], found, strict=True)
        ]
        self._waiting[worker].clear()
        return seen

    def _reply(self, asked: Request, reply: Any) -> dict[str, Any]:
        """A reply as HTTP would carry it, without the random part of an offer's id."""
        if isinstance(reply, Problem):
            return {"status": reply.status, "body": bytes(reply.response().body)}
        if isinstance(reply, BaseException):
            raise reply
        if asked.what != "offer" or not isinstance(asked.owner, int):
            return {"status": 200, "body": json.dumps(reply)}
        self._offers[asked.owner] = reply
        return {"status": 200, **reply, "offer": reply["offer"].rpartition(".")[0]}

    def _crash(self, step: Crash) -> list[Seen]:
        service = self.workers[step.worker]
        match step.where:
            case "announced" | "committed":
                cut_notes(service, committed=step.where == "committed")
            case "drawn":
                self._world.tape.after_draw = self._stop_once
            case "before" | "after":
                waiting = self._waiting[step.worker]
                taken = self._taken[service]
                cut_writes(service, taken, lambda: _arrivals(waiting), after=step.where == "after")
            case _:
                return self._restart(step.worker)
        return []

    def _stop_once(self) -> None:
        self._world.tape.after_draw = lambda: None
        raise Stopped

    def _restart(self, worker: int) -> list[Seen]:
        """Whoever waited gets no reply; another process takes over."""
        self._forget(worker)
        self._world.tape.after_draw = lambda: None
        self.workers[worker].store.close()
        self.workers[worker] = self._started()
        self._rooms[worker] = views.Room.of(self.workers[worker])
        return []

    def _forget(self, worker: int) -> None:
        tasks = [each.task for each in self._waiting[worker]]
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(_all(tasks))
        self._waiting[worker] = []

    # What anybody may know

    def _look(self, worker: int) -> list[Seen]:
        """Every page and figure but the one that is declared outside the promise, and whether the service is ready."""
        self._ask(worker, None, "ready", self.workers[worker].ready())
        seen = self._write(worker)
        service, room = self.workers[worker], self._rooms[worker]
        room.activity.look()
        with service.store.read() as connection:
            seen += [Seen(None, what, plain(found)) for what, found in public(service, room, connection).items()]
        return seen


def _arrivals(waiting: list[Request]) -> int:
    return sum(each.what in ("offer", "refusal") for each in waiting)


async def _all(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    return list(await asyncio.gather(*tasks, return_exceptions=True))
