"""A log that cannot be written stops nothing; a thread that ends is seen, and ends the process."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.serving.service.harness import inline, offered, service_of, stocked

from quietshelf.serving.service import logs
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.writer import Writer


class Full(io.StringIO):
    """A log file on a full disk."""

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def closed() -> io.StringIO:
    found = io.StringIO()
    found.close()
    return found


@pytest.mark.parametrize("stream", [Full(), closed(), None], ids=["full", "closed", "none"])
def test_logging_never_raises(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of stderr."""
    monkeypatch.setattr(sys, "stderr", stream)
    logs.say("error", "something", number=1)
    logs.failed("somewhere", ValueError("secret"))


def test_chores_that_fail_without_a_log_are_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer goes on: what failed is tried again, and visitors are served meanwhile and afterwards."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        service, failed = service_of(client), threading.Event()

        def unable() -> None:
            failed.set()
            raise OSError("no")

        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", Full())
            patch.setattr(service, "_look", unable)
            service.schedule.look_at = 0.0
            assert offered(client).status_code == 200
            assert failed.wait(10)
            assert offered(client).status_code == 200
        assert service.writer.alive
        assert client.get("/healthz").status_code == 200


def test_a_writer_that_ends_is_told(tmp_path: Path) -> None:
    """By a call that, in the service, ends the process."""
    store, told = Store(f"sqlite:///{tmp_path}/a.db", Vault(tmp_path / "secrets")), threading.Event()

    def chores() -> float:
        raise SystemExit

    writer = Writer(store, chores, group_limit=1, died=told.set)
    writer.start()
    assert told.wait(10)
    writer.stop()
    assert not writer.alive
    store.close()


@pytest.mark.parametrize("thread", ["writer", "work"])
def test_health_sees_threads(thread: str, tmp_path: Path) -> None:
    """A process whose writer has ended, or what makes its releases, is not healthy."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        service = service_of(client)
        assert client.get("/healthz").status_code == 200
        (service.writer if thread == "writer" else service.releasing.work).stop()
        assert client.get("/healthz").status_code == 503
