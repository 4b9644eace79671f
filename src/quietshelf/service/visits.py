"""The two requests that every visitor makes, from the last byte to the reply without a task or a framework.

Only what is plain and came in one piece: an offer or an answer in JSON that fits its model, with a key that is known.
Everything else goes to the app, which knows every refusal, as if nobody had looked at it. Both ways end in the same
calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from quietshelf.service.fast_path import CHOICE, CHOICE_PATH, LONGEST_RETRY, OFFER, OFFER_PATH, Headers, Route, as_json
from quietshelf.service.inbox import Receipt
from quietshelf.service.keys import Key
from quietshelf.service.middleware import SMALL, TOO_SLOW, guarded, record
from quietshelf.service.models import ChoiceBody, OfferBody
from quietshelf.service.problems import Failure, Invalid, Problem, TooSlow
from quietshelf.service.service import Service
from quietshelf.service.writer import Operation

Send = Callable[[int, Headers, bytes], None]
VISITS = "visits"
"""Under which name uvicorn keeps them, in the state of the app."""
JSON = (b"content-type", b"application/json")


class Asked(NamedTuple):
    """What a request asks of the writer."""

    route: Route
    operation: Operation
    payload: Any


class Visits:
    """What a process does with them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        settings = service.settings
        self._limits = {OFFER: min(settings.offer_limit, settings.body_limit), CHOICE: min(SMALL, settings.body_limit)}

    def begin(self, url: bytes, headers: Headers, body: bytes, send: Send) -> Visit | None:
        """Ask the writer; None if it is not plain, or to be refused. Then nothing has begun, and the app takes it."""
        path, given = url.decode("latin-1"), dict(reversed(headers))  # of equal names the first counts
        offer, choice = OFFER_PATH.fullmatch(path), CHOICE_PATH.fullmatch(path)
        route = CHOICE if offer is None else OFFER
        plain = given.get(b"content-type", b"").partition(b";")[0] == b"application/json"
        if not plain or (offer or choice) is None or len(body) > self._limits[route]:
            return None
        try:
            key = self.service.keyring.known(given.get(b"authorization", b"").decode("latin-1"))
        except Problem:
            return None  # without a stamp: it would hold releases up
        receipt = self.service.inbox.stamp()
        try:
            if offer is not None:
                asked = self._offer(offer[1], given.get(b"idempotency-key"), body, key, receipt)
            else:
                assert choice is not None  # noqa: S101 - one of them
                asked = self._choice(choice[1], body, key, receipt)
            return Visit(self.service, asked, send)
        except (Problem, ValidationError):
            self.service.let_go(receipt)
            return None

    def _offer(self, shelf: str, retry: bytes | None, body: bytes, key: Key, receipt: Receipt) -> Asked:
        if retry is not None and not 0 < len(retry) <= LONGEST_RETRY:
            raise Invalid("the app says it in full")
        key.may("offer", shelf)
        name = None if retry is None else retry.decode("latin-1")
        request = self.service.offer_request(shelf, OfferBody.model_validate_json(body), name, receipt)
        return Asked(OFFER, self.service.place, request)

    def _choice(self, offer: str, body: bytes, key: Key, receipt: Receipt) -> Asked:
        key.may("choose", key.shelf)
        item = ChoiceBody.model_validate_json(body).item
        return Asked(CHOICE, self.service.take_choices, self.service.choice(offer, item, key, receipt))


class Visit:
    """One of them, in the place of uvicorn's cycle of request and response; ``send`` writes the reply."""

    more_body = False
    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self, service: Service, asked: Asked, send: Send) -> None:
        self._service, self._route, self._send = service, asked.route, send
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
        status, headers, body = _reply(answer)
        if not self.disconnected:
            self._send(status, guarded(headers), body)
        counts = self._route is OFFER  # how many answers there are, and when, is theirs
        if counts:
            record(self._service.metrics, self._route.path, status, time.perf_counter() - self._began)


def _reply(answer: Any) -> tuple[int, Headers, bytes]:
    if isinstance(answer, Exception):
        refusal = (answer if isinstance(answer, Problem) else Failure()).response()
        return refusal.status_code, refusal.raw_headers, bytes(refusal.body)
    if answer is None:
        return 204, [], b""
    body = as_json(answer)
    return 200, [(b"content-length", b"%d" % len(body)), JSON], body
