"""What may have been published is never published again, and what was promised is never forgotten."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.service.harness import SHELF, WINDOW, FakeClock, inline, offered, stocked
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.service import schema, verify
from quietshelf.service.reading import shelf_rows
from quietshelf.service.service import Service
from quietshelf.service.settings import Settings
from quietshelf.shelf.whole import write_whole

FIRST = 18
"""Visitors in the first batch of the shelf that the harness makes."""


def people(client: Any, count: int, *, name: str = "teas", prefix: str = "person") -> None:
    """So many visitors, each another person."""
    for number in range(count):
        assert offered(client, name, person=f"{prefix} {number}").status_code == 200


def released(client: Any, clock: FakeClock, *, name: str = "teas") -> int:
    """Wait for the window's end; the number of releases once the writer has looked twice."""
    clock.time += WINDOW + 1
    for _ in range(3):
        client.service._look_at = 0.0
        assert client.get("/readyz").status_code == 200
    return int(client.get(f"/v1/shelves/{name}").json()["releases"])


def copied(folder: Path) -> None:
    """A backup of a database that nobody has open."""
    shutil.copy(folder / "shop.db", folder / "backup.db")


def copied_live(folder: Path) -> None:
    """A backup of a database in use."""
    with closing(sqlite3.connect(folder / "shop.db")) as live, closing(sqlite3.connect(folder / "backup.db")) as copy:
        live.backup(copy)


def put_back(folder: Path) -> None:
    """The backup in the database's place."""
    for leftover in folder.glob("shop.db*"):
        leftover.unlink()
    if (folder / "backup.db").exists():
        shutil.copy(folder / "backup.db", folder / "shop.db")


def promise(client: Any, name: str = "teas") -> dict[str, Any]:
    """What is promised."""
    found: dict[str, Any] = client.get(f"/v1/shelves/{name}/privacy").json()
    return found


def faultless(client: Any) -> bool:
    """Whether every ledger is what was published."""
    with client.service.store.read() as connection:
        return not any(verify.verify(connection, row) for row in shelf_rows(connection))


def failing(*_: Any) -> None:
    """A full disk."""
    raise OSError(28, "no space left")


def test_no_release_while_the_epoch_file_cannot_be_written(tmp_path: Path) -> None:
    """A release that could not be announced is not made; it comes when there is room again."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        service = client.service  # type: ignore[attr-defined]
        stocked(client)
        people(client, FIRST)
        real, service.vault.note = service.vault.note, failing
        assert released(client, clock) == 0
        service.vault.note = real
        assert released(client, clock) == 1
        mark = service.vault.marks["shelves"]["1"]
        assert (mark["released"], mark["releasing"]) == (0, [])


def test_marks_of_a_new_batch_are_tried_again(tmp_path: Path) -> None:
    """A batch that opened while the epoch file could not be written is in it later."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        service = client.service  # type: ignore[attr-defined]
        stocked(client)
        real, service.vault.note = service.vault.note, failing
        people(client, 2)
        service.vault.note = real
        for _ in range(3):
            client.get("/readyz")
        assert service.vault.marks["shelves"]["1"]["opened"] == 0


@pytest.mark.parametrize("backup", [False, True])
def test_a_release_cut_off_before_it_was_noted_is_not_made_again(tmp_path: Path, backup: bool) -> None:
    """The announcement alone tells a restored full batch from one never released; a stored release stays as it is."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        people(client, FIRST + 1)
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        vault = client.service.vault  # type: ignore[attr-defined]
        real = vault.note

        def announce_only(*given: Any) -> None:
            real(*given)
            vault.note = failing

        vault.note = announce_only
        assert released(client, clock) == 1
        assert vault.marks["shelves"]["1"]["releasing"] == [0]
    if backup:
        put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        assert released(client, clock) == (0 if backup else 1)
        found = promise(client)
        assert [event["visitors"] for event in found["events"]] == [0, 0]
        assert [f"{FIRST} visitors were left out" in note for note in found["notes"]] == [True] * backup
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST * backup
        assert found["unit"] == "person"  # nobody was released whom this database does not know
        people(client, 40, prefix="later")
        assert released(client, clock) >= 1
        assert faultless(client)


def test_a_release_announced_but_rolled_back_is_made_by_the_same_process(tmp_path: Path) -> None:
    """Nobody has seen its figures, and the process that goes on knows that; a process that starts does not."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        vault = client.service.vault  # type: ignore[attr-defined]
        stocked(client)
        people(client, FIRST)
        real = vault.note

        def write_and_fail(*given: Any) -> None:
            real(*given)
            failing()

        vault.note = write_and_fail
        assert released(client, clock) == 0
        assert vault.marks["shelves"]["1"]["releasing"] == [0]
        shutil.copy(tmp_path / "secrets" / "epoch.json", tmp_path / "announced.json")
        copied_live(tmp_path)
        vault.note = real
        assert released(client, clock) == 1
        assert [event["visitors"] for event in promise(client)["events"]] == [0, 0]
        assert faultless(client)
    put_back(tmp_path)
    shutil.copy(tmp_path / "announced.json", tmp_path / "secrets" / "epoch.json")
    with inline(database, tmp_path, clock=clock) as client:
        assert released(client, clock) == 0
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST
        assert [event["visitors"] for event in promise(client)["events"]] == [0, 0]


