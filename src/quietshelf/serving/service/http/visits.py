"""Serves the two requests that every visitor makes, offer and choice, without a framework.

It takes plain requests only: JSON that fits its model, with a known key. Everything else goes untouched to the routes
in `app`, which handle every refusal. All paths end in the same calls.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from quietshelf.serving.service.access.keys import Key, Scope
from quietshelf.serving.service.http.middleware import SMALL, TOO_SLOW, guarded, record
from quietshelf.serving.service.models import LONGEST_OFFER_ID, LONGEST_RETRY, NAME, ChoiceBody, OfferBody
from quietshelf.serving.service.problems import Failure, Problem, TooSlow
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.writer import Operation

Headers = list[tuple[bytes, bytes]]
Send = Callable[[int, Headers, bytes], None]
VISITS = "visits"
"""The key of `Visits` in the app state that uvicorn keeps."""
JSON = (b"content-type", b"application/json")
_ENCODED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Route(NamedTuple):
    """The route in logs and metrics, and the scope it needs."""

    path: str
    scope: Scope


OFFER, CHOICE = Route("/v1/shelves/{shelf}/offers", "offer"), Route("/v1/offers/{offer}/choice", "choose")
OFFER_PATH = re.compile(f"/v1/shelves/({NAME})/offers")
CHOICE_PATH = re.compile(f"/v1/offers/([A-Za-z0-9._=-]{{1,{LONGEST_OFFER_ID}}})/choice")


class Head(NamedTuple):
    """What URL and headers say of a visit: its shelf or offer, the Idempotency-Key, the caller's trace."""

    route: Route
    name: str
    retry: str | None
    trace: str | None


class Asked(NamedTuple):
    """An operation of the writer, and its payload."""

    operation: Operation
    payload: Any


def head_of(path: str, headers: dict[bytes, bytes]) -> Head | None:
    """Parse the head of a visit; None if it is not a plain one."""
    offer = OFFER_PATH.fullmatch(path)
    found = CHOICE_PATH.fullmatch(path) if offer is None else offer
    retry = headers.get(b"idempotency-key") if offer is not None else None
    fits = retry is None or 0 < len(retry) <= LONGEST_RETRY
    if found is None or not fits or headers.get(b"content-type", b"").partition(b";")[0] != JSON[1]:
        return None
    words = (None if each is None else each.decode("latin-1") for each in (retry, headers.get(b"traceparent")))
    return Head(CHOICE if offer is None else OFFER, found[1], *words)


def by_name(headers: Headers) -> dict[bytes, bytes]:
    """Headers by name. The first of equal names wins."""
    return dict(reversed(headers))


class Visits:
    """Serves the visits of one process."""

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings
        self._limits = {OFFER: min(settings.offer_limit, settings.body_limit), CHOICE: min(SMALL, settings.body_limit)}

    def expected(self, url: bytes, headers: Headers) -> tuple[Head, Key, int] | None:
        """Recognise a visit from its head: with the caller's key and the body limit. None leaves it to the app."""
        given = by_name(headers)
        head = head_of(url.decode("latin-1"), given)
        if head is None:
            return None
        try:
            key = self.service.following.keyring.known(given.get(b"authorization", b"").decode("latin-1"))
        except Problem:
            return None
        return head, key, self._limits[head.route]

    def begin(self, head: Head, key: Key, body: bytes, send: Send) -> Visit | None:
        """Hand a visit to the writer. None if it must be refused: then nothing has begun, and the app takes over."""
        receipt = self.service.inbox.stamp()
        try:
            return Visit(self.service, head, self.asked(head, key, body, receipt), send)
        except (Problem, ValidationError):
            self.service.let_go(receipt)
            return None

    def asked(self, head: Head, key: Key, body: bytes, receipt: Receipt) -> Asked:
        """Parse and check a whole request; raises `ValidationError` or a `Problem`."""
        service = self.service
        if head.route is OFFER:
            offer = OfferBody.model_validate_json(body)
            key.may(OFFER.scope, head.name)
            return Asked(service.writing.place, service.offer_request(head.name, offer, head.retry, receipt))
        item = ChoiceBody.model_validate_json(body).item
        key.may(CHOICE.scope, key.shelf)
        return Asked(service.writing.take_choices, service.choice(head.name, item, key, receipt))


class Visit:
    """One visit, standing in for uvicorn's request-response cycle; ``send`` writes the reply."""

    more_body = False
    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self, service: Service, head: Head, asked: Asked, send: Send) -> None:
        self._service, self._head, self._send = service, head, send
        self.disconnected = self.response_complete = False
        self.keep_alive = True
        self._began, loop = time.perf_counter(), asyncio.get_running_loop()
        service.writer.ask(asked.operation, asked.payload, loop, self._answered)  # if it raises, nothing has begun
        self._deadline = loop.call_later(service.settings.request_seconds, self._answered, TooSlow(TOO_SLOW))

    def _answered(self, answer: Any) -> None:
        """Reply once. A write that finishes after the deadline is durable all the same, and a retry finds it."""
        if self.response_complete:
            return
        self.response_complete = True
        self._deadline.cancel()
        status, headers, body = reply_to(answer)
        if not self.disconnected:
            self._send(status, guarded(headers), body)
        route, parent = self._head.route, self._head.trace
        if route is OFFER:  # the number and times of answers are private
            record(self._service.metrics, route.path, status, time.perf_counter() - self._began, parent=parent)


def reply_to(answer: Any) -> tuple[int, Headers, bytes]:
    """Status, headers and body for the writer's answer."""
    if isinstance(answer, Exception):
        refusal = (answer if isinstance(answer, Problem) else Failure()).response()
        return refusal.status_code, refusal.raw_headers, bytes(refusal.body)
    if answer is None:
        return 204, [], b""
    body = _ENCODED(answer).encode()
    return 200, [(b"content-length", b"%d" % len(body)), JSON], body
