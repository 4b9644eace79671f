"""HTTP as it comes in, bounded where uvicorn does not: connections, requests waiting on one, headers and their time.

Nothing of a request is known here but its size and its pace, which are public.
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
"""How the addresses of visits end."""
HEADERS = 100
PIPELINED = 16
"""Requests on one connection that wait for the reply to the one before: thousands fit into what is read at once."""
BODY_SECONDS = 0.5
"""How long the body of a visit is waited for here: many clients send it apart from the headers."""
HEADER_SECONDS = 10.0
"""From a connection, or from the first byte of a request on it, to the end of its headers; and for the rest of a body
that was answered before its end."""


def options(settings: ServiceSettings) -> dict[str, Any]:
    """How uvicorn is run."""
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
        """Take it, unless there are enough."""
        super().connection_made(transport)
        # uvicorn would count requests with it, those that have just ended included, and refuse those who may be here
        most, self.limit_concurrency = self.limit_concurrency, None
        if most is not None and len(self.connections) >= most:
            transport.abort()
            return
        self._within()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes; those of headers are counted."""
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
        """A request begins."""
        if len(self.pipeline) >= PIPELINED:
            self._refuse()
            raise ValueError("no more requests may wait on one connection")  # the parser ends
        super().on_message_begin()
        self._in_headers, self._raw, self._parsed = True, 0, 0
        self._done()  # one begins with what is left of these bytes, if that is not all of the headers

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request goes on to the app, unless it may be a visitor's."""
        self._in_headers = False
        self._done()
        if self._may_be_visit():
            visits: Visits = self.app_state[VISITS]
            self._waiting, self._body = visits.expected(self.url, self.headers), b""
        if self._waiting is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        if self._waiting is None:
            super().on_body(body)
        elif len(self._body) + len(body) <= self._waiting[2]:
            self._body += body
        else:
            self._to_app()
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The last byte of its body."""
        self._done()
        if self._waiting is not None and not self._visit(*self._waiting[:2]):
            self._to_app()
        if self._waiting is None:
            super().on_message_complete()
        self._waiting = None

    def _may_be_visit(self) -> bool:
        """Whether it looks like an offer or an answer, and nothing about the connection is special."""
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
        """Whether it needs no app; then it is asked."""
        visits: Visits = self.app_state[VISITS]
        begun = visits.begin(head, key, self._body, self._send)
        if begun is not None:
            self.cycle = begun  # type: ignore[assignment]  # it has all that is used of a cycle
        return begun is not None

    def _to_app(self) -> None:
        """What came of the request so far goes to the app."""
        body, self._waiting, self._body = self._body, None, b""
        self._done()
        if not self.transport.is_closing():
            super().on_headers_complete()
            super().on_body(body)

    def _send(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole reply."""
        if self.transport.is_closing():
            return
        lines = [b"%b: %b\r\n" % pair for pair in (*self.server_state.default_headers, *headers)]
        end = b"\r\n" if self.cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((STATUS_LINE[status], *lines, end, body)))
        if not self.cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """The rest of a body that nobody reads any more has to come soon."""
        unread = self.cycle is not None and self.cycle.more_body
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._within()

    def send_400_response(self, msg: str) -> None:
        """What is no request is refused like others, unless the connection is gone."""
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
        """Nothing was asked, so nothing is answered."""
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.abort()
