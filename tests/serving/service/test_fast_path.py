"""The fast path and the framework's routes answer the same requests the same way."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from tests.serving.service.harness import FakeClock, inline, stocked


def test_the_short_way_and_the_routes_answer_alike(tmp_path: Path) -> None:
    """A media type that only the framework reads takes the long way: same replies, refusals and records."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client)

        def both(path: str, body: str, **headers: str) -> list[Any]:
            kinds = ("application/json", "application/vnd.shop+json")
            return [client.post(path, content=body, headers={"Content-Type": kind, **headers}) for kind in kinds]

        asked = json.dumps({"features": [0.1, -0.2], "person": "Zoë"})
        short, long = both("/v1/shelves/teas/offers", asked, **{"Idempotency-Key": "one"})
        assert short.status_code == long.status_code == 200
        assert short.json() == long.json()  # the second is the retry of the first
        choice = f"/v1/offers/{short.json()['offer']}/choice"
        assert [reply.status_code for reply in both(choice, '{"item": null}')] == [204, 204]
        for path, body in (
            (choice, json.dumps({"item": short.json()["items"][0]})),
            (choice, '{"item": 7}'),
            (choice, "{"),
            ("/v1/offers/nobody/choice", '{"item": null}'),
            ("/v1/shelves/none/offers", asked),
            *((f"/v1/shelves/{name}/offers", asked) for name in ("n" * 100, "n" * 101, "-none", "no.ne")),
            *((f"/v1/offers/{name}/choice", '{"item": null}') for name in ("n" * 200, "n" * 201, "n n")),
            ("/v1/shelves/teas/offers", '{"features": [1.0]}'),
            ("/v1/shelves/teas/offers", '{"features": [NaN, 1.0]}'),
            ("/v1/shelves/teas/offers", '{"features": [0.1, 0.2], "surplus": 1}'),
            ("/v1/shelves/teas/offers", '{"attributes": {"age": 3}}'),
            ("/v1/shelves/teas/offers", '{"attributes": {"age": {}}}'),
        ):
            short, long = both(path, body)
            assert short.status_code == long.status_code >= 400
            assert short.json() == long.json()
        too_long = {"Idempotency-Key": "k" * 201}
        assert {reply.status_code for reply in both("/v1/shelves/teas/offers", asked, **too_long)} == {422}


def test_requests_in_a_row_in_pieces_and_from_those_who_leave_are_answered_in_order(tmp_path: Path) -> None:
    """Several in one packet, one letter at a time, or with nobody there for the reply: each takes one slot."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client)
        with connected(client) as line:
            line.sendall(asking(client, "a") + asking(client, "b") + asking(client, "a") + asking(client, "c", b"X"))
            first, second, again, refused = replies(line, 4)
            assert first["items"]
            assert second["offer"] != first["offer"] == again["offer"]
            assert refused["status"] == 422
            for letter in asking(client, "a"):
                line.sendall(bytes([letter]))
            assert replies(line, 1) == [first]
        with connected(client) as line:
            line.sendall(asking(client, "d"))
        with connected(client) as line:
            line.sendall(asking(client, "d"))
            assert replies(line, 1)[0]["items"]
        assert client.get("/v1/shelves/teas").json()["arrivals"] == 3


def connected(client: Any) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=20)


def asking(client: Any, retry: str, features: bytes = b"[0.1, 0.2]") -> bytes:
    body = b'{"features": %b}' % features
    head = f"Authorization: {client.headers['Authorization']}\r\nIdempotency-Key: {retry}\r\nHost: x\r\n"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"POST /v1/shelves/teas/offers HTTP/1.1\r\n{head}{kind}".encode() + body


def replies(line: socket.socket, count: int) -> list[Any]:
    """The bodies of so many replies."""
    found, content = [], line.makefile("rb")
    for _ in range(count):
        head = {}
        assert content.readline().startswith(b"HTTP/1.1 ")
        while (row := content.readline()) != b"\r\n":
            name, _, value = row.partition(b": ")
            head[name] = value.strip()
        assert head[b"cache-control"] == b"no-store"
        assert len(head[b"x-request-id"]) == 16
        found.append(json.loads(content.read(int(head[b"content-length"]))))
    return found
