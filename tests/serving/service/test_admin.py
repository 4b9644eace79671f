"""Keys over HTTP, keys that expire, and the log of what admins did."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from tests.serving.service.harness import (
    SHELF,
    FakeClock,
    Process,
    inline,
    like,
    offered,
    service_of,
    stocked,
    with_key,
)
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.serving.service import old_rows
from quietshelf.serving.service.access import admin_log, keys
from quietshelf.serving.service.access.keyring import Keyring
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.pages.operations import LATEST, operations
from quietshelf.serving.service.problems import Unauthorised

DAY = 86_400.0


def made(admin: httpx.Client, *scopes: str, **about: Any) -> httpx.Client:
    """A client with a key that was made over HTTP."""
    reply = admin.post("/v1/keys", json={"scopes": scopes, **about})
    assert reply.status_code == 201, reply.text
    return like(admin, f"Bearer {reply.json()['key']}")


def entries(admin: httpx.Client) -> list[dict[str, Any]]:
    """What admins did, the first first."""
    found: list[dict[str, Any]] = admin.get("/v1/admin-log?limit=1000").json()["entries"]
    return found[::-1]


def test_keys_are_made_listed_and_revoked_over_http(database: str, tmp_path: Path) -> None:
    """A key works at once, its secret is in no list, and a revocation holds with the reply."""
    with inline(database, tmp_path) as admin:
        stocked(admin)
        seller = made(admin, "offer", name="web", shelf="teas")
        identity, secret = seller.headers["Authorization"].split("_", 2)[1:]
        assert offered(seller).status_code == 200
        listed = admin.get("/v1/keys")
        (row,) = [each for each in listed.json()["keys"] if each["id"] == identity]
        assert (row["state"], row["scopes"], row["shelf"], row["expires"]) == ("valid", ["offer"], "teas", None)
        assert secret not in listed.text
        assert keys._hash(secret) not in listed.text
        assert admin.delete(f"/v1/keys/{identity}").status_code == 204
        assert offered(seller).status_code == 401
        assert admin.delete(f"/v1/keys/{identity}").status_code == 204
        assert admin.delete("/v1/keys/nobody").status_code == 404
        assert [each["what"] for each in entries(admin)].count("key revoked") == 1
        assert admin.get("/v1/keys").json()["keys"][-1]["state"] == "revoked"


def test_only_admins_of_all_shelves_manage_keys_and_read_the_log(tmp_path: Path) -> None:
    """Another scope is 403; for an admin of one shelf there are no keys, or it could make itself a larger one."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as admin:
        stocked(admin)
        for client, status in ((with_key(admin, "read"), 403), (with_key(admin, "admin", shelf="teas"), 404)):
            for method, path in (("POST", "/v1/keys"), ("GET", "/v1/keys"), ("GET", "/v1/admin-log")):
                body = {"scopes": ["admin"]} if method == "POST" else None
                assert client.request(method, path, json=body).status_code == status
            assert client.delete("/v1/keys/abc").status_code == status


@pytest.mark.parametrize(
    "wrong",
    [{"scopes": []}, {"scopes": ["all"]}, {"scopes": ["read"], "expires": "soon"},
     {"scopes": ["read"], "expires": "2001-01-01"}, {"scopes": ["read"], "expires": "9999-99-01"}],
)  # fmt: skip
def test_a_key_that_makes_no_sense_is_refused_by_its_rule(wrong: dict[str, Any], tmp_path: Path) -> None:
    """And nothing is made, nor entered."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as admin:
        before = entries(admin)  # one, of 1970: deleted as old at any moment
        assert admin.post("/v1/keys", json=wrong).status_code == 422
        assert [each for each in entries(admin) if each not in before] == []
        assert len(admin.get("/v1/keys").json()["keys"]) == 1


def test_a_key_expires_by_the_clock_of_the_store(database: str, tmp_path: Path) -> None:
    """It is listed as expired, and stays so after another start."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as admin:
        reader = made(admin, "read", expires=timestamp(clock.time + DAY))
        words = reader.headers["Authorization"]
        clock.time += DAY - 1.0
        assert reader.get("/v1/shelves").status_code == 200
        clock.time += 1.0
        assert until_refused(reader) == 401
        assert admin.get("/v1/keys").json()["keys"][-1]["state"] == "expired"
    with inline(database, tmp_path, clock=clock) as admin:
        assert like(admin, words).get("/v1/shelves").status_code == 401


