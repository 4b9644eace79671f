"""Servers for tests: a real process to kill, and one in a thread with injected noise, ties and clock."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from quietshelf.serving.service.access import keys
from quietshelf.serving.service.http.app import make_app
from quietshelf.serving.service.http.protocol import options
from quietshelf.serving.service.models import OfferBody
from quietshelf.serving.service.releases import steps
from quietshelf.serving.service.releases.steps import Charged, Outcome
from quietshelf.serving.service.releases.summing import Sum
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.offers import OfferRequest

WINDOW = 10.0
SHELF = {"rho": 4.0, "capacity": 3, "feature_map": "concat", "visitor_dim": 2, "window": WINDOW, "conversion": 0.21}
ITEMS = [{"id": f"item {n}", "features": [float(n % 3), float(n % 5) / 2]} for n in range(8)]
FIRST = 18
"""Visitors in the first batch of that shelf: 1.3 sqrt(d) / conversion (1 + 1/rho) with d = 5; the second has 25."""

INLINE = {"poll_seconds": 0.2, "log_level": "error", "release_seconds": 0.0}
"""Settings of services that tests run in their own process: a release is published when it is due."""


class FakeClock:
    """Time that passes when a test says so."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.time = start

    def now(self) -> float:
        return self.time


def restless(service: Service) -> Service:
    """The same, for tests that wait for no clock: whatever may have changed is looked at with the next chores."""
    service.check_rest = service.schedule.rest = 0.0
    return service


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def inline(database: str, folder: Path, **injected: Any) -> Iterator[httpx.Client]:
    """The service in a thread of this process; the client carries an admin key, ``client.service`` is the service.

    Whoever does not ``wait`` may be there before the shelves are read.
    """
    wait = injected.pop("wait", True)
    options = {name: injected.pop(name) for name in list(injected) if name not in ("source", "coins", "clock")}
    settings = ServiceSettings(database=database, secrets=str(folder / "secrets"), **{**INLINE, **options})
    service = restless(Service(settings, **injected))
    service.store.migrate()
    with service.store.write() as connection:
        key = keys.create(connection, name="test", scopes=["admin"], shelf=None, now=0.0)
    port = free_port()
    url, headers = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {key}"}
    app = make_app(service)
    app.state.readiness.seconds = 0.0  # tests ask whether the writer has come round
    with (
        serving(app, port),
        ExitStack() as stack,
        httpx.Client(base_url=url, headers=headers, timeout=30) as client,
    ):
        client.service, client.stack, client.app = service, stack, app  # type: ignore[attr-defined]
        while wait and not service.following.preloading.ready:  # as whoever starts a service waits for /readyz
            time.sleep(0.01)
        yield client


@contextmanager
def serving(app: FastAPI, port: int) -> Iterator[None]:
    """The app, listening, in a thread of this process."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, **options(app.state.service.settings)))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


class Process:
    """``quietshelf serve`` as anybody runs it, on a port that stays the same over restarts."""

    def __init__(self, database: str, folder: Path, *, program: str = "quietshelf", **environment: str) -> None:
        self.database, self.folder, self.port = database, folder, free_port()
        self.log = folder / "log"
        self._program = program
        self.key = ""
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Start, and wait until it is ready; how long that took."""
        began = time.monotonic()
        arguments = ["--database", self.database, "--secrets", str(self.folder / "secrets"), "--port", str(self.port)]
        environment = {**os.environ, "QUIETSHELF_POLL_SECONDS": "0.1", "OMP_NUM_THREADS": "1", **self._environment}
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._program, "serve", *arguments],
                stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
            )  # fmt: skip
        if not self.key:
            assert self._process.stdout is not None
            told = self._process.stdout.readline()
            assert "admin key" in told, self._logged()
            self.key = (self.folder / "secrets" / "admin-key").read_text().strip()
            assert self.key.startswith("qs_"), self._logged()
        while time.monotonic() < began + 60:
            try:
                if httpx.get(self.url + "/readyz", timeout=5).status_code == 200:
                    return time.monotonic() - began
            except httpx.TransportError:
                assert self._process.poll() is None, self._logged()
            time.sleep(0.05)
        raise AssertionError("the service did not get ready")

    def _logged(self) -> str:
        return self.log.read_text() if self.log.is_file() else f"nothing is kept in {self.log}"

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=20)

    def kill(self) -> None:
        """No time for anything: kill -9."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._close()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._close()

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _close(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()


def visit(name: str, received: float, retry: str | None = None, **body: Any) -> OfferRequest:
    """One visitor's request, received at that time."""
    asked = OfferBody.model_validate({"features": [0.1, -0.2], **body})
    return OfferRequest(name, asked, retry, Receipt(received))


