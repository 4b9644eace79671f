"""Scenarios of faults: logs, clocks, secrets, databases and files that are not as they should be."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import sqlalchemy as sa
from tests.hostile.arena import OLD_KEYS, SECONDS, WINDOW, Arena, revoke_elsewhere, scenario
from tests.serving.service.harness import SHELF, free_port, offered, stocked
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.serving.service.database import schema

GRACE = 40.0
"""Seconds that a busy machine may take for what an idle one does at once."""


@contextmanager
def secrets_away(folder: Path) -> Iterator[None]:
    """The folder of secrets can be neither read nor written, even by root."""
    (folder / "secrets").rename(folder / "away")
    (folder / "secrets").write_text("")
    try:
        yield
    finally:
        (folder / "secrets").unlink()
        (folder / "away").rename(folder / "secrets")


def fails(client: httpx.Client) -> bool:
    """Whether the service says that its chores fail, or that it cannot write."""
    reply = client.get("/readyz")
    return reply.status_code == 503 or bool(reply.json()["chores_fail"])


@scenario(0, "nothing: how long bystanders wait on this machine anyway")
def nothing(_: Arena) -> dict[str, Any]:
    """If this breaks its bound, the stalls of the others tell of the machine."""
    time.sleep(SECONDS)
    return {}


@scenario(1, "the log is on a full disk, at its most talkative, and all chores fail for a while")
def full_log(arena: Arena) -> dict[str, Any]:
    """The writer lives on, `/healthz` is right, and releases go on afterwards."""
    with arena.client as client:
        with secrets_away(arena.folder):
            arena.wait(lambda: fails(client), "/readyz says that chores fail", GRACE)
            assert client.get("/healthz").status_code == 200, "the process does not live"
        back = arena.wait(lambda: not fails(client), "chores are done again", GRACE)
        before = releases(client)
        arena.wait(lambda: releases(client) > before, "a release is made again", WINDOW + GRACE)
    return {"seconds_until_chores_are_done_again": round(back, 1)}


@scenario(3, "the service was started a day ahead of time, once")
def clock_ahead(arena: Arena) -> dict[str, Any]:
    """Releases come within their window all the same, and how far ahead it is, is said."""
    with arena.client as client:
        ahead = client.get("/readyz").json()["clock_ahead_seconds"]
        assert ahead > 80_000, f"the service is not ahead: {ahead}"
        before = releases(client)
        took = arena.wait(lambda: releases(client) > before, "a release is made", WINDOW + GRACE)
        late = client.get("/readyz").json()["late_seconds"]
    return {"clock_ahead_seconds": ahead, "seconds_until_a_release": round(took, 1), "late_seconds": late}


@scenario(5, "a key is revoked by another process while the folder of secrets cannot be written")
def revoked(arena: Arena) -> dict[str, Any]:
    """It is refused within a poll or two."""
    key = arena.key("offer")
    with arena.store() as store, arena.client as client:
        client.headers["Authorization"] = f"Bearer {key}"
        assert offered(client).status_code == 200, "the new key is not taken"
        with secrets_away(arena.folder):
            revoke_elsewhere(store, key)
            took = arena.wait(lambda: offered(client).status_code == 401, "the key is refused", GRACE)
    return {"seconds_until_refused": round(took, 2)}


@scenario(6, "a row of one shelf is locked, then PostgreSQL is down", postgres=True)
def locked_row(arena: Arena) -> dict[str, Any]:
    """Other shelves are served; reads say 503 while the database is away, and go on when it is back."""
    with arena.client as client:
        stocked(client, "locked")
        with psycopg.connect(arena.process.database) as other:
            other.execute("SELECT * FROM shelves WHERE name = 'locked' FOR UPDATE")
            began = time.monotonic()
            refused = offered(client, "locked").status_code
            took = time.monotonic() - began
            assert refused == 503, f"an offer of the locked shelf was answered {refused}"
        assert offered(client, "locked").status_code == 200, "the shelf is not served after the lock"
        arena.postgres.stop()
        statuses = {client.get(path).status_code for path in ("/v1/shelves", "/v1/shelves/teas", "/metrics")}
        health = client.get("/healthz").status_code
        arena.postgres.start()
        assert statuses == {503}, f"reads while PostgreSQL was down were answered {statuses}"
        assert health == 200, "a process without its database is not dead"
        back = arena.wait(lambda: client.get("/readyz").status_code == 200, "it is ready again", GRACE)
    return {"seconds_until_the_locked_shelf_was_refused": round(took, 1), "seconds_until_ready": round(back, 1)}


@scenario(7, f"{OLD_KEYS:,} Idempotency-Keys are to be forgotten")
def old_keys(arena: Arena) -> dict[str, Any]:
    """They go piece by piece, while visitors are served, and not only as many as are released."""

    def left() -> int:
        with store.read() as connection:
            query = sa.select(sa.func.count()).select_from(schema.retries).where(schema.retries.c.batch == -1)
            return int(connection.execute(query).scalar_one())

    with arena.store() as store:
        before = left()
        wanted = max(0, before - OLD_KEYS // 20)
        took = arena.wait(lambda: left() <= wanted, "they are forgotten", 3 * GRACE)
    return {"keys_when_it_began": before, "forgotten": before - wanted, "seconds": round(took, 1)}


@scenario(9, "the epoch file is damaged, or the key file is missing")
def damaged_files(arena: Arena) -> dict[str, Any]:
    """The service and `restore` refuse in words of ours, and no other key is made."""
    refused = 0
    for name, file in (("damaged", "epoch.json"), ("missing", "key")):
        folder = arena.folder / name
        shutil.copytree(arena.folder / "secrets", folder / "secrets")
        database = arena.process.database
        if database.startswith("sqlite"):
            with closing(sqlite3.connect(arena.folder / "shop.db")) as live:
                live.execute("VACUUM INTO ?", (str(folder / "shop.db"),))
            database = f"sqlite:///{folder}/shop.db"
        if name == "missing":
            (folder / "secrets" / file).unlink()
        else:
            (folder / "secrets" / file).write_text("{")
        where = ["--database", database, "--secrets", str(folder / "secrets")]
        for command in (["serve", "--port", str(free_port())], ["restore", "--yes"]):
            said = str(CliRunner().invoke(app, [*command, *where]).exception)
            ours = "must" in said and "Expecting" not in said
            assert ours or "no service is using" in said, f"{command[0]} with a {name} {file} said {said}"
            refused += ours
        assert name != "missing" or not (folder / "secrets" / file).exists(), "another key was made"
    return {"refusals": refused}


def releases(client: httpx.Client) -> int:
    """How many there are."""
    return int(client.get("/v1/shelves/teas").json()["releases"])


def a_shelf(client: httpx.Client, name: str, **changes: Any) -> None:
    """A shelf, if there is none of that name yet."""
    assert client.put(f"/v1/shelves/{name}", json={**SHELF, **changes}).status_code in (200, 201)