def until_refused(client: httpx.Client) -> int:
    """The status once a poll has gone by."""
    for _ in range(100):
        status = client.get("/v1/shelves").status_code
        if status == 401:
            break
        time.sleep(0.05)
    return status


def test_an_expired_key_is_refused_from_memory_between_two_looks() -> None:
    """By the time that passes since the last look, like an unknown one: with as many looks, and the same words."""

    async def run() -> None:
        now = [100.0]
        ring = Keyring(1.0, lambda: now[0])
        key = keys.Key("abc", "x", keys._hash("right"), frozenset({"read"}), None, expires=5000.0)
        ring.update({"abc": key}, 4990.0)
        assert ring.known("Bearer qs_abc_right") is key
        now[0] += 9.0
        assert ring.known("Bearer qs_abc_right") is key
        now[0] += 1.0
        told = []
        for header in ("Bearer qs_abc_right", "Bearer qs_none_right"):
            with pytest.raises(Unauthorised) as refused:
                ring.known(header)
            told.append(refused.value.detail)
        assert told[0] == told[1]

    asyncio.run(run())


def test_a_session_ends_with_its_key(tmp_path: Path) -> None:
    """Though its hour is not over."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as admin:
        key = made(admin, "read", expires=timestamp(clock.time + 60.0)).headers["Authorization"].split()[1]
        with httpx.Client(base_url=admin.base_url, headers={"Origin": str(admin.base_url).rstrip("/")}) as page:
            assert page.post("/sign-in", data={"key": key}).status_code == 303
            assert page.get("/operations?format=json").status_code == 200
            clock.time += 60.0
            assert page.get("/operations?format=json").status_code == 401


def test_what_admins_do_is_entered_with_their_key(database: str, tmp_path: Path) -> None:
    """Shelves, settings, items, keys, statements, erasures: what was refused is not, and no visitor is in it."""
    with inline(database, tmp_path) as admin:
        identity = admin.headers["Authorization"].split("_")[1]
        stocked(admin)
        assert admin.put("/v1/shelves/teas", json={**SHELF, "capacity": 2}).status_code == 200
        assert admin.put("/v1/shelves/teas/items", json={"items": [{"id": "item 1", "revenue": 2}]}).is_success
        assert admin.post("/v1/shelves/teas/items/retire", json={"items": ["item 7"]}).is_success
        lines = b"".join(json.dumps({"id": f"new {n}", "features": [0.1, n]}).encode() + b"\n" for n in range(3))
        kind = {"Content-Type": "application/x-ndjson"}
        assert admin.put("/v1/shelves/teas/items", content=lines, headers=kind).is_success
        offered(admin, person="Anna Secret")
        assert admin.post("/v1/shelves/teas/erasures", json={"person": "Anna Secret"}).json() == {"erased": 1}
        assert admin.post("/v1/shelves/teas/erasures", json={"person": "Nobody Secret"}).json() == {"erased": 0}
        assert admin.post("/shelves/teas/privacy", data={"public": "yes"}).status_code == 303
        assert admin.put("/v1/shelves/teas", json={**SHELF, "rho": 400.0}).status_code == 409
        key = made(admin, "read").headers["Authorization"].split("_")[1]
        assert admin.delete(f"/v1/keys/{key}").status_code == 204
        assert admin.delete("/v1/shelves/teas").status_code == 204
        found = entries(admin)
        text = json.dumps(found)
    found = [each for each in found if each["key"] is not None]  # the key of this test was made on the database itself
    assert {each["key"] for each in found} == {identity}
    assert [each["what"] for each in found] == [
        "shelf put", "items put", "shelf put", "items put", "items retired", "items uploaded", "erasure", "erasure",
        "statement published", "key created", "key revoked", "shelf deleted",
    ]  # fmt: skip
    details = [each["details"] for each in found]
    assert details[0]["created"] is True
    assert details[2] == {**SHELF, "capacity": 2, "created": False}
    assert (details[1], details[4], details[5]) == ({"added": 8, "changed": 0}, {"retired": 1}, {"new": 3})
    assert details[6] == details[7] == {}  # whether there was anybody to erase is not told
    assert "Secret" not in text
    assert "new 1" not in text


def test_the_log_is_read_in_pages_and_never_changed(database: str, tmp_path: Path) -> None:
    """The latest first; the database itself refuses to change an entry."""
    with inline(database, tmp_path) as admin:
        for n in range(5):
            assert admin.put(f"/v1/shelves/shelf-{n}", json=SHELF).status_code == 201
        first = admin.get("/v1/admin-log?limit=4").json()
        second = admin.get(f"/v1/admin-log?limit=4&before={first['next']}").json()
        assert [each["shelf"] for each in first["entries"]] == ["shelf-4", "shelf-3", "shelf-2", "shelf-1"]
        assert second["entries"][0]["shelf"] == "shelf-0"
        assert second["next"] is None
        store = service_of(admin).store
        with pytest.raises(DBAPIError, match="never changed"), store.write() as connection:
            connection.execute(sa.update(schema.admin_log).values(key="somebody else"))


def test_old_entries_are_forgotten_in_pieces(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many days as the setting says, and younger ones stay."""
    monkeypatch.setattr(old_rows, "PIECE", 2)
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock, admin_log_days=10.0) as admin:
        store = service_of(admin).store
        with store.write() as connection:
            for age in (11, 11, 11, 10.5, 9, 1):
                admin_log.enter(connection, admin_log.Act("", f"{age} days ago"), clock.time - age * DAY)
        for _ in range(100):
            found = [each["what"] for each in entries(admin)]
            if "10.5 days ago" not in found:
                break
            time.sleep(0.1)
    assert found == ["9 days ago", "1 days ago"]


