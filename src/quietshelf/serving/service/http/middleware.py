"""The gate in front of every route: keys, size and time limits, receipts, metrics, and errors that reveal nothing."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quietshelf.serving.service import logs
from quietshelf.serving.service.access.keyring import address
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.metrics import Metrics
from quietshelf.serving.service.models import NAME
from quietshelf.serving.service.problems import Failure, NotFound, Problem, TooLarge, TooSlow
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors.inbox import Receipt

LOCKED = ("/v1", "/metrics")
"""Paths that need a key."""
STAMPED = ("/offers", "/slots", "/choice", "/contribution", "/erasures")
"""Path endings of requests whose time of receipt matters."""
UNCOUNTED = ("/choice", "/contribution", "/erasures")
"""Path endings of requests that are neither counted nor timed: who answers or is erased, and when, is private."""
SMALL = 16_384
"""The most bytes of a form, an answer or an erasure."""
ITEMS_PATH = re.compile(f"/v1/shelves/({NAME})/items")
SHELF_PATH = re.compile("(/v1)?/shelves/[^/]*/?")
"""Ends in the name of a shelf, which may be called ``items`` or ``choice``."""
STREAMED = ("application/x-ndjson", "application/vnd.apache.parquet")
"""Media types of uploads of items."""
CLOSED = ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'")
GUARDS = (
    (b"content-security-policy", "; ".join(["default-src 'none'", *CLOSED]).encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""On every reply: no browser may treat a reply of the API as a page."""
GUARD_NAMES = frozenset(name for name, _ in GUARDS)
TOO_SLOW = "the request took too long; it may have been done: try again with the same Idempotency-Key"
IDS_AT_ONCE = 512
Authenticate = Callable[[str | None, str], Awaitable[Key]]


class Gate:
    """Pure ASGI middleware, which costs next to nothing."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticate,
        stamp: Callable[[], Receipt],
        let_go: Callable[[Receipt], None],
        metrics: Metrics,
        settings: ServiceSettings,
    ) -> None:
        self._app, self._authenticate, self._metrics = app, authenticate, metrics
        self._stamp, self._let_go, self._settings = stamp, let_go, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on and record one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, ended = time.perf_counter(), 0, False

        async def sent(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = guarded(message["headers"])
            elif not message.get("more_body", False):  # a client with the whole reply must find it counted
                ended = True
                self._record(scope, status, time.perf_counter() - started)
            async with asyncio.timeout(self._settings.request_seconds):  # even if the client reads slowly
                await send(message)

        try:
            problem = await self._run(scope, self._limited(scope, receive), sent)
        except ClientDisconnect:
            return
        finally:
            if "receipt" in scope:
                self._let_go(scope["receipt"])
        if problem is not None and not status:
            await problem.response()(scope, receive, sent)
        if not ended:
            self._record(scope, status, time.perf_counter() - started)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        try:
            if not scope["path"].isprintable():  # a route would match a path before its last newline; limits would not
                raise NotFound("nothing has this address")
            async with asyncio.timeout(None if may_last(scope) else self._settings.request_seconds):
                if scope["path"].startswith(LOCKED):  # before a byte of the body is read
                    scope["key"] = await self._authenticate(_header(scope, b"authorization"), address(scope))
                _check(_declared_length(scope), *body_limit(scope, self._settings))
                await self._app(scope, receive, send)
        except TimeoutError:
            return TooSlow(TOO_SLOW)
        except Problem as problem:
            return problem
        except ClientDisconnect:
            raise
        except Exception as error:
            logs.failed(_route(scope), error)
            return Failure()
        return None

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Count the bytes received, and stamp the request at its last byte, before any queue (R4)."""
        seen, stamped = [0], _ends_with(scope, *STAMPED)
        limit, streamed = body_limit(scope, self._settings), is_streamed(scope)

        async def counted() -> Message:
            async with asyncio.timeout(self._settings.request_seconds if streamed else None):
                message = await receive()
            seen[0] += len(message.get("body", b""))
            _check(seen[0], *limit)
            if stamped and not message.get("more_body", False) and "receipt" not in scope:
                scope["receipt"] = self._stamp()
            return message

        return counted

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request, unless it is an answer or an erasure: their number and times are private."""
        if not _ends_with(scope, *UNCOUNTED):
            parent = _header(scope, b"traceparent")
            record(self._metrics, _route(scope), status, seconds, method=scope["method"], parent=parent)


def record(
    metrics: Metrics, route: str, status: int, seconds: float, *, method: str = "POST", parent: str | None = None
) -> None:
    """Count, trace and log a request."""
    metrics.trace(method, route, status, seconds, parent)
    metrics.requests.labels(route, str(status)).inc()
    metrics.latency.labels(route).observe(seconds)
    logs.say("debug", "request", route=route, status=status, milliseconds=round(1e3 * seconds, 2))


def _request_ids() -> Iterator[bytes]:
    """Random request ids, drawn many at a time: every system call lets another thread go first."""
    while True:
        drawn = secrets.token_hex(8 * IDS_AT_ONCE).encode()
        yield from (drawn[begin : begin + 16] for begin in range(0, len(drawn), 16))


_REQUEST_IDS = _request_ids()


def guarded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Add the security headers that a reply does not set itself, and a request id that its sender can quote."""
    given = list(headers)
    named = {name.lower() for name, _ in given}
    more = GUARDS if named.isdisjoint(GUARD_NAMES) else [pair for pair in GUARDS if pair[0] not in named]
    return [*given, *more, (b"x-request-id", next(_REQUEST_IDS))]


def is_streamed(scope: Scope) -> bool:
    """Whether items are streamed, in or out: such a request may last as long as data keeps moving."""
    name = {"PUT": b"content-type", "GET": b"accept"}.get(scope["method"])
    if name is None or ITEMS_PATH.fullmatch(scope["path"]) is None:
        return False
    return (_header(scope, name) or "").partition(";")[0].strip() in STREAMED


def may_last(scope: Scope) -> bool:
    """Whether the request or its reply is streamed, so that no limit applies to its total time."""
    return is_streamed(scope) or (scope["method"] == "GET" and _ends_with(scope, "/releases"))


def body_limit(scope: Scope, settings: ServiceSettings) -> tuple[int, str]:
    """The largest allowed body, in bytes, and the setting that says so."""
    if is_streamed(scope):
        return settings.upload_limit, "upload_limit"
    if _ends_with(scope, "/offers", "/contribution"):
        found = (settings.offer_limit, "offer_limit")
    elif not scope["path"].startswith(LOCKED) or _ends_with(scope, *UNCOUNTED):
        found = (SMALL, "")
    else:
        found = (settings.body_limit, "body_limit")
    return min(found, (settings.body_limit, "body_limit"))


def _ends_with(scope: Scope, *endings: str) -> bool:
    """Whether a path has one of these endings, other than as the name of a shelf."""
    path = scope["path"]
    return path.rstrip("/").endswith(endings) and SHELF_PATH.fullmatch(path) is None


def _check(size: int, limit: int, setting: str) -> None:
    if size > limit:
        advice = f"; send less, or raise the setting {setting}" if setting else ""
        raise TooLarge(f"the body must be at most {limit} bytes{advice}")


def _route(scope: Scope) -> str:
    """The pattern of the route, never the values in the path."""
    route: Any = scope.get("route")
    return getattr(route, "path", "unknown")


def _declared_length(scope: Scope) -> int:
    length = _header(scope, b"content-length") or "0"
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)