def test_a_restore_in_the_middle_of_a_release_that_was_not_full_drops_all(tmp_path: Path) -> None:
    """A batch announced as full that is not full here: the database is older than the announcement."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        people(client, 3)
    epoch = tmp_path / "secrets" / "epoch.json"
    content = json.loads(epoch.read_text())
    content["shelves"]["1"]["releasing"] = [0]
    epoch.write_text(json.dumps(content))
    with inline(database, tmp_path, clock=clock) as client:
        assert client.get("/readyz").json()["epoch"] == 1
        assert {event["visitors"] for event in promise(client)["events"]} == {0, 1}
        assert promise(client)["unit"] == "visit"


def test_a_shelf_made_after_the_backup_stays_in_the_ledger(database: str, tmp_path: Path) -> None:
    """It comes back as a deleted shelf with its costs, and its number is not given to another."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client, "old")
        stocked(client, "new", rho=5.0)
        people(client, FIRST, name="new")
        assert released(client, clock, name="new") == 1
        total = client.get("/v1/privacy").json()["rho"]
        with client.service.store.write() as connection:  # type: ignore[attr-defined]  # what a backup would not hold
            for table in (schema.shelves, schema.items, schema.persons, schema.releases, schema.events, schema.batches):
                connection.execute(sa.delete(table).where(table.c.shelf == 2))
            connection.execute(sa.delete(schema.offers).where(schema.offers.c.shelf == 2))
    with inline(database, tmp_path, clock=clock) as client:
        found = client.get("/v1/privacy").json()
        assert found["rho"] >= total
        back = {shelf["shelf"]: shelf for shelf in found["shelves"]}["new"]
        assert back["deleted"] is not None
        assert back["settings"]["rho"] == 5.0
        stocked(client, "newest")
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert sorted(row["shelf"] for row in shelf_rows(connection)) == [1, 2, 3]
        assert faultless(client)


def test_lost_releases_cost_what_they_did_and_settings_stay_fixed(tmp_path: Path) -> None:
    """A backup older than the first offer, with another rho: the promise is the one that visitors had."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client, rho=0.1)
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        assert client.put("/v1/shelves/teas", json={**SHELF, "rho": 4.0}).status_code == 200
        people(client, FIRST)
        assert released(client, clock) == 1
        before = promise(client)["rho"]
    put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        assert promise(client)["rho"] == pytest.approx(before, rel=1e-9)
        assert promise(client)["settings"]["rho"] == 4.0
        refused = client.put("/v1/shelves/teas", json={**SHELF, "rho": 0.5})
        assert refused.status_code == 409
        assert refused.json()["type"].endswith("frozen")
        people(client, FIRST)
        assert released(client, clock) == 1
        assert faultless(client)


def test_after_a_restore_the_promise_is_to_a_visit(tmp_path: Path) -> None:
    """Persons counted after the backup are counted again, so nothing is said of persons any more."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client, visits=2)
        people(client, 1, prefix="first")
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        people(client, 30)
        assert released(client, clock) == 1
        assert promise(client)["unit"] == "person"
    put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        people(client, 30)
        assert released(client, clock) == 1
        found = client.get("/v1/privacy").json()["shelves"][0]
        assert (found["unit"], found["visits"]) == ("visit", 1)
        assert found["events"][-1]["name"] == "releases not in this ledger"
        assert found["words"].lower().startswith("to each visit")
        assert faultless(client)


def test_what_is_erased_or_deleted_leaves_the_log_file(tmp_path: Path) -> None:
    """Features of an erased visitor, then of a deleted shelf, are in no file of the database."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock(), poll_seconds=1000.0) as client:
        stocked(client)

        def held(value: float) -> bool:
            for _ in range(3):
                assert client.get("/readyz").status_code == 200
            return any(struct.pack("d", value) in path.read_bytes() for path in tmp_path.glob("shop.db*"))

        offered(client, features=[0.123456789012345, 0.0], person="eve")
        assert held(0.123456789012345)
        assert client.post("/v1/shelves/teas/erasures", json={"person": "eve"}).status_code == 200
        assert not held(0.123456789012345)
        offered(client, features=[0.234567890123456, 0.0], person="eva")
        assert held(0.234567890123456)
        assert client.delete("/v1/shelves/teas").status_code == 204
        assert not held(0.234567890123456)


def test_a_lost_database_does_not_start_with_an_empty_ledger(tmp_path: Path) -> None:
    """Its secrets remember that there were promises; the restore command enters them."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        people(client, FIRST)
        assert released(client, clock) == 1
        before = promise(client)["rho"]
    put_back(tmp_path)
    service = Service(Settings(database=database, secrets=str(tmp_path / "secrets")))
    with pytest.raises(ValueError, match="run quietshelf restore"):
        service.start()
    service.store.close()
    flags = ["--database", database, "--secrets", str(tmp_path / "secrets"), "--json"]
    assert json.loads(CliRunner().invoke(app, ["restore", *flags]).stdout) == {"visitors": 0, "lost_releases": 1}
    with inline(database, tmp_path, clock=clock) as client:
        found = client.get("/v1/privacy").json()
        assert found["rho"] == pytest.approx(before, rel=1e-9)
        assert [shelf["deleted"] is not None for shelf in found["shelves"]] == [True]


def test_the_folder_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the epoch file has its new content under its name."""
    synced: list[bool] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_whole(tmp_path / "file", b"content")
    assert synced == [False, True]
