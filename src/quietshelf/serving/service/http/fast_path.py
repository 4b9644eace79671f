"""Serves uploads, and visits that the protocol did not take itself (`visits`), directly from ASGI.

Anything unusual (another media type, a path or body that does not fit) goes on untouched to the routes in `app`, which
handle every refusal. All paths end in the same calls.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quietshelf.serving.service.http import uploading
from quietshelf.serving.service.http.middleware import ITEMS_PATH, is_streamed
from quietshelf.serving.service.http.visits import Head, Headers, Route, Visits, by_name, head_of, reply_to
from quietshelf.serving.service.problems import Invalid
from quietshelf.serving.service.service import Service

ITEMS = Route("/v1/shelves/{shelf}/items", "admin")
MOST_FIELDS = 100


class FastPath:
    """Middleware behind `Gate`, which has found the key, stamps requests, and limits their size and time."""

    def __init__(self, app: ASGIApp, *, service: Service) -> None:
        self._app, self._service, self._visits = app, service, Visits(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or pass it on."""
        lane = None
        if scope["type"] == "http" and scope["method"] in ("POST", "PUT"):
            headers = by_name(scope["headers"])
            lane = self._visitor(scope, headers) if scope["method"] == "POST" else self._upload(scope, headers)
        await (self._app(scope, receive, send) if lane is None else lane(scope, receive, send))

    def _visitor(self, scope: Scope, headers: dict[bytes, bytes]) -> ASGIApp | None:
        head = head_of(scope["path"], headers)
        return None if head is None else partial(self._visit, head)

    def _upload(self, scope: Scope, headers: dict[bytes, bytes]) -> ASGIApp | None:
        shelf = ITEMS_PATH.fullmatch(scope["path"]) if is_streamed(scope) else None
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().decode("latin-1")
        return None if shelf is None else partial(self._items, shelf[1], kind)

    async def _items(self, shelf: str, kind: str, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = ITEMS
        scope["key"].may(ITEMS.scope, shelf)
        reply = await uploading.receive(self._service, shelf, kind, _parts(receive), scope["key"].id)
        await _reply(send, *reply_to(reply))

    async def _visit(self, head: Head, scope: Scope, receive: Receive, send: Send) -> None:
        content, scope["route"] = await _whole(receive), head.route
        try:
            asked = self._visits.asked(head, scope["key"], content, scope["receipt"])
        except ValidationError:
            _check_fields(content)
            await self._app(scope, _again(content, receive), send)
            return
        await _reply(send, *reply_to(await self._service.writer.submit(*asked)))


def _check_fields(content: bytes) -> None:
    """Refuse a body with too many fields: the framework would build an error for each."""
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return
    if isinstance(given, dict) and len(given) > MOST_FIELDS:
        raise Invalid(f"a request must have at most {MOST_FIELDS} fields, got {len(given)}")


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
    """Replay the body to the next app."""
    left: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def replayed() -> Message:
        return left.pop() if left else await receive()

    return replayed


async def _reply(send: Send, status: int, headers: Headers, body: bytes) -> None:
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
