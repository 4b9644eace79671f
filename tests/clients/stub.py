"""A service that does what a script says: replies, lost replies, replies cut short; and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request: what a table of behaviours speaks of, and its Idempotency-Key and Authorization."""

    method: str
    path: str
    body: Any
    key: str | None
    authorization: str | None


class Stub(ThreadingHTTPServer):
    """Serves each case below a path of its own, ``/<case>/v1/...``: several clients may be driven side by side."""

    daemon_threads = True

    def __init__(self, scripts: dict[str, Sequence[Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.left = {case: list(replies) for case, replies in scripts.items()}
        self.asked: dict[str, list[Asked]] = {case: [] for case in scripts}
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def _serve(self) -> None:
        _, case, rest = self.path.split("/", 2)
        body, headers = self._body(), self.headers
        asked = Asked(self.command, f"/{rest}", body, headers["Idempotency-Key"], headers["Authorization"])
        self.server.asked[case].append(asked)
        reply = self.server.left[case].pop(0)
        self.close_connection = True
        if reply.get("drop"):
            return
        text = reply.get("text", "" if "json" not in reply else json.dumps(reply["json"])).encode()
        self.send_response(reply["status"])
        if reply["status"] != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) // 2] if reply.get("cut") else text)

    do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the names that http.server looks for

    def _body(self) -> Any:
        if self.headers["Transfer-Encoding"] == "chunked":
            text = b"".join(self._chunks())
        else:
            text = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if "ndjson" in (self.headers["Content-Type"] or ""):
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text) if text else None

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def stub(scripts: dict[str, Sequence[Any]]) -> Iterator[Stub]:
    """The scripted service, listening."""
    with Stub(scripts) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
