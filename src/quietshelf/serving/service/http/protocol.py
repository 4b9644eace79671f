"""uvicorn's HTTP protocol with limits of its own: on connections, pipelined requests, headers, and time.

It also serves plain visits without the app (`visits`). Limits depend on size and pace alone, which are public.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.http.middleware import guarded
from quietshelf.serving.service.http.visits import VISITS, Head, Visits
from quietshelf.serving.service.settings import ServiceSettings

HEADER_BYTES = 32_768
VISITED = (b"/offers", b"/choice")
"""Path endings of visits."""
HEADERS = 100
PIPELINED = 16
"""Most requests waiting on one connection for earlier replies: one read from the socket can hold thousands."""
BODY_SECONDS = 0.5
"""How long to wait here for the body of a visit: many clients send it after the headers."""
HEADER_SECONDS = 10.0
"""Time limit from connecting, or from the first byte of a request, to the end of the headers; also for the rest of a
body that was answered early."""


def options(settings: ServiceSettings) -> dict[str, Any]:
    """The options uvicorn runs with."""
    return {
        "http": BoundedProtocol,
        "ws": "none",
        "limit_concurrency": settings.connections,
        "access_log": False,
        "log_config": None,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,
    }


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _waiting: tuple[Head, Key, int] | None = None
    _body = b""
    _deadline: asyncio.TimerHandle | None = None
    _in_headers = False
    _raw = 0
    _parsed = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless there are too many."""
        super().connection_made(transport)
        # uvicorn would also count requests that have just ended, and refuse connections that fit the limit
        most, self.limit_concurrency = self.limit_concurrency, None
        if most is not None and len(self.connections) >= most:
            transport.abort()
            return
        self._within()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and count those of headers."""
        super().data_received(data)
        if self._waiting is not None and self._deadline is None:  # the rest is still to come
            self._deadline = self.loop.call_later(BODY_SECONDS, self._to_app)
        if self._in_headers:
            self._raw += len(data)
            if self._raw > HEADER_BYTES:
                self._refuse()
            elif self._deadline is None:
                self._within()

    def on_message_begin(self) -> None:
        """Start counting a request."""
        if len(self.pipeline) >= PIPELINED:
            self._refuse()
            raise ValueError("no more requests may wait on one connection")  # the parser ends
        super().on_message_begin()
        self._in_headers, self._raw, self._parsed = True, 0, 0
        self._done()  # `data_received` sets a new one if the headers are not complete

    def on_url(self, url: bytes) -> None:
        """Count a part of the URL."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request to the app, unless it may be a plain visit."""
        self._in_headers = False
        self._done()
        if self._may_be_visit():
            visits: Visits = self.app_state[VISITS]
            self._waiting, self._body = visits.expected(self.url, self.headers), b""
        if self._waiting is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect the body of a visit, or pass it to the app."""
        if self._waiting is None:
            super().on_body(body)
        elif len(self._body) + len(body) <= self._waiting[2]:
            self._body += body
        else:
            self._to_app()
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Serve a visit whose body is complete, or pass it to the app."""
        self._done()
        if self._waiting is not None and not self._visit(*self._waiting[:2]):
            self._to_app()
        if self._waiting is None:
            super().on_message_complete()
        self._waiting = None

    def _may_be_visit(self) -> bool:
        """Whether this looks like an offer or an answer on an ordinary connection."""
        return (
            self.url.endswith(VISITED)
            and VISITS in self.app_state
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not (self.expect_100_continue or self.parser.should_upgrade() or self.flow.write_paused)
            and (self.cycle is None or self.cycle.response_complete)
            and not self.root_path
        )

    def _visit(self, head: Head, key: Key) -> bool:
        """Try to serve the visit without the app; whether that worked."""
        visits: Visits = self.app_state[VISITS]
        begun = visits.begin(head, key, self._body, self._send)
        if begun is not None:
            self.cycle = begun  # type: ignore[assignment]  # it has every attribute that uvicorn uses
        return begun is not None

    def _to_app(self) -> None:
        """Pass what has arrived of the request to the app."""
        body, self._waiting, self._body = self._body, None, b""
        self._done()
        if not self.transport.is_closing():
            super().on_headers_complete()
            super().on_body(body)

    def _send(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole reply."""
        if self.transport.is_closing():
            return
        lines = [b"%b: %b\r\n" % pair for pair in (*self.server_state.default_headers, *headers)]
        end = b"\r\n" if self.cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((STATUS_LINE[status], *lines, end, body)))
        if not self.cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """Give the unread rest of a body a deadline."""
        unread = self.cycle is not None and self.cycle.more_body
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._within()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with the usual headers, unless the connection is gone."""
        if not self.transport.is_closing():
            told = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(msg))]
            lines = [b"%b: %b\r\n" % pair for pair in guarded([*told, (b"connection", b"close")])]
            self.transport.write(b"".join((STATUS_LINE[400], *lines, b"\r\n", msg.encode("ascii"))))
            self.transport.close()

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > HEADER_BYTES or len(self.headers) >= HEADERS:
            raise ValueError("the headers must be shorter and fewer")  # the parser ends, and the reply is 400

    def _within(self) -> None:
        self._done()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._refuse)

    def _done(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self) -> None:
        """Close the connection without a reply: there was no complete request."""
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.abort()
