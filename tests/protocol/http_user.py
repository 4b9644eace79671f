"""The service over real HTTP: one request after the other, every header and byte of every reply."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from tests.protocol.looks import SHELF
from tests.protocol.places import COINS
from tests.protocol.requests import bodies, invalid, shelf_body
from tests.protocol.service_user import FORGED, START
from tests.protocol.shelf_user import scratch
from tests.protocol.steps import OVERSIZED, TARGET, Answer, Arrive, Change, Erase, Invalid, Look, Step, Tick
from tests.protocol.worlds import Seen, World
from tests.serving.service.harness import FakeClock, inline, like

from quietshelf.serving.service.access import keys
from quietshelf.serving.service.pages import activity
from quietshelf.serving.service.work import Work

LIMIT = 4096
PAGES = (
    "/", f"/shelves/{SHELF}", f"/shelves/{SHELF}/privacy", "/operations", "/metrics", "/readyz",
    "/v1/shelves", "/v1/privacy", *(f"/v1/shelves/{SHELF}{part}" for part in ("", "/items", "/privacy", "/releases")),
)  # fmt: skip
RANDOM = {"date", "x-request-id"}
TIMED = re.compile(
    r'^quietshelf_request_seconds_(?:bucket|sum|created).*$|^.*_created\{.*$|"(?:half|most|nearly_all)_within":[^,}]*,?|'
    r'"milliseconds": [^,}]*|"time": "[^"]*"',
    re.MULTILINE,
)
"""What tells how long the work took, and when."""


class HttpUser:
    """A server, and a client that keeps what everybody gets."""

    def __init__(self, world: World) -> None:
        self._world, self._shop, self.clock = world, world.schedule.shop, FakeClock(START)
        self._offers: dict[int, dict[str, Any]] = {}
        self._stack = contextlib.ExitStack()
        self._log = io.StringIO()
        self._stack.enter_context(contextlib.redirect_stderr(self._log))
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=scratch())))
        # when arrivals are counted is up to the clock on the wall, which no schedule sets
        self._stack.enter_context(mock.patch.object(activity, "SECONDS", 1e6))
        # how long a release takes is the schedule's as well: the writer's thread makes it
        self._stack.enter_context(mock.patch.object(Work, "start", return_value=None))
        served = inline(
            f"sqlite:///{folder}/shop.db", folder, source=world.tape, coins=lambda _: COINS, clock=self.clock,
            poll_seconds=1e6, log_level="debug", body_limit=LIMIT, release_seconds=self._shop.release_seconds,
        )  # fmt: skip
        self._client = self._stack.enter_context(served)
        service: Any = self._client.service  # type: ignore[attr-defined]
        with service.store.write() as connection:
            made = keys.create(connection, name="other", scopes=["choose"], shelf="coffees", now=0.0)
        self._foreign = like(self._client, f"Bearer {made}")
        items = [body.model_dump(exclude_none=True) for body in bodies(self._shop)]
        self._client.put(f"/v1/shelves/{SHELF}", json=shelf_body(self._shop).model_dump(by_alias=True))
        self._client.put(f"/v1/shelves/{SHELF}/items", json={"items": items})

    def close(self) -> None:
        """Stop the server."""
        self._stack.close()

    def kept(self) -> dict[int, Any]:
        """Nothing that HTTP shows."""
        return {}

    def take(self, step: Step) -> list[Seen]:
        """What is received when that happens."""
        match step:
            case Tick(seconds=seconds):
                self.clock.time += seconds
                return self._settled()
            case Arrive(visit=visit):
                headers = {"Idempotency-Key": f"key of {visit}"} if step.retry else {}
                reply = self._client.post(f"/v1/shelves/{SHELF}/offers", json=self._body(visit), headers=headers)
                if reply.status_code == 200:
                    self._offers[visit] = reply.json()
                return [_seen(visit, "offer", reply)]
            case Answer(visit=visit) if visit in self._offers:
                return [_seen(visit, "answer", self._answer(step))]
            case Erase(person=person):
                reply = self._client.post(f"/v1/shelves/{SHELF}/erasures", json={"person": person})
                return [_seen(person, "erasure", reply)]
            case Invalid():
                return [_seen(TARGET if step.private else None, "refusal", self._invalid(step))]
            case Change():
                return [_seen(None, "change", self._change(step))]
            case Look():
                return self._look()
        return []

    def _settled(self) -> list[Seen]:
        """Let the writer look twice: what is due is released."""
        service: Any = self._client.service  # type: ignore[attr-defined]
        for _ in range(3):
            service.schedule.look_at = 0.0
            reply = self._client.get("/readyz")
        return [_seen(None, "ready", reply)]

    def _look(self) -> list[Seen]:
        """Every page by its JSON twin, and all that was logged so far, in no particular order."""
        seen = self._settled()
        for path in PAGES:
            seen.append(_seen(None, path, self._client.get(path, headers={"Accept": "application/json"})))
        sys.stderr.flush()
        lines = [TIMED.sub("", line) for line in self._log.getvalue().splitlines()]
        return [*seen, Seen(None, "log", sorted(lines))]

    def _body(self, number: int) -> dict[str, Any]:
        visit = self._world.visit(number)
        wishes = {"required": [str(i) for i in visit.required], "exclude": [str(i) for i in visit.exclude]}
        wanted = None if visit.candidates is None else [str(i) for i in visit.candidates]
        mine = {"features": list(visit.features), "person": visit.person, "capacity": visit.capacity}
        return {**mine, **wishes, "candidates": wanted}

    def _answer(self, step: Answer) -> httpx.Response:
        offer, client = self._offers[step.visit], self._foreign if step.foreign else self._client
        shown, place = offer["items"], step.place
        item = "an item that nobody has" if place is None else None
        if place is not None and place >= 0 and shown:
            item = shown[place % len(shown)]
        content = json.dumps({"item": item}) + " " * (2 * LIMIT if place == OVERSIZED else 0)
        headers = {"Content-Type": "application/json"}
        return client.post(f"/v1/offers/{offer['offer']}/choice", content=content, headers=headers)

    def _invalid(self, step: Invalid) -> httpx.Response:
        if step.kind == "forged id":
            return self._client.post(f"/v1/offers/{FORGED}/choice", json={"item": None})
        body = invalid(self._shop, step.kind)
        if step.kind == "too long":
            body["features"][0] = float("nan")
        content = json.dumps(body)  # which writes it as NaN
        headers = {"Content-Type": "application/json"}
        return self._client.post(f"/v1/shelves/{SHELF}/offers", content=content, headers=headers)

    def _change(self, step: Change) -> httpx.Response:
        path, item = f"/v1/shelves/{SHELF}/items", {"id": str(step.item)}
        changes: dict[str, dict[str, Any]] = {
            "add": {"id": f"new {step.item}", "features": list(step.features), "revenue": step.revenue},
            "features": {"features": list(step.features)},
            "revenue": {"revenue": step.revenue},
        }
        if step.kind == "retire":
            return self._client.post(f"{path}/retire", json={"items": [str(step.item)]})
        change = changes.get(step.kind, {"available": step.kind == "available"})
        return self._client.put(path, json={"items": [{**item, **change}]})


def _seen(owner: int | str | None, what: str, reply: httpx.Response) -> Seen:
    """A reply to the last byte, but for what is random in it and what tells how long the work took."""
    headers = sorted((name, value) for name, value in reply.headers.items() if name not in RANDOM)
    body = TIMED.sub("", reply.text)
    if what == "offer" and reply.status_code == 200:
        body = re.sub(r'("offer":"[0-9.]*\.)[^"]*"', r'\1"', body)
    if what in ("/operations", "/metrics"):
        headers = [pair for pair in headers if pair[0] != "content-length"]  # of what was left out
        body = body.partition(',"admins":')[
            0
        ]  # last, and null for all but admins (tests/serving/service/test_admin.py)
    return Seen(owner, what, (reply.status_code, headers, body))
