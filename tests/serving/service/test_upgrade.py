"""Databases written by earlier versions go on under this one: tests/migrations holds them."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations
from tests.serving.service.backups import faultless, people, released
from tests.serving.service.harness import FakeClock, answered, inline, like, offered, stocked
from tests.serving.service.old_versions import OPEN, REVISIONS, _plain, put_down

from quietshelf.privacy.release.outlook import BOUNDS
from quietshelf.serving.service.catalogue.views import settings_in
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import packed
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.releases.losses import BURNT
from quietshelf.serving.service.settings import ServiceSettings

RAW = ("offers", "batches")


REWORDED = {
    "What everyone else sees, all screens and releases taken together, reveals only so much: had the data of that "
    "{unit} been anything else, no outcome would be more than exp(epsilon) times as likely, give or take delta.": (
        "Had the data of that {unit} been anything else, nothing that everyone else sees, all screens and releases "
        "taken together, would be more than exp(epsilon) times as likely, plus delta."
    ),
    "Whoever comes more than once": "Somebody who comes more than once",
}
"""What earlier versions said in other words, and how it is said now."""


def reworded(words: str, unit: str) -> str:
    """A promise of an earlier version in the words of this one: the same sentences, with the same figures."""
    for old, new in REWORDED.items():
        words = words.replace(old.format(unit=unit), new.format(unit=unit))
    return words


@pytest.mark.parametrize("version", REVISIONS)
def test_a_database_of_an_earlier_version_is_carried_over(version: int, database: str, tmp_path: Path) -> None:
    """Releases, promises, persons and keys: nothing is lost, learning goes on; what is open is dropped, and said."""
    kept = put_down(version, database, tmp_path)
    clock = FakeClock(kept["time"])
    with inline(database, tmp_path, clock=clock) as client:
        releases = client.get("/v1/shelves/teas/releases").json()["releases"]
        for each in releases:
            assert each.pop("names")[:2] == ["intercept", "visitor feature 1"]
        assert releases == kept["releases"]["releases"]
        for name, before in kept["privacy"].items():
            now = client.get(f"/v1/shelves/{name}/privacy").json()
            same = ("rho", "epsilon", "unit", "visits", "budget", "arrivals", "releases", "deleted", "words")
            before["words"] = reworded(before["words"], before["unit"])
            assert {key: now[key] for key in same} == {key: before[key] for key in same}
            assert len(now["events"]) == len(before["events"])
            assert len(now["notes"]) == (name == "teas")
        assert f"{OPEN[version]} visitors of batches" in client.get("/v1/shelves/teas/privacy").json()["notes"][0]
        settings = client.get("/v1/shelves/teas").json()["settings"]
        assert (settings["on_no_answer"], settings["visitor_dim"]) == ("zero", 2)
        assert client.get("/readyz").json()["visitors_left_out"] == OPEN[version]
        shop = like(client, f"Bearer {kept['key']}")  # in the first version its scope was called learn
        last = kept["last_offer"]
        late = answered(shop, last["offer"], last["items"][0])
        assert (late.status_code, "expired" in late.text) == (409, True)
        fresh = offered(shop, person="somebody new").json()
        assert answered(shop, fresh["offer"], None).status_code == 204
        assert faultless(client)
    with inline(database, tmp_path, clock=clock) as client:  # and the next start finds nothing odd
        assert client.get("/readyz").json()["epoch"] == 0


@pytest.mark.parametrize("version", REVISIONS)
def test_what_an_earlier_version_collected_is_in_no_release(version: int, database: str, tmp_path: Path) -> None:
    """Its rows are gone; the next batch has the size of the first one dropped, the next number, and one event."""
    kept = put_down(version, database, tmp_path)
    clock = FakeClock(kept["time"])
    with inline(database, tmp_path, clock=clock) as client:
        store = client.service.store  # type: ignore[attr-defined]
        with store.read() as connection:
            for table in (schema.batches, schema.offers):
                assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 0
            keys = sa.select(schema.retries.c.fingerprint).where(schema.retries.c.fingerprint.isnot(None))
            assert connection.execute(keys).all() == []
        people(client, 38, prefix="since")
        with store.read() as connection:
            (batch,) = connection.execute(sa.select(schema.batches)).mappings()
            assert (batch["batch"], batch["size"], batch["taken"]) == (3, 38, 38)
            assert BOUNDS[0] <= batch["bound"] <= BOUNDS[1]
        assert released(client, clock) == 2
        events = client.get("/v1/shelves/teas/privacy").json()["events"]
        assert [(event["name"], event["batch"]) for event in events] == [("score", 0), ("information", 0), ("pair", 3)]
        assert faultless(client)


@pytest.mark.parametrize("version", REVISIONS)
def test_a_shelf_of_an_earlier_version_keeps_its_prior(version: int, database: str, tmp_path: Path) -> None:
    """As one that was given, to the last bit, and its estimate with it; a shelf without offers begins as a new one."""
    kept = put_down(version, database, tmp_path)
    before = {row["name"]: _plain(row) for row in kept["tables"]["shelves"]}
    assert before["teas"]["prior_theta"] is not None
    store = Store(ServiceSettings(database=database).url, Vault(tmp_path / "secrets"))
    store.migrate()
    with store.read() as connection:
        rows = {row["name"]: dict(row) for row in connection.execute(sa.select(schema.shelves)).mappings()}
        assert rows.keys() == before.keys()
        for name, row in rows.items():
            prior = [before[name][column] for column in ("prior_theta", "prior_precision")]
            assert [row["prior_theta"], row["prior_precision"], row["second"]] == [*prior, before[name]["curvature"]]
            learner = learning.learner(connection, row, settings_in(row))
            assert (learner is None) == (before[name]["curvature"] is None)
            if learner is not None:
                assert learner.given is not None
                assert [packed(learner.prior.theta), packed(learner.prior.precision)] == prior
                for release in learning.release_rows(connection, row["shelf"])[-1:]:
                    assert packed(learner.estimate.theta) == release["theta"]
                    assert (release["kept"], release["spread"], release["fit"]) == (None, None, None)
    store.close()


def test_a_release_that_was_announced_before_the_upgrade_is_burnt(tmp_path: Path) -> None:
    """Its noise may have been drawn: the batch is gone, and its cost is entered all the same."""
    kept = put_down(2, f"sqlite:///{tmp_path}/shop.db", tmp_path)
    path = tmp_path / "secrets" / "epoch.json"
    file = json.loads(path.read_text())
    file["shelves"]["1"]["announced"] = [1]
    path.write_text(json.dumps(file))
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock(kept["time"])) as client:
        events = client.get("/v1/shelves/teas/privacy").json()["events"]
        assert [(event["batch"], event["detail"]) for event in events] == [(0, ""), (0, ""), (1, BURNT)]
        assert events[-1]["rho"] == pytest.approx(2.0)
        assert faultless(client)


def test_contributions_that_were_rounded_otherwise_are_dropped_and_it_is_said(tmp_path: Path) -> None:
    """Open batches of the version before: nothing of their visitors is left, and the next batch has their size."""
    step = import_module("quietshelf.serving.service.migrations.versions.rounded_rows_0009")
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        for _ in range(3):
            offer = offered(client).json()
            assert answered(client, offer["offer"], offer["items"][0]).status_code == 204
        with client.service.store.write() as connection:  # type: ignore[attr-defined]
            size = connection.exec_driver_sql("SELECT size FROM batches").scalar_one()
            with Operations.context(MigrationContext.configure(connection)):
                step.upgrade()
            left = [connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in RAW]  # noqa: S608
            notes, next_size = connection.exec_driver_sql("SELECT notes, next_size FROM shelves").one()
    assert left == [0, 0]
    assert next_size == size
    assert "3 visitors of batches that were not released were left out" in notes
