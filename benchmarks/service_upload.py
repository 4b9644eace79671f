"""A streamed upload of 10⁶ items while visitors shop at another shelf: seconds, memory, and the longest wait.

32 features per item, as NDJSON and as Parquet, on SQLite and on PostgreSQL. Items are shown all at once when the upload
is complete; a change of one item afterwards shows what a change costs a shelf of that size.
`python -m benchmarks.service_upload [items] [SQLite] [PostgreSQL]`
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import table
from benchmarks.service_load import fsync_ms, postgres, server, settle, stock
from quietshelf.serving.service.http.uploading import NDJSON, PARQUET

ITEMS, FEATURES, CAPACITY, PART = 1_000_000, 32, 10, 10_000
PAUSE, BEFORE, PATIENCE = 0.02, 10.0, 3600.0
"""Seconds between two visits to the other shelf, of visits before the upload, and until an upload times out."""
KINDS = {"NDJSON": NDJSON, "Parquet": PARQUET}
COLUMNS = ("upload", "MB sent", "seconds", "items/s", "shown after", "memory at most, MB", "kept, MB",
           "longest visit before, ms", "meanwhile: 99.9 %", "longest", "a change, ms")  # fmt: skip


def main(items: int = ITEMS) -> None:
    """Print a table for each database."""
    items = next((int(each) for each in sys.argv[1:] if each.isdigit()), items)
    wanted = [name for name in ("SQLite", "PostgreSQL") if name in sys.argv[1:]] or ["SQLite", "PostgreSQL"]
    print(f"{items:,} items, {FEATURES} features; fsync of 4 KiB: {fsync_ms():.2f} ms")
    for name in wanted:
        table(f"{name}", list(COLUMNS), [_row(name, kind, items) for kind in KINDS])


def _row(name: str, kind: str, items: int) -> list[str]:
    with ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/shop.db" if name == "SQLite" else running.enter_context(postgres(folder))
        port, key, pid = running.enter_context(server(url, Path(folder, "secrets")))
        stock(port, key)
        settle(pid)
        client = running.enter_context(_admin(port, key))
        shelf = {"rho": 1.0, "capacity": CAPACITY, "feature_map": "item", "visitor_dim": 0, "window": 60.0}
        made = client.put("/v1/shelves/large", json=shelf)
        assert made.status_code == 201, made.text
        pool = running.enter_context(ProcessPoolExecutor(1, get_context("spawn")))  # it must not wait for the upload
        shopping = pool.submit(_shop, port, key, Path(folder, "over"))
        time.sleep(BEFORE)
        began, held = time.monotonic(), _held(pid, reset_peak=True)
        sent, took = _upload(client, kind, items)
        shown = _shown(client, str(items - 1))
        most, kept = _status(pid, "VmHWM"), _held(pid)
        change = _changed(client)
        Path(folder, "over").touch()
        visits = shopping.result()
    before = [wait for at, wait in visits if began - BEFORE / 2 < at < began]
    meanwhile = [wait for at, wait in visits if began < at < began + took + shown]
    return [
        kind, f"{sent / 1e6:,.0f}", f"{took:,.0f}", f"{items / took:,.0f}", f"{shown:.1f} s", f"{most - held:,.0f}",
        f"{kept - held:,.0f}", f"{1e3 * max(before):.0f}", f"{1e3 * np.quantile(meanwhile, 0.999):.0f}",
        f"{1e3 * max(meanwhile):.0f}", f"{1e3 * change:.0f}",
    ]  # fmt: skip


def _admin(port: int, key: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE
    )


def _shop(port: int, key: str, over: Path) -> list[tuple[float, float]]:
    """When each offer at the other shelf was requested and how long it took, until the file ``over`` appears."""
    waits, ask = list[tuple[float, float]](), {"features": [0.1, 0.2, 0.3]}
    with _admin(port, key) as client:
        while not over.exists():
            began = time.monotonic()
            assert client.post("/v1/shelves/load-0/offers", json=ask).status_code == 200
            waits.append((began, time.monotonic() - began))
            time.sleep(PAUSE)
    return waits


def _parts(items: int) -> Iterator[tuple[list[str], list[list[float]]]]:
    """Ids and features in parts, with six digits like a shop's export."""
    rng = np.random.default_rng(0)
    for first in range(0, items, PART):
        count = min(PART, items - first)
        yield [str(first + n) for n in range(count)], rng.normal(size=(count, FEATURES)).round(6).tolist()


def _lines(items: int) -> Iterator[bytes]:
    for ids, rows in _parts(items):
        made = (json.dumps({"id": name, "features": row}) for name, row in zip(ids, rows, strict=True))
        yield "\n".join(made).encode() + b"\n"


def _parquet(items: int) -> bytes:
    file, writer = io.BytesIO(), None
    for ids, rows in _parts(items):
        part = pa.table({"id": ids, "features": pa.array(rows, pa.list_(pa.float64()))})
        writer = writer or pq.ParquetWriter(file, part.schema)
        writer.write_table(part)
    assert writer is not None
    writer.close()
    return file.getvalue()


def _upload(client: httpx.Client, kind: str, items: int) -> tuple[int, float]:
    """Bytes sent, and seconds until the reply."""
    sent = 0

    def counted(parts: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal sent
        for part in parts:
            sent += len(part)
            yield part

    whole = b"" if kind == "NDJSON" else _parquet(items)
    parts = _lines(items) if kind == "NDJSON" else (whole[at : at + 2**20] for at in range(0, len(whole), 2**20))
    began = time.monotonic()
    headers = {"Content-Type": KINDS[kind]}
    reply = client.put("/v1/shelves/large/items", content=counted(parts), headers=headers)
    assert reply.json() == {"added": items, "changed": 0}, reply.text
    return sent, time.monotonic() - began


def _shown(client: httpx.Client, last: str) -> float:
    """Seconds until an offer can include the last item."""
    began, asked = time.monotonic(), {"required": [last]}
    while (reply := client.post("/v1/shelves/large/offers", json=asked)).status_code != 200:
        assert reply.status_code in {409, 422, 503}, reply.text
        assert time.monotonic() < began + PATIENCE
        time.sleep(0.1)
    return time.monotonic() - began


def _changed(client: httpx.Client) -> float:
    """The median time to change one item and get an offer with it, in seconds."""
    took, item = [], {"id": "0", "features": [0.5] * FEATURES}
    for revenue in range(1, 8):
        body: dict[str, Any] = {"items": [{**item, "revenue": revenue / 8}]}
        began = time.monotonic()
        assert client.put("/v1/shelves/large/items", json=body).status_code == 200
        assert client.post("/v1/shelves/large/offers", json={}).status_code == 200
        took.append(time.monotonic() - began)
    return float(np.median(took))


def _held(pid: int, *, reset_peak: bool = False) -> float:
    """Resident memory in MB; the peak restarts from it if ``reset_peak``."""
    if reset_peak:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _status(pid, "VmRSS")


def _status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
