"""What may have been published is never published again, and what was promised is never forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.serving.service.backups import copied, faultless, people, promise, put_back, released, visitors
from tests.serving.service.harness import FIRST, SHELF, FakeClock, answered, inline, offered, stocked
from typer.testing import CliRunner

from quietshelf.cli import app
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.queries import shelf_rows
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings


def where(folder: Path) -> list[str]:
    """The flags of a command on this shop."""
    return ["--database", f"sqlite:///{folder}/shop.db", "--secrets", str(folder / "secrets")]


def does_not_start(database: str, folder: Path, *, because: str) -> None:
    """A service on this database refuses, in these words."""
    service = Service(ServiceSettings(database=database, secrets=str(folder / "secrets")))
    with pytest.raises(ValueError, match=because):
        service.start()
    service.store.close()


def test_a_restored_backup_drops_its_open_batches_and_says_so(tmp_path: Path) -> None:
    """Its visitors may have been released since; releases it forgot enter its ledger; no batch number is used twice."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        visitors(client, clock, 10)
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        visitors(client, clock, 60)
        lost = client.get("/v1/shelves/teas").json()["releases"]
        assert lost >= 1
        late = visitors(client, clock, 1)
    put_back(tmp_path)
    early = CliRunner().invoke(app, ["ledger", *where(tmp_path)])  # it agrees with itself: not enough
    assert early.exit_code == 1
    assert f"not verified: shelf teas: releases are missing ({lost}), so this is a backup" in early.stdout
    assert "\n  verified\n" not in early.stdout
    with inline(database, tmp_path, clock=clock) as client:
        found = client.get("/v1/shelves/teas/privacy").json()
        assert found["releases"] == 0
        assert len(found["events"]) == lost + 1  # and one that stands for what nobody remembers
        assert "10 visitors of batches that were not released were left out" in found["notes"][0]
        assert client.get("/readyz").json()["visitors_left_out"] == 10
        assert client.get("/readyz").json()["epoch"] == 1
        assert answered(client, late["offer"], None).status_code == 409
        batch = int(visitors(client, clock, 1)["offer"].split(".")[1])
        assert batch > int(late["offer"].split(".")[1])
        visitors(client, clock, 60)
        assert client.get("/v1/shelves/teas").json()["releases"] >= 1
        assert faultless(client)
        lines = client.get("/shelves/teas/privacy?format=json").json()["events"]
        by_hand = [each for each in lines if each["noise"] is not None]
        assert [each["what"] for each in lines if each not in by_hand] == ["releases not in this ledger"]
        assert all(each["rho"] == pytest.approx(each["sensitivity"] ** 2 / 2 / each["noise"] ** 2) for each in by_hand)
    with inline(database, tmp_path, clock=clock) as client:  # the next start finds nothing odd
        assert client.get("/readyz").json()["epoch"] == 1
    printed = CliRunner().invoke(app, ["ledger", *where(tmp_path)]).stdout
    assert "releases not in this ledger: rho 4 at most to each visit" in printed
    assert "sensitivity infinite" not in printed


def test_the_restore_command_and_the_ledger_command(tmp_path: Path) -> None:
    """Without its epoch file a used database does not start until it is said to be a backup; the ledger is verified."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        visitors(client, clock, FIRST + 15)
    report = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert report.exit_code == 0
    assert "joint differential privacy is promised with rho = 4" in report.stdout
    assert "batch 0: pair, sensitivity 1.415, noise 0.5, rho 4\n" in report.stdout
    assert "to a person on all shelves: rho = 4\n" in report.stdout
    assert "to one visit the costliest batch counts: rho" in report.stdout
    assert "\n  verified\n" in report.stdout
    (tmp_path / "secrets" / "epoch.json").unlink()
    unknown = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert unknown.exit_code == 1
    assert "not verified: the epoch file must belong to this database" in unknown.stdout
    does_not_start(database, tmp_path, because="if this is a backup, run quietshelf restore")
    dropped = CliRunner().invoke(app, ["restore", *where(tmp_path), "--yes", "--json"])
    found = json.loads(dropped.stdout)
    assert (found["restored"], found["visitors"], found["lost_releases"]) == (True, 15, 0)
    with inline(database, tmp_path, clock=clock) as client:
        assert offered(client).status_code == 200
        with client.service.store.write() as connection:  # type: ignore[attr-defined]
            connection.exec_driver_sql("DELETE FROM events WHERE number = 0")
    wrong = CliRunner().invoke(app, ["ledger", *where(tmp_path), "--json"])
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["verified"] is False


def test_the_ledger_command_makes_nothing_that_it_could_then_find_clean(tmp_path: Path) -> None:
    """A mistyped path is refused; a database made on the spot would have promised nothing, and be verified."""
    missing = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert isinstance(missing.exception, ValueError)
    assert list(tmp_path.iterdir()) == []
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path):
        pass
    empty = CliRunner().invoke(app, ["ledger", *where(tmp_path)])
    assert empty.exit_code == 0
    assert "no shelf was ever created here" in empty.stdout


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


def test_a_lost_database_does_not_start_with_an_empty_ledger(tmp_path: Path) -> None:
    """Its secrets remember that there were promises; the restore command enters them."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        people(client, FIRST)
        assert released(client, clock) == 1
        before = promise(client)["rho"]
    put_back(tmp_path)
    does_not_start(database, tmp_path, because="run quietshelf restore")
    entered = CliRunner().invoke(app, ["restore", *where(tmp_path), "--yes", "--json"])
    found = json.loads(entered.stdout)
    assert (found["restored"], found["visitors"], found["lost_releases"]) == (True, 0, 1)
    with inline(database, tmp_path, clock=clock) as client:
        found = client.get("/v1/privacy").json()
        assert found["rho"] == pytest.approx(before, rel=1e-9)
        assert [shelf["deleted"] is not None for shelf in found["shelves"]] == [True]
