"""A real service under attack, and bystanders who shop there: what they were told, and how long they waited."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.hostile.bounds import BOUNDS, SLACK
from tests.hostile.bystanders import bystanding
from tests.hostile.shoppers import Shopper
from tests.serving.service.harness import FakeClock, Process, inline, offered, stocked
from tests.studies.size import FULL

from quietshelf.serving.service.access import keys
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.settings import ServiceSettings

DAY, WINDOW = 86_400.0, 2.0
ITEMS, OLD_KEYS = (100_000, 1_000_000) if FULL else (2_000, 20_000)
"""Of the large shelf, and Idempotency-Keys that are to be forgotten."""
SECONDS = 20.0 if FULL else 1.0
"""How long an attack that could go on for ever goes on."""
BYSTANDERS, PAUSE = 2, 0.05


@dataclass
class Outcome:
    """What became of one scenario; ``broken`` says which bounds it broke, and is empty if it held."""

    number: int
    tried: str
    found: dict[str, Any] = field(default_factory=dict)
    stall: float = 0.0
    memory: float = 0.0
    requests: int = 0
    broken: list[str] = field(default_factory=list)


@dataclass
class Arena:
    """One service on one database, with its bystanders so far; ``postgres`` is the server, where there is one."""

    process: Process
    folder: Path
    postgres: Any = None
    shoppers: list[Shopper] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(step=BYSTANDERS))

    @property
    def client(self) -> httpx.Client:
        """An admin."""
        return self.process.client()

    def key(self, *scopes: str) -> str:
        """A key that was made over HTTP."""
        with self.client as client:
            return str(client.post("/v1/keys", json={"scopes": scopes}).json()["key"])

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The database, for whoever may open it."""
        store = Store(ServiceSettings(database=self.process.database).url, Vault(self.folder / "secrets"))
        yield store
        store.close()

    def wait(self, until: Callable[[], bool], what: str, seconds: float = 60.0) -> float:
        """Seconds until it holds."""
        began = time.monotonic()
        while not until():
            assert time.monotonic() < began + seconds, f"waited in vain until {what}"
            time.sleep(0.05)
        return time.monotonic() - began

    def run(self, scenario: Scenario) -> Outcome:
        """Let the scenario go on among bystanders, and hold what they saw against its bounds."""
        outcome = Outcome(scenario.number, scenario.tried)
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the most that is held is noted anew
        held, first = memory(self.process.pid), next(self._numbers)
        with bystanding(self.process, BYSTANDERS, PAUSE, first) as shoppers:
            began = time.monotonic()
            try:
                outcome.found = scenario.run(self)
            except AssertionError as error:
                outcome.broken.append(str(error).partition("\n")[0])
            time.sleep(5 * PAUSE)
        self.shoppers += shoppers
        times = [took for shopper in shoppers for at, took in shopper.took if at + took >= began]
        outcome.stall, outcome.requests = max(times, default=0.0), len(times)
        outcome.memory = max(0.0, _most_memory(self.process.pid) - held)
        bound = BOUNDS[scenario.number]
        if outcome.stall > bound.stall * SLACK:
            outcome.broken.append(f"a bystander waited {outcome.stall:.2f} s, {bound.stall * SLACK:g} allowed")
        if outcome.memory > bound.memory:
            outcome.broken.append(f"{outcome.memory:.0f} MiB more were held, {bound.memory:g} allowed")
        return outcome


@dataclass(frozen=True)
class Scenario:
    """What is tried, in a sentence, and how; ``postgres``: needs that database."""

    number: int
    tried: str
    run: Callable[[Arena], dict[str, Any]]
    postgres: bool = False


SCENARIOS: dict[int, Scenario] = {}


def scenario(number: int, tried: str, *, postgres: bool = False) -> Callable[[Callable[[Arena], dict[str, Any]]], Any]:
    """Enter a function as a scenario."""

    def enter(run: Callable[[Arena], dict[str, Any]]) -> Callable[[Arena], dict[str, Any]]:
        SCENARIOS[number] = Scenario(number, tried, run, postgres)
        return run

    return enter


@contextmanager
def opened(database: str, folder: Path, postgres: Any = None) -> Iterator[Arena]:
    """A service whose clock was a day ahead when it was first used, and whose log is on a full disk."""
    with inline(database, folder, clock=FakeClock(time.time() + DAY)) as client:
        stocked(client, window=WINDOW)
        assert offered(client).status_code == 200
        key = client.headers["Authorization"].partition(" ")[2]
        _remember(client.service.store)  # type: ignore[attr-defined]
    process = Process(database, folder, QUIETSHELF_LOG_LEVEL="debug")
    process.key, process.log = key, Path("/dev/full")
    try:
        process.start()
        yield Arena(process, folder, postgres)
    finally:
        process.end()


def _remember(store: Store) -> None:
    """Idempotency-Keys of visitors who were released long ago."""
    for start in range(0, OLD_KEYS, 10_000):
        rows = [
            {"shelf": 1, "key": f"old {n}", "batch": -1, "slot": n, "fingerprint": None, "made": float(n % 100)}
            for n in range(start, start + 10_000)
        ]
        with store.write() as connection:
            connection.execute(schema.retries.insert(), rows)


def revoke_elsewhere(store: Store, key: str) -> None:
    """Revoke a key as a command does: the service is not told."""
    with store.write() as connection:
        keys.revoke(connection, key.split("_")[1], store.now(connection))


def memory(pid: int) -> float:
    """MiB that are held now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _most_memory(pid: int) -> float:
    """The most MiB that were held since it was noted anew."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
