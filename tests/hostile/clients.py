"""Scenarios of hostile clients: with the least privileged key, or with none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from tests.hostile.arena import ITEMS, SECONDS, Arena, scenario
from tests.hostile.faults import a_shelf
from tests.studies.size import FULL

LARGE, LISTED = "warehouse", min(ITEMS, 9_000)
CONNECTIONS = 200 if FULL else 32
SLOW, FORMS, HEADERS = (1024, 100, 64_000_000) if FULL else (600, 30, 8_000_000)
POLICY = "content-security-policy"


def together(work: Callable[[int], Any], times: int) -> list[Any]:
    """The same by so many at once."""
    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(work, range(times)))


def flood(arena: Arena, clients: int, path: str, key: str = "") -> Counter[int]:
    """So many connections that ask the same again and again; the statuses they got."""
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\n" + (f"Authorization: Bearer {key}\r\n" if key else "")
    found: Counter[int] = Counter()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", arena.process.port)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            writer.write(f"{head}\r\n".encode())
            try:
                reply = await reader.readuntil(b"\r\n\r\n")
            except ConnectionError:  # there are enough connections
                return
            await reader.readexactly(int(reply.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
            found[int(reply[9:12])] += 1
        writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(clients)))

    asyncio.run(all_of_them())
    return found


@scenario(14, f"{ITEMS:,} items of 16 features come as one stream, and replies of every kind are looked at")
def upload(arena: Arena) -> dict[str, Any]:
    """They are taken while others are served; no reply is without a policy."""

    def lines() -> Iterator[bytes]:
        for n in range(ITEMS):
            yield json.dumps({"id": f"item-{n}", "features": [n / (k + 1) % 7 for k in range(16)]}).encode() + b"\n"

    with arena.client as client:
        a_shelf(client, LARGE, capacity=3, feature_map="item", visitor_dim=0)
        kind = {"Content-Type": "application/x-ndjson"}
        reply = client.put(f"/v1/shelves/{LARGE}/items", content=lines(), headers=kind, timeout=600)
        assert reply.json() == {"added": ITEMS, "changed": 0}, reply.text
        bare = [name for name in ("/docs", "/", "/nowhere", "/v1/shelves/no", "/healthz", "/static/dashboard.css")
                if POLICY not in client.get(name).headers]  # fmt: skip
        assert not bare, f"replies without a policy: {bare}"
        client.headers.pop("Authorization")
        assert POLICY in client.get("/v1/shelves").headers, "a refusal without a policy"
    return {"items": ITEMS}


@scenario(10, "an `offer` key sends a megabyte of wrong entries, and long lists that contradict each other, 20 at once")
def wrong_lists(arena: Arena) -> dict[str, Any]:
    """All of them are refused, for kilobytes of memory."""
    key = arena.key("offer")
    names = [f"item-{n}" for n in range(LISTED)]
    bodies = [
        json.dumps({"required": [0] * 340_000}),
        json.dumps({"features": [0.0], "required": [0] * 80_000}),
        json.dumps({str(n): n for n in range(15_000)}),
        json.dumps({"required": names, "exclude": names}),
    ]
    found: Counter[int] = Counter()

    def send(number: int) -> None:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        with httpx.Client(base_url=arena.process.url, headers=headers, timeout=120) as client:
            path = f"/v1/shelves/{LARGE}/offers"
            found[client.post(path, content=bodies[number % len(bodies)]).status_code] += 1

    together(send, 20)
    assert set(found) <= {413, 422}, f"they were answered {dict(found)}"
    return {f"status {status}": count for status, count in sorted(found.items())}


@scenario(11, f"without a key: {FORMS} endless forms, {HEADERS // 10**6} MB of headers, {SLOW:,} slow connections")
def endless(arena: Arena) -> dict[str, Any]:
    """Each ends after kilobytes, or seconds."""
    place = ("127.0.0.1", arena.process.port)
    form = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 16000000\r\n\r\n"
    refused: Counter[bytes] = Counter()

    def send(first: bytes, rest: bytes, times: int) -> None:
        with contextlib.suppress(OSError), socket.create_connection(place, timeout=30) as made:
            try:
                made.sendall(first)
                for _ in range(times):
                    made.sendall(rest)
            except OSError:
                pass
            refused[made.recv(100)[9:12]] += 1

    together(lambda _: send(form, b"k" * 65_536, 244), FORMS)
    send(b"GET /healthz HTTP/1.1\r\nX-Long: ", b"x" * 65_536, HEADERS // 65_536)
    send(b"GET /healthz HTTP/1.1\r\n", b"X: 1\r\n" * 10_000, HEADERS // 60_000)
    held = []
    for _ in range(SLOW):
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(place, timeout=30))
            held[-1].sendall(b"GET /heal")
    time.sleep(SECONDS)
    for each in held:
        each.close()
    arena.wait(lambda: lives(arena), "new connections are taken again")
    return {"refused": {status.decode() or "closed": count for status, count in refused.items()}, "slow": len(held)}


@scenario(12, f"{CONNECTIONS} connections with unknown keys, and as many that ask whether it is ready")
def unknown_keys(arena: Arena) -> dict[str, Any]:
    """They are refused from memory, and the probe is written once a second."""
    asking = {"/v1/shelves": "qs_nobody_" + "x" * 32, "/readyz": ""}
    with ThreadPoolExecutor(2) as pool:
        refused, ready = pool.map(lambda each: flood(arena, CONNECTIONS, *each), asking.items())
    assert set(refused) <= {401, 429}, f"unknown keys were answered {dict(refused)}"
    assert set(ready) == {200}, f"probes were answered {dict(ready)}"
    return {"refused": sum(refused.values()), "probes": sum(ready.values())}


@scenario(13, f"8 readers read all {ITEMS:,} items again and again")
def readers(arena: Arena) -> dict[str, Any]:
    """A page at a time, by one thread."""
    found = flood(arena, 8, f"/v1/shelves/{LARGE}/items?limit=10000", arena.key("read"))
    assert set(found) == {200}, f"they were answered {dict(found)}"
    return {"pages": found[200]}


def lives(arena: Arena) -> bool:
    """Whether somebody new is let in."""
    try:
        return httpx.get(f"{arena.process.url}/healthz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False
