"""The two requests that every visitor makes, and uploads, taken straight from ASGI: a framework would cost more.

Whatever is not plain (another media type, a path or body that does not fit) goes on to the routes in `app`, which know
every refusal, as if nobody had looked at it. Both ways end in the same calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quietshelf.service import uploading
from quietshelf.service.middleware import is_streamed
from quietshelf.service.models import ChoiceBody, OfferBody
from quietshelf.service.problems import Invalid
from quietshelf.service.service import Service

Headers = list[tuple[bytes, bytes]]
Body = TypeVar("Body", bound=BaseModel)


class Route(NamedTuple):
    """What the log and the metrics call a request."""

    path: str


OFFER, CHOICE = Route("/v1/shelves/{shelf}/offers"), Route("/v1/offers/{offer}/choice")
OFFER_PATH = re.compile(r"/v1/shelves/([A-Za-z0-9][A-Za-z0-9_-]{0,99})/offers")
ITEMS = Route("/v1/shelves/{shelf}/items")
ITEMS_PATH = re.compile(r"/v1/shelves/([A-Za-z0-9][A-Za-z0-9_-]{0,99})/items")
CHOICE_PATH = re.compile(r"/v1/offers/([A-Za-z0-9._=-]{1,200})/choice")
LONGEST_RETRY = 200
MOST_FIELDS = 100
_ENCODED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class FastPath:
    """Middleware behind `Gate`, which has found the key, stamps what is received, and limits size and time."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        lane = None
        if scope["type"] == "http" and scope["method"] in ("POST", "PUT"):
            headers = dict(reversed(scope["headers"]))  # of equal names the first counts
            lane = self._lane(scope["path"], headers) if scope["method"] == "POST" else self._upload(scope, headers)
        await (self._app(scope, receive, send) if lane is None else lane(scope, receive, send))

    def _lane(self, path: str, headers: dict[bytes, bytes]) -> ASGIApp | None:
        if headers.get(b"content-type", b"").partition(b";")[0] != b"application/json":
            return None
        if offer := OFFER_PATH.fullmatch(path):
            return partial(self._offer, offer[1], headers.get(b"idempotency-key"))
        choice = CHOICE_PATH.fullmatch(path)
        return None if choice is None else partial(self._choice, choice[1])

    def _upload(self, scope: Scope, headers: dict[bytes, bytes]) -> ASGIApp | None:
        shelf = ITEMS_PATH.fullmatch(scope["path"]) if is_streamed(scope) else None
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().decode("latin-1")
        return None if shelf is None else partial(self._items, shelf[1], kind)

    async def _items(self, shelf: str, kind: str, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = ITEMS
        scope["key"].may("admin", shelf)
        reply = await uploading.receive(self._service, shelf, kind, _parts(receive))
        await _json(send, reply)

    async def _offer(self, shelf: str, retry: bytes | None, scope: Scope, receive: Receive, send: Send) -> None:
        content = await _whole(receive)
        body = _parsed(OfferBody, content)
        if body is None:
            _check_fields(content)
        if body is None or (retry is not None and not 0 < len(retry) <= LONGEST_RETRY):
            await self._app(scope, _again(content, receive), send)
            return
        scope["route"] = OFFER
        scope["key"].may("offer", shelf)
        key = None if retry is None else retry.decode("latin-1")
        reply = await self._service.offer(shelf, body, key, scope["receipt"])
        await _json(send, reply)

    async def _choice(self, offer: str, scope: Scope, receive: Receive, send: Send) -> None:
        content = await _whole(receive)
        body = _parsed(ChoiceBody, content)
        if body is None:
            await self._app(scope, _again(content, receive), send)
            return
        scope["route"] = CHOICE
        key = scope["key"]
        key.may("choose", key.shelf)
        await self._service.choose(offer, body.item, key, scope["receipt"])
        await _reply(send, 204, [], b"")


def _check_fields(content: bytes) -> None:
    """Refuse a body of nothing but fields: the framework would build an error for each."""
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return
    if isinstance(given, dict) and len(given) > MOST_FIELDS:
        raise Invalid(f"a request must have at most {MOST_FIELDS} fields, got {len(given)}")


def _parsed(kind: type[Body], content: bytes) -> Body | None:
    try:
        return kind.model_validate_json(content)
    except ValidationError:
        return None


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _whole(receive: Receive) -> bytes:
    return b"".join([part async for part in _parts(receive)])


def _again(content: bytes, receive: Receive) -> Receive:
    """The body, once more, for whoever looks at the request next."""
    left: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def replayed() -> Message:
        return left.pop() if left else await receive()

    return replayed


def as_json(reply: dict[str, Any]) -> bytes:
    """A reply as bytes."""
    return _ENCODED(reply).encode()


async def _json(send: Send, reply: dict[str, Any]) -> None:
    text = as_json(reply)
    length = (b"content-length", str(len(text)).encode())
    await _reply(send, 200, [length, (b"content-type", b"application/json")], text)


async def _reply(send: Send, status: int, headers: Headers, body: bytes) -> None:
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
