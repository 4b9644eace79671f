"""Visitors for the load test: open connections, prepared requests, hand-written parsing of replies.

An ordinary HTTP client would use more of the machine than the service, which runs on the same one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np

READY = 256
"""Requests that each connection prepares and then sends in turn."""


class Times:
    """Times of offers and answers in seconds, and the total wall time."""

    def __init__(self) -> None:
        self.offers: list[float] = []
        self.answers: list[float] = []
        self.wall = 0.0


class Connection(asyncio.Protocol):
    """Serves one visitor after the other: an offer, its answer, the next."""

    def __init__(
        self,
        key: str,
        number: int,
        until: float,
        times: Times,
        ended: asyncio.Future[None],
        *,
        prefix: str,
        shelves: int,
    ) -> None:
        self._head = f"Host: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: "
        self._prefix, self._shelves, self._run, self._visits = prefix, shelves, os.urandom(6).hex(), number
        self._until, self._times, self._ended = until, times, ended
        self._rng = np.random.default_rng(number)
        self._requests = self._offers()
        self._buffer, self._asked = b"", 0.0
        self._next: Callable[[bytes], None] = self._offered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first visitor."""
        self._transport = cast("asyncio.Transport", transport)
        self._send(next(self._requests), self._offered)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail if the service closes the connection early."""
        if not self._ended.done():
            self._ended.set_exception(exc or ConnectionError("the service closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Collect one reply, which may come in parts."""
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.find(b"content-length: ")
        length = int(self._buffer[at + 16 : self._buffer.index(b"\r", at)]) if 0 <= at < head else 0
        if len(self._buffer) < head + 4 + length:
            return
        reply, self._buffer = self._buffer, b""
        assert reply[9:12] in (b"200", b"204"), reply
        self._next(reply[head + 4 :])

    def _send(self, request: bytes, then: Callable[[bytes], None]) -> None:
        self._next, self._asked = then, time.perf_counter()
        self._transport.write(request)

    def _offered(self, body: bytes) -> None:
        self._times.offers.append(time.perf_counter() - self._asked)
        offer = json.loads(body)
        item = offer["items"][len(self._times.offers) % len(offer["items"])]
        self._send(self._post(f"/v1/offers/{offer['offer']}/choice", f'{{"item":"{item}"}}'), self._answered)

    def _answered(self, _: bytes) -> None:
        now = time.perf_counter()
        self._times.answers.append(now - self._asked)
        if now < self._until:
            self._send(next(self._requests), self._offered)
        else:
            self._ended.set_result(None)
            self._transport.close()

    def _offers(self) -> Iterator[bytes]:
        rows = [str(row) for row in self._rng.normal(size=(READY, 3)).round(4).tolist()]
        return map(self._with_name, itertools.cycle(rows))

    def _with_name(self, row: str) -> bytes:
        """An offer as our client sends it, with a new person and an Idempotency-Key."""
        self._visits += 1
        who = f"{self._run}-{self._visits}"
        body = f'{{"features":{row},"person":"{who}"}}'
        head = f"Idempotency-Key: {who}\r\n{self._head}"
        shelf = f"{self._prefix}-{self._visits % self._shelves}"
        return f"POST /v1/shelves/{shelf}/offers HTTP/1.1\r\n{head}{len(body)}\r\n\r\n{body}".encode()

    def _post(self, path: str, body: str) -> bytes:
        return f"POST {path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n{body}".encode()


def load(ports: Sequence[int], key: str, *, seconds: float, connections: int, prefix: str, shelves: int = 1) -> Times:
    """Run visitors on several connections, spread over the processes, each as fast as it is answered."""
    visiting = _load(ports, key, seconds, connections, prefix, shelves)
    if sys.platform == "win32":
        return asyncio.run(visiting)
    import uvloop

    return uvloop.run(visiting)


async def _load(ports: Sequence[int], key: str, seconds: float, connections: int, prefix: str, shelves: int) -> Times:
    loop, times = asyncio.get_running_loop(), Times()
    began = time.perf_counter()
    ended = [loop.create_future() for _ in range(connections)]
    for number, end in enumerate(ended):

        def make(number: int = number, end: asyncio.Future[None] = end) -> Connection:
            return Connection(key, number, began + seconds, times, end, prefix=prefix, shelves=shelves)

        await loop.create_connection(make, "127.0.0.1", ports[number % len(ports)])
    async with asyncio.timeout(seconds + 30):
        await asyncio.gather(*ended)
    times.wall = time.perf_counter() - began
    return times
