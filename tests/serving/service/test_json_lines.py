"""Whatever starts the service, and whoever logs: every line on stderr is JSON, and no value of a visitor is in it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.serving.service.harness import free_port

OTHERS = """
import logging, logging.config, sys, threading
import numpy as np
import uvicorn.config
logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
from quietshelf.serving.service import logs
logs.take_over()
np.exp(np.array([1e6]))
logging.getLogger("uvicorn.error").error("went wrong: %s", "secret")
logging.getLogger("uvicorn.access").info("%s asked", "secret")
logging.getLogger("asyncio").error("secret in the text")
try:
    raise ValueError("secret")
except ValueError:
    logging.getLogger("somebody.else").exception("secret")
def broken(): raise KeyError("secret")
thread = threading.Thread(target=broken, name="worker")
thread.start()
thread.join()
class Unclean:
    def __del__(self): raise OSError("secret")
Unclean()
"""


def lines(text: str) -> list[dict[str, Any]]:
    """Every line; one that is not JSON is a mistake."""
    return [json.loads(line) for line in text.splitlines()]


def test_what_others_log_is_json_without_values() -> None:
    """NumPy's warning, uvicorn's and asyncio's errors, a thread that ends, and a destructor that fails."""
    run = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, timeout=60, check=True)
    assert "secret" not in run.stderr
    found = lines(run.stderr)
    assert [(line["event"], line["level"]) for line in found] == [
        ("warned", "warning"), *[("logged", "error")] * 3, *[("failed", "error")] * 2,
    ]  # fmt: skip
    warned, uvicorn, asyncio, other, thread, _ = found
    assert warned["category"] == "RuntimeWarning"
    assert uvicorn["text"] == "went wrong: %s"
    assert "text" not in asyncio
    assert other["error"] == "builtins.ValueError"
    assert (thread["where"], thread["error"]) == ("thread worker", "builtins.KeyError")


def test_a_service_that_uvicorn_starts_by_itself_logs_json(tmp_path: Path) -> None:
    """With uvicorn's own logging set up before ours: its start, its warning of what is not HTTP, and no request."""
    port = free_port()
    environment = {
        **os.environ,
        "QUIETSHELF_DATABASE": f"sqlite:///{tmp_path}/shop.db",
        "QUIETSHELF_SECRETS": str(tmp_path / "secrets"),
    }
    words = ["-m", "uvicorn", "--factory", "quietshelf.serving.service.http.app:from_environment", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, *words], stderr=log, env=environment)
    try:
        for content in (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"secret\r\n\r\n"):
            assert b"HTTP/1.1 " in exchanged(port, content)
    finally:
        process.terminate()
        process.wait(30)
    text = (tmp_path / "log").read_text()
    texts = [line.get("text") for line in lines(text)]
    assert "Invalid HTTP request received." in texts
    assert "secret" not in text
    assert "healthz" not in text


def exchanged(port: int, content: bytes) -> bytes:
    """What comes back, once somebody listens."""
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as made:
                made.sendall(content)
                return made.recv(65536)
        except OSError:
            time.sleep(0.05)
    raise AssertionError("nobody listens")
