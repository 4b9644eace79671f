"""HTTP as it comes in, bounded where uvicorn does not: connections, headers by bytes and number, and time to send them.

Nothing of a request is known here but its size and its pace, which are public.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quietshelf.service.settings import Settings

HEADER_BYTES = 32_768
HEADERS = 100
HEADER_SECONDS = 10.0
"""From a connection, or from the first byte of a request on it, to the end of its headers; and for the rest of a body
that was answered before its end."""


def options(settings: Settings) -> dict[str, Any]:
    """How uvicorn is run."""
    return {
        "http": BoundedProtocol,
        "limit_concurrency": settings.connections,
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,
    }


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _deadline: asyncio.TimerHandle | None = None
    _in_headers = False
    _raw = 0
    _parsed = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, unless there are enough."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
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
        if self._in_headers:
            self._raw += len(data)
            if self._raw > HEADER_BYTES:
                self._refuse()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_headers, self._raw, self._parsed = True, 0, 0
        self._within()

    def on_url(self, url: bytes) -> None:
        """A part of its address."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request goes on to the app."""
        self._in_headers = False
        self._done()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The last byte of its body."""
        self._done()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The rest of a body that nobody reads any more has to come soon."""
        unread = self.cycle is not None and self.cycle.more_body
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._within()

    def _count(self, *parts: bytes) -> None:
        self._parsed += sum(map(len, parts))
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
