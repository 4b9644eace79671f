"""Connections that send too much, too many, too slowly or nothing, over real sockets: others are served."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.serving.service.harness import inline, offered, stocked

from quietshelf.serving.service.http import protocol
from quietshelf.serving.service.http.middleware import GUARDS

ROOM = 12


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.3)
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, connections=ROOM, request_seconds=1.0) as found:
        stocked(found)
        yield found


def connected(client: httpx.Client) -> socket.socket:
    made = socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def reply(given: socket.socket) -> bytes:
    """All that comes until the other side closes; nothing if it closes at once."""
    found = b""
    try:
        while part := given.recv(65536):
            found += part
    except ConnectionError:
        pass
    finally:
        given.close()
    return found


def send(given: socket.socket, content: bytes) -> None:
    """As much as the other side takes."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        given.sendall(content)


@pytest.mark.parametrize(
    "headers",
    [
        b"X-Long: " + b"x" * 200_000 + b"\r\n",
        b"X-Long: " + b"x" * 5_000_000,
        b"".join(b"X-%d: 1\r\n" % n for n in range(5000)),
        b"X: 1\r\n" * 5000,
    ],
    ids=["long", "endless", "many", "the same"],
)
def test_headers_are_bounded(client: httpx.Client, headers: bytes) -> None:
    """By bytes and by number, finished or not: the connection ends, and nothing is asked of the app."""
    given = connected(client)
    send(given, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + headers)
    found = reply(given)
    assert found == b"" or found.startswith(b"HTTP/1.1 400")
    assert offered(client).status_code == 200


def test_an_address_is_bounded_too(client: httpx.Client) -> None:
    """An address of a megabyte is no request."""
    given = connected(client)
    send(given, b"GET /" + b"a" * 1_000_000)
    found = reply(given)
    assert found == b"" or found.startswith(b"HTTP/1.1 400")
    assert offered(client).status_code == 200


def test_those_who_are_let_in_are_served_however_fast_they_ask(client: httpx.Client) -> None:
    """As many connections as there may be, each with one request after the other: what has ended does not count."""
    one = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"

    async def asking() -> set[bytes]:
        place = (str(client.base_url.host), client.base_url.port)
        pairs = [await asyncio.open_connection(*place) for _ in range(ROOM - 2)]

        async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> set[bytes]:
            found = set[bytes]()
            for _ in range(100):
                writer.write(one)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
                found.add(head[9:12])
            writer.close()
            return found

        return set[bytes]().union(*await asyncio.gather(*(ask(*pair) for pair in pairs)))

    assert offered(client).status_code == 200  # on a connection of its own
    assert asyncio.run(asking()) == {b"404"}


def test_requests_that_wait_on_a_connection_are_bounded(client: httpx.Client) -> None:
    """Some may come before the reply to the first; thousands end the connection, and nothing is answered."""
    one = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
    given = connected(client)
    send(given, protocol.PIPELINED * one + one.replace(b"Host", b"Connection: close\r\nHost"))
    assert reply(given).count(b"HTTP/1.1 404") == protocol.PIPELINED + 1
    given = connected(client)
    send(given, 1000 * one)
    assert reply(given) == b""
    assert offered(client).status_code == 200


def test_what_is_no_request_is_refused_with_the_headers_of_every_reply(client: httpx.Client) -> None:
    """The app never sees it."""
    given = connected(client)
    send(given, b"nonsense\r\n\r\n")
    head, _, body = reply(given).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert body == b"Invalid HTTP request received."
    for name, value in GUARDS:
        assert name + b": " + value in head


@pytest.mark.parametrize("start", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
def test_those_who_send_nothing_are_let_go(client: httpx.Client, start: bytes) -> None:
    """Whether they never begin or never end their headers."""
    given = connected(client)
    send(given, start)
    assert reply(given) == b""


def test_a_body_that_stops_is_let_go(client: httpx.Client) -> None:
    """Its time is that of any request; of a body that was refused, the rest has to come soon."""
    given = connected(client)
    key = client.headers["Authorization"].encode()
    head = b"POST /v1/shelves/teas/offers HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nAuthorization: "
    send(given, head + key + b"\r\n\r\n{")
    assert reply(given).startswith(b"HTTP/1.1 503")
    given = connected(client)
    send(given, b"POST /v1/shelves/teas/offers HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
    assert reply(given).startswith(b"HTTP/1.1 401")


def test_a_form_is_limited_while_it_is_read(client: httpx.Client) -> None:
    """Megabytes without an end are refused after kilobytes, whether their length is said or not."""
    for length in (b"Content-Length: 16000000", b"Transfer-Encoding: chunked"):
        given = connected(client)
        head = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\n" + length + b"\r\n\r\n"
        send(given, head + b"30D40\r\n" + b"k" * 200_000)
        assert reply(given).startswith(b"HTTP/1.1 413")


def test_connections_are_bounded_and_others_come_in_again(client: httpx.Client) -> None:
    """Those above the bound are closed; when the idle ones have timed out there is room."""
    held = [connected(client) for _ in range(4 * ROOM)]
    service = client.service  # type: ignore[attr-defined]
    assert service.settings.connections == ROOM
    for _ in range(100):
        try:
            assert httpx.get(f"{client.base_url}/healthz", timeout=5).status_code == 200
            break
        except httpx.TransportError:
            time.sleep(0.05)
    else:
        raise AssertionError("nobody is let in any more")
    assert all(reply(each) == b"" for each in held)