def test_readers_see_no_trace_of_what_admins_did(tmp_path: Path) -> None:
    """Erasures are somebody's own act: the page of operations shows the log, and keys, to admins alone."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as admin:
        stocked(admin)
        reader = with_key(admin, "read")
        page = {"Accept": "text/html"}
        assert reader.get("/operations?format=json").json()["admins"] is None
        assert "What admins did" not in reader.get("/operations", headers=page).text
        before = reader.get("/metrics").text
        for n in range(LATEST + 5):
            assert admin.post("/v1/shelves/teas/erasures", json={"person": f"p{n}"}).status_code == 200
        assert [line for line in reader.get("/metrics").text.splitlines() if "erasure" in line] == []
        assert "erasure" not in before
        shown = admin.get("/operations?format=json").json()["admins"]
        assert len(shown["entries"]) == LATEST
        assert {"state", "expires"} <= set(shown["keys"][0])
        text = admin.get("/operations", headers=page).text
        assert "What admins did" in text
        assert "Expires" in text
        room = admin.app.state.room  # type: ignore[attr-defined]
        with service_of(admin).store.read() as connection:
            assert "admins" not in operations(room, connection)


def test_commands_make_keys_that_expire_and_read_the_log(tmp_path: Path) -> None:
    """On the database of a service that has been started."""
    process = Process(f"sqlite:///{tmp_path}/shop.db", tmp_path)
    process.start()
    try:
        where = ["--database", process.database, "--secrets", str(tmp_path / "secrets")]

        def command(*arguments: str) -> Any:
            return CliRunner().invoke(app, [*arguments, *where])

        created = command("keys", "create", "--scope", "read", "--expires", "2999-01-31", "--json")
        key = json.loads(created.stdout)["key"]
        reply = httpx.get(f"{process.url}/v1/shelves", headers={"Authorization": f"Bearer {key}"}, timeout=20)
        assert reply.status_code == 200
        listed = json.loads(command("keys", "list", "--json").stdout)["keys"]
        assert listed[-1]["expires"] == "2999-01-31T00:00:00.000Z"
        assert "until 2999-01-31" in command("keys", "list").stdout
        assert "expires must be in the future" in str(
            command("keys", "create", "--scope", "read", "--expires", "2001-01-01").exception
        )
        assert "a time must be written" in str(
            command("keys", "create", "--scope", "read", "--expires", "soon").exception
        )
        found = json.loads(command("admin-log", "--json").stdout)["entries"]
        assert [(each["what"], each["key"]) for each in found] == [("key created", None)] * 2
        assert "a command" in command("admin-log").stdout
    finally:
        process.end()