def stocked(client: httpx.Client, name: str = "teas", **changes: Any) -> None:
    """A shelf with items on it."""
    assert client.put(f"/v1/shelves/{name}", json={**SHELF, **changes}).status_code == 201
    reply = client.put(f"/v1/shelves/{name}/items", json={"items": ITEMS})
    assert reply.json() == {"added": len(ITEMS), "changed": 0}


def offered(client: httpx.Client, name: str = "teas", retry: str | None = None, **body: Any) -> httpx.Response:
    """One visitor."""
    headers = {} if retry is None else {"Idempotency-Key": retry}
    return client.post(f"/v1/shelves/{name}/offers", json={"features": [0.1, -0.2], **body}, headers=headers)


def answered(client: httpx.Client, offer: str, item: str | None) -> httpx.Response:
    """One answer."""
    return client.post(f"/v1/offers/{offer}/choice", json={"item": item})


def passed(client: httpx.Client, clock: FakeClock, seconds: float) -> None:
    """Time passes when nothing is under way beside the writer: chores that are a bit late are not 20 seconds late."""
    beside = client.service.beside  # type: ignore[attr-defined]
    while any(map(beside.busy, ("release", "check", "stay"))):
        time.sleep(0.001)
    clock.time += seconds


def like(client: httpx.Client, authorization: str | None) -> httpx.Client:
    """Another client of the same service, closed with the first."""
    headers = {} if authorization is None else {"Authorization": authorization}
    stack: ExitStack = client.stack  # type: ignore[attr-defined]
    return stack.enter_context(httpx.Client(base_url=client.base_url, headers=headers, timeout=30))


def released_by(service: Service, upto: float) -> Outcome | None:
    """What one releaser finds to release by then: every transaction of a release, announced to nobody."""
    store = service.store
    with store.read() as connection:
        due = [place for place, at in steps.due_batches(connection).items() if at <= upto]
    if not due:
        return None
    with store.write() as connection:
        row = steps.seal(connection, due[0])
    if row is None:
        return None
    summed = Sum(store, row)
    while summed.step():
        pass
    with store.write() as connection:
        charged = steps.charge(connection, service.source, summed)
    if not isinstance(charged, Charged):
        return charged
    after = steps.draw(charged, service.source)
    with store.write() as connection:
        outcome = steps.enter(connection, charged, after)
        steps.publish(connection, upto)
    return outcome


def service_of(client: httpx.Client) -> Service:
    """The service that the client talks to."""
    found: Service = client.service  # type: ignore[attr-defined]
    return found


def with_key(client: httpx.Client, *scopes: str, shelf: str | None = None) -> httpx.Client:
    """A client whose key has these scopes."""
    service = client.service  # type: ignore[attr-defined]
    with service.store.write() as connection:
        key = keys.create(connection, name="x", scopes=scopes, shelf=shelf, now=0.0)
    return like(client, f"Bearer {key}")


def problem(reply: httpx.Response, status: int, kind: str) -> str:
    """The detail of a problem of that status and type."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert (body["status"], body["type"]) == (status, f"urn:quietshelf:problem:{kind}")
    return str(body["detail"])
