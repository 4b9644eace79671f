"""The two requests that every visitor makes, from the last byte to the reply without a framework.

Only what is plain: an offer or an answer in JSON that fits its model, with a key that is known. Everything else goes to
the routes in `app`, which know every refusal, as if nobody had looked at it. All ways end in the same calls.
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
"""Under which name uvicorn keeps them, in the state of the app."""
JSON = (b"content-type", b"application/json")
_ENCODED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Route(NamedTuple):
    """What the log and the metrics call a request, and the scope that a key needs for it."""

    path: str
    scope: Scope


OFFER, CHOICE = Route("/v1/shelves/{shelf}/offers", "offer"), Route("/v1/offers/{offer}/choice", "choose")
OFFER_PATH = re.compile(f"/v1/shelves/({NAME})/offers")
CHOICE_PATH = re.compile(f"/v1/offers/([A-Za-z0-9._=-]{{1,{LONGEST_OFFER_ID}}})/choice")


class Head(NamedTuple):
    """A visit as its address and headers tell it: the shelf or the offer, the Idempotency-Key, the caller's trace."""

    route: Route
    name: str
    retry: str | None
    trace: str | None


class Asked(NamedTuple):
    """What a request asks of the writer."""

    operation: Operation
    payload: Any


def head_of(path: str, headers: dict[bytes, bytes]) -> Head | None:
    """The head of a visit; None if it is not plain."""
    offer = OFFER_PATH.fullmatch(path)
    found = CHOICE_PATH.fullmatch(path) if offer is None else offer
    retry = headers.get(b"idempotency-key") if offer is not None else None
    fits = retry is None or 0 < len(retry) <= LONGEST_RETRY
    if found is None or not fits or headers.get(b"content-type", b"").partition(b";")[0] != JSON[1]:
        return None
    words = (None if each is None else each.decode("latin-1") for each in (retry, headers.get(b"traceparent")))
    return Head(CHOICE if offer is None else OFFER, found[1], *words)


def by_name(headers: Headers) -> dict[bytes, bytes]:
    """Headers by name; of equal names the first counts."""
    return dict(reversed(headers))


class Visits:
    """What a process does with them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings
        self._limits = {OFFER: min(settings.offer_limit, settings.body_limit), CHOICE: min(SMALL, settings.body_limit)}

    def expected(self, url: bytes, headers: Headers) -> tuple[Head, Key, int] | None:
        """A visit whose body may be waited for, with its key and the most bytes of that; None leaves it to the app."""
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
        """Ask the writer; None if it is to be refused. Then nothing has begun, and the app takes it."""
        receipt = self.service.inbox.stamp()
        try:
            return Visit(self.service, head, self.asked(head, key, body, receipt), send)
        except (Problem, ValidationError):
            self.service.let_go(receipt)
            return None

    def asked(self, head: Head, key: Key, body: bytes, receipt: Receipt) -> Asked:
        """What a whole request asks for: `ValidationError` if it does not fit its model, or a `Problem`."""
        service = self.service
        if head.route is OFFER:
            offer = OfferBody.model_validate_json(body)
            key.may(OFFER.scope, head.name)
            return Asked(service.writing.place, service.offer_request(head.name, offer, head.retry, receipt))
        item = ChoiceBody.model_validate_json(body).item
        key.may(CHOICE.scope, key.shelf)
        return Asked(service.writing.take_choices, service.choice(head.name, item, key, receipt))


class Visit:
    """One of them, in the place of uvicorn's cycle of request and response; ``send`` writes the reply."""

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
        """Reply, once: what is written after the deadline is durable all the same, and a retry finds it."""
        if self.response_complete:
            return
        self.response_complete = True
        self._deadline.cancel()
        status, headers, body = reply_to(answer)
        if not self.disconnected:
            self._send(status, guarded(headers), body)
        route, parent = self._head.route, self._head.trace
        if route is OFFER:  # how many answers there are, and when, is theirs
            record(self._service.metrics, route.path, status, time.perf_counter() - self._began, parent=parent)


def reply_to(answer: Any) -> tuple[int, Headers, bytes]:
    """Status, headers and body of what the writer answered."""
    if isinstance(answer, Exception):
        refusal = (answer if isinstance(answer, Problem) else Failure()).response()
        return refusal.status_code, refusal.raw_headers, bytes(refusal.body)
    if answer is None:
        return 204, [], b""
    body = _ENCODED(answer).encode()
    return 200, [(b"content-length", b"%d" % len(body)), JSON], body
