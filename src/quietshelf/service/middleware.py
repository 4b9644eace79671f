"""The gate before every route: body size, time, receipts, request log, metrics, no error that says too much."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quietshelf.service import logs
from quietshelf.service.inbox import Receipt
from quietshelf.service.keys import Key
from quietshelf.service.metrics import Metrics
from quietshelf.service.problems import Failure, Problem, TooLarge, TooSlow

LOCKED = ("/v1", "/metrics")
"""Paths that need a key."""
STAMPED = ("/offers", "/choice", "/erasures")
"""How the paths of requests end whose time of receipt counts."""
UNCOUNTED = ("/choice", "/erasures")
"""How the paths of requests end that are neither counted nor timed: who answers or is erased, and when, is private."""
Authenticate = Callable[[str | None], Awaitable[Key]]


class Gate:
    """Pure ASGI, so that it costs next to nothing."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticate,
        stamp: Callable[[], Receipt],
        let_go: Callable[[Receipt], None],
        metrics: Metrics,
        body_limit: int,
        seconds: float,
    ) -> None:
        self._app, self._authenticate, self._metrics = app, authenticate, metrics
        self._stamp, self._let_go = stamp, let_go
        self._limit, self._seconds = body_limit, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), [0]

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                message["headers"].append((b"x-request-id", secrets.token_hex(8).encode()))
            await send(message)

        try:
            problem = await self._run(scope, self._limited(scope, receive), sent)
        except ClientDisconnect:
            return
        finally:
            if "receipt" in scope:
                self._let_go(scope["receipt"])
        if problem is not None and not status[0]:
            await problem.response()(scope, receive, sent)
        self._record(scope, status[0], time.perf_counter() - started)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        if _declared_length(scope) > self._limit:
            return self._too_large()
        try:
            async with asyncio.timeout(self._seconds):
                if scope["path"].startswith(LOCKED):  # before a byte of the body is read
                    scope["key"] = await self._authenticate(_header(scope, b"authorization"))
                await self._app(scope, receive, send)
        except TimeoutError:
            return TooSlow("the request took too long; it may have been done: try again with the same Idempotency-Key")
        except Problem as problem:
            return problem
        except ClientDisconnect:
            raise
        except Exception as error:
            logs.failed(_route(scope), error)
            return Failure()
        return None

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """What is received, counted, and stamped with its last byte (R4): nothing on the way from there is a queue."""
        seen, stamped = [0], scope["path"].endswith(STAMPED)

        async def counted() -> Message:
            message = await receive()
            seen[0] += len(message.get("body", b""))
            if seen[0] > self._limit:
                raise self._too_large()
            if stamped and not message.get("more_body", False) and "receipt" not in scope:
                scope["receipt"] = self._stamp()
            return message

        return counted

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body must be at most {self._limit} bytes; send less, or raise the setting body_limit")

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request, but no answer and no erasure: how many there are, and when, is theirs."""
        route = _route(scope)
        if not scope["path"].rstrip("/").endswith(UNCOUNTED):
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.latency.labels(route).observe(seconds)
            logs.say("debug", "request", route=route, status=status, milliseconds=round(1e3 * seconds, 2))


def _route(scope: Scope) -> str:
    """The pattern of a route, never what was put in its place."""
    route: Any = scope.get("route")
    return getattr(route, "path", "unknown")


def _declared_length(scope: Scope) -> int:
    length = _header(scope, b"content-length") or "0"
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)
