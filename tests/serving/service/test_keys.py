"""Who may do what, and what leaves the service besides replies: logs, metrics, the page."""

from __future__ import annotations

import asyncio
import json
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.serving.service.harness import Process, answered, inline, like, offered, stocked, with_key
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.http.middleware import Gate
from quietshelf.serving.service.metrics import Metrics
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors.inbox import Receipt


def test_scopes_are_kept(tmp_path: Path) -> None:
    """Without a key 401, with the wrong scope 403, another shelf and its offers 404."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as admin:
        stocked(admin)
        stocked(admin, "jams")
        offer, other = offered(admin).json(), offered(admin, "jams").json()
        bare, wrong = like(admin, None), like(admin, "Bearer qs_none_of-these")
        forged = like(admin, admin.headers["Authorization"][:-3] + "abc")
        for client in (bare, wrong, forged):
            for reply in (offered(client), answered(client, offer["offer"], None), client.get("/metrics")):
                assert reply.status_code == 401
                assert reply.headers["www-authenticate"] == "Bearer"
        seller, learner, reader = (with_key(admin, scope) for scope in ("offer", "choose", "read"))
        assert offered(seller).status_code == 200
        assert offered(learner).status_code == offered(reader).status_code == 403
        assert answered(seller, offer["offer"], None).status_code == 403
        assert answered(learner, offer["offer"], None).status_code == 204
        assert reader.get("/metrics").status_code == 200
        assert seller.get("/metrics").status_code == 403
        assert reader.put("/v1/shelves/x", json={}).status_code == 403
        narrow = with_key(admin, "offer", "choose", shelf="teas")
        assert offered(narrow).status_code == 200
        assert offered(narrow, "jams").status_code == 404
        assert answered(narrow, other["offer"], None).status_code == 404
        assert answered(narrow, offered(narrow).json()["offer"], None).status_code == 204


def test_a_revoked_key_is_worthless_within_a_poll(tmp_path: Path) -> None:
    """And only its hash was ever stored."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as admin:
        reader = with_key(admin, "read")
        assert reader.get("/v1/shelves").status_code == 200
        _, identity, secret = reader.headers["Authorization"].partition(" ")[2].split("_", 2)
        service = admin.service  # type: ignore[attr-defined]
        with service.store.write() as connection:
            assert secret not in str(connection.exec_driver_sql("SELECT * FROM keys").all())
            keys.revoke(connection, identity, 1.0)
        for _ in range(100):
            if reader.get("/v1/shelves").status_code == 401:
                return
            time.sleep(0.05)
        raise AssertionError("the key still works")


def test_limits_and_mistakes_end_in_problem_details(tmp_path: Path) -> None:
    """Large bodies, long lists, wrong addresses, methods and types; never a stack trace."""
    limits: dict[str, Any] = {"body_limit": 5000, "candidates_limit": 3}
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, **limits) as client:
        stocked(client)
        assert offered(client, candidates=[f"item {n}" for n in range(4)]).status_code == 422
        large = client.post("/v1/shelves/teas/offers", content=b"x" * 6000)
        assert large.status_code == 413

        def chunks() -> Any:
            for _ in range(10):
                yield b"y" * 1000

        assert client.post("/v1/shelves/teas/offers", content=chunks()).status_code == 413
        for reply in (large, client.get("/nowhere"), client.patch("/v1/shelves/teas"), offered(client, features="x")):
            assert reply.headers["content-type"] == "application/problem+json"
            assert {"type", "title", "status", "detail"} <= set(reply.json())


def test_a_request_that_takes_too_long_is_ended() -> None:
    """The caller is told that it may have been done, and how to ask again."""

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def run() -> list[Any]:
        sent: list[Any] = []
        limits = {"settings": ServiceSettings(request_seconds=0.01)}
        receipts = {"stamp": lambda: Receipt(0.0), "let_go": lambda _: None}
        guard = Gate(never, authenticate=never, metrics=Metrics(), **receipts, **limits)  # type: ignore[arg-type]
        await guard({"type": "http", "method": "GET", "path": "/readyz", "headers": []}, never, partial(told, sent))
        return sent

    async def told(sent: list[Any], message: Any) -> None:
        sent.append(message)

    start, body = asyncio.run(run())
    assert start["status"] == 503
    assert "try again with the same Idempotency-Key" in json.loads(body["body"])["detail"]


def test_our_mistakes_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error inside gives a plain 500; the log names type and place, not the values it met."""

    def broken(*_: Any) -> None:
        raise RuntimeError("secret value 4711")

    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        monkeypatch.setattr("quietshelf.serving.service.queries.summary", broken)
        reply = client.get("/v1/shelves/teas")
        monkeypatch.setattr("quietshelf.serving.service.visitors.offers.OfferTransaction.take", broken)
        second = offered(client)
    for each in (reply, second):
        assert each.status_code == 500
        assert "4711" not in each.text
        assert "Traceback" not in each.text
    logged = capfd.readouterr().err
    assert "RuntimeError" in logged
    assert "4711" not in logged


def test_logs_and_metrics_hold_nothing_of_a_visitor(tmp_path: Path) -> None:
    """The real process at its most talkative: no feature, person or choice in the log, no answers in the metrics."""
    process = Process(f"sqlite:///{tmp_path}/shop.db", tmp_path, QUIETSHELF_LOG_LEVEL="debug")
    process.start()
    try:
        with process.client() as client:
            stocked(client)
            offer = offered(client, features=[0.123456, 7.654321], person="Anna Secret").json()
            answered(client, offer["offer"], offer["items"][0])
            offered(client, person="Bertha Secret", features=["wrong 0.123456", 1])
            answered(client, offer["offer"], "no such thing")
            metrics = client.get("/metrics").text
            page = client.get("/docs").text
    finally:
        process.stop()
    logged = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in logged.splitlines() if line.startswith("{")]
    assert any(line["event"] == "request" for line in lines)
    for trace in ("0.123456", "7.654321", "Secret", "item ", offer["offer"], "no such thing", "choice"):
        assert trace not in logged
    assert 'quietshelf_arrivals_total{number="1",shelf="teas"} 1.0' in metrics
    assert "choice" not in metrics
    assert not re.search(r"(src|href)=.?(https?:)?//", page)


def test_the_keys_command_makes_lists_and_revokes(tmp_path: Path) -> None:
    """On the database itself; a key is shown once."""
    where = ["--database", f"sqlite:///{tmp_path}/shop.db", "--secrets", str(tmp_path / "secrets")]
    store = Store(f"sqlite:///{tmp_path}/shop.db", Vault(tmp_path / "secrets"))
    store.migrate()
    store.close()

    def command(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["keys", *arguments, *where])

    made = json.loads(command("create", "--scope", "offer", "--name", "web", "--json").stdout)["key"]
    identity = made.split("_")[1]
    (listed,) = json.loads(command("list", "--json").stdout)["keys"]
    assert (listed["id"], listed["scopes"], listed["name"]) == (identity, ["offer"], "web")
    assert command("revoke", identity).stdout == f"{identity} is revoked\n"
    again = command("revoke", identity)
    assert "key must be one that is not revoked" in str(again.exception)
    assert "scopes must be among" in str(command("create", "--scope", "everything").exception)
