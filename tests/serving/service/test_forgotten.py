"""What a database may have forgotten: single releases, single batches, whole shelves, and announcements of others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.serving.service.backups import copied, faultless, people, promise, put_back, released
from tests.serving.service.harness import FIRST, FakeClock, inline, stocked

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases import losses, restore
from quietshelf.serving.service.releases.losses import LOST
from quietshelf.serving.service.releases.verify import forgotten


def settled(client: Any) -> dict[str, Any]:
    """The epoch file, once the writer has noted the batch that opened."""
    for _ in range(3):
        assert client.get("/readyz").status_code == 200
    found: dict[str, Any] = client.service.vault.epoch
    return found


def shop(folder: Path, visitors: int, *, releases: int) -> FakeClock:
    """A shop whose backup was taken after so many visitors; then it went on to release, or to one visitor more."""
    clock, database = FakeClock(), f"sqlite:///{folder}/shop.db"
    with inline(database, folder, clock=clock) as client:
        stocked(client)
        people(client, visitors)
    copied(folder)
    with inline(database, folder, clock=clock) as client:
        if releases:
            assert released(client, clock) == releases
        else:
            people(client, 1, prefix="later")
            settled(client)
    put_back(folder)
    return clock


def left(client: Any) -> int:
    """Offers that are in the database."""
    with client.service.store.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(schema.offers)).scalar_one())


def test_a_backup_that_lacks_one_release_alone_does_not_make_it_again(tmp_path: Path) -> None:
    """The batch was full before the backup and released after it; no batch was opened since to tell."""
    clock = shop(tmp_path, FIRST, releases=1)
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST
        assert left(client) == 0
        assert released(client, clock) == 0
        assert [event["batch"] for event in promise(client)["events"]] == [0, 1]
        assert promise(client)["unit"] == "visit"


def test_a_backup_that_lacks_one_batch_alone_does_not_open_it_again(tmp_path: Path) -> None:
    """Nothing was released, but a visitor has an offer of batch 0: its number is not used twice."""
    clock = shop(tmp_path, 0, releases=0)
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        people(client, 1)
        with client.service.store.read() as connection:  # type: ignore[attr-defined]
            assert connection.execute(sa.select(schema.offers.c.batch)).scalars().all() == [1]
        assert promise(client)["unit"] == "visit"


def test_a_lost_release_is_entered_at_its_full_cost(tmp_path: Path) -> None:
    """Also where the backup is older than the first offer, and only the promise is known."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
    copied(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        people(client, FIRST)
        assert released(client, clock) == 1
    put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        lost = [event["rho"] for event in promise(client)["events"] if event["detail"] == LOST]
        assert math.fsum(lost) == pytest.approx(4.0, rel=1e-9)
        assert faultless(client)


def test_what_an_ended_process_announced_is_burnt_by_the_next_check(tmp_path: Path) -> None:
    """R7 while running: whichever process looks next, with the file's lock, drops the batch and enters its cost."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock(), poll_seconds=3600.0) as client:
        stocked(client)
        people(client, FIRST)
        store = client.service.store  # type: ignore[attr-defined]
        file = settled(client)
        file["shelves"]["1"]["announced"] = [0]
        store.vault.note(file)
        with store.vault.locked():
            assert restore.check(store, client.service.source).dropped == (FIRST, 1)  # type: ignore[attr-defined]
            assert restore.check(store, client.service.source).dropped is None  # type: ignore[attr-defined]
        mark = store.vault.epoch["shelves"]["1"]
        assert (mark["released"], mark["announced"]) == (0, [])
        assert {event["detail"] for event in promise(client)["events"]} == {losses.BURNT}


def test_a_shelf_that_only_the_epoch_file_knows_is_told(tmp_path: Path) -> None:
    """It was made after the backup, and somebody was promised something on it."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client)
        people(client, 1)
        store = client.service.store  # type: ignore[attr-defined]
        known = settled(client)
        mark = {**known["shelves"]["1"], "name": "gone", "opened": 3, "released": 2}
        with store.read() as connection:
            assert forgotten(connection, known) == []
            (told,) = forgotten(connection, {**known, "shelves": {**known["shelves"], "7": mark}})
        assert "shelf gone: releases are missing (3)" in told
