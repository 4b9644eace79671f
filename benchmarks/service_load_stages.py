"""``python -m benchmarks.service_load_stages serve ...``: the service with a stopwatch on every stage.

``GET /stages`` says where the time went so far. Speed is measured on the ordinary command, which has no stopwatches.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import uvicorn
from sqlalchemy.engine.default import DefaultDialect
from starlette.types import ASGIApp, Receive, Scope, Send

from quietshelf.serving.service import settings
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.http import app
from quietshelf.serving.service.http.protocol import options
from quietshelf.serving.service.http.visits import Visit, Visits
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors import answers, offers
from quietshelf.serving.service.writer import Writer

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
"""The first one includes everything else that the event loop's thread does."""
Moment = tuple[float, float]
_spent: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
_inside = threading.local()


def _now() -> Moment:
    return time.perf_counter(), time.thread_time()


def _enter(stage: str, begun: Moment, less: Moment = (0.0, 0.0)) -> Moment:
    """Enter wall and processor time since ``begun``, without that of nested stages."""
    wall, cpu = _now()
    taken = wall - begun[0], cpu - begun[1]
    for place, value in enumerate((taken[0] - less[0], taken[1] - less[1], 1)):
        _spent[stage][place] += value
    return taken


def timed(stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function with a stopwatch."""

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
    """Install the stopwatches."""
    for room, name, stage in (
        (offers, "decide", "decide"),
        (answers, "contributions", "contribute"),
        (Writer, "_together", "write"),
        (DefaultDialect, "do_commit", "commit"),
        (Service, "_chores", "chores"),
        (Visits, "begin", "parse"),
        (Visit, "_answered", "reply"),
    ):
        setattr(room, name, timed(stage, getattr(room, name)))


def telling(inner: ASGIApp) -> ASGIApp:
    """Add ``GET /stages`` to an app: wall time, processor time and count of each stage."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/stages":
            await inner(scope, receive, send)
            return
        found = {**_spent, "loop": [0.0, time.thread_time(), 0], "process": [0.0, time.process_time(), 0]}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})

    return told


def run(arguments: list[str]) -> None:
    """Serve as ``quietshelf serve`` does, with stopwatches."""
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
    uvicorn.run(telling(app.make_app(service)), port=table.port, **options(table))


if __name__ == "__main__":
    run(sys.argv[2:])
