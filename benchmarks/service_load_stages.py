"""``python -m benchmarks.service_load_stages serve ...``: the service with a stopwatch on every stage.

``GET /stages`` says where the time went so far. The command that people run has no stopwatch, and is the one that is
measured for speed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import uvicorn
from sqlalchemy.engine.default import DefaultDialect
from starlette.types import ASGIApp, Receive, Scope, Send

from quietshelf.service import answers, app, keys, offers, settings
from quietshelf.service.fast_path import FastPath
from quietshelf.service.service import Service
from quietshelf.service.writer import Writer

STAGES = {
    "http": "read and write sockets, headers, key",
    "parse": "parse, enqueue",
    "decide": "decide what to show",
    "contribute": "bound contributions",
    "write": "statements",
    "commit": "commit, fsync",
    "reply": "reply",
    "chores": "releases, looks around",
}
"""The first holds whatever else the thread of the event loop does."""
Moment = tuple[float, float]
_spent: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
_inside = threading.local()
_begun: ContextVar[Moment] = ContextVar("begun")


def _now() -> Moment:
    return time.perf_counter(), time.thread_time()


def _enter(stage: str, begun: Moment, less: Moment = (0.0, 0.0)) -> Moment:
    """Wall and processor time since ``begun``; what stages inside took is not entered again."""
    wall, cpu = _now()
    taken = wall - begun[0], cpu - begun[1]
    for place, value in enumerate((taken[0] - less[0], taken[1] - less[1], 1)):
        _spent[stage][place] += value
    return taken


def timed(stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a stopwatch."""

    def watched(*given: Any, **named: Any) -> Any:
        before, _inside.taken = getattr(_inside, "taken", (0.0, 0.0)), (0.0, 0.0)
        begun = _now()
        try:
            return call(*given, **named)
        finally:
            taken = _enter(stage, begun, _inside.taken)
            _inside.taken = before[0] + taken[0], before[1] + taken[1]

    return watched


def watch() -> None:
    """Put the stopwatches in."""
    for room, name, stage in (
        (offers, "decide", "decide"),
        (answers, "contributions", "contribute"),
        (Writer, "_together", "write"),
        (DefaultDialect, "do_commit", "commit"),
        (Service, "_chores", "chores"),
    ):
        setattr(room, name, timed(stage, getattr(room, name)))
    serve, submit = FastPath.__call__, Writer.submit

    async def served(self: FastPath, scope: Scope, receive: Receive, send: Send) -> None:
        _begun.set(_now())
        await serve(self, scope, receive, send)
        _enter("reply", _begun.get())

    async def submitted(self: Writer, operation: Any, payload: Any) -> Any:
        _enter("parse", _begun.get(_now()))
        try:
            return await submit(self, operation, payload)
        finally:
            _begun.set(_now())

    setattr(FastPath, "__call__", served)  # noqa: B010 - a method is replaced on purpose
    setattr(Writer, "submit", submitted)  # noqa: B010 - the same


def telling(inner: ASGIApp) -> ASGIApp:
    """An app that also says where its time went: of each stage wall time, processor time, and how often."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/stages":
            await inner(scope, receive, send)
            return
        found = {**_spent, "loop": [0.0, time.thread_time(), 0], "process": [0.0, time.process_time(), 0]}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})

    return told


def run(arguments: list[str]) -> None:
    """As ``quietshelf serve`` does, but for the stopwatches."""
    flags: dict[str, Any] = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(arguments[::2], arguments[1::2], strict=True)
    }
    table = settings.read(flags={**flags, "port": int(flags["port"])})
    watch()
    service = Service(table)
    service.prepare()
    keys.first(service.store)
    sys.stdout.write("the first admin key is made\n")
    sys.stdout.flush()
    sys.setswitchinterval(app.SWITCH_SECONDS)
    threading.Thread(target=app.warm, daemon=True).start()
    uvicorn.run(telling(app.make_app(service)), port=table.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    run(sys.argv[2:])
