"""A release is announced in the epoch file, made, and noted there: wherever it is cut off, it is made once at most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.serving.service.backups import (
    copied,
    failing,
    faultless,
    people,
    promise,
    put_back,
    put_back_live,
    released,
    snapshot,
)
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, answered, inline, offered, stocked

from quietshelf.serving.service.releases import restore
from quietshelf.serving.service.releases.losses import BURNT, LOST


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
        mark = service.vault.epoch["shelves"]["1"]
        assert (mark["released"], mark["announced"]) == (0, [])


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
        assert service.vault.epoch["shelves"]["1"]["opened"] == 0


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
            if vault.epoch["shelves"]["1"]["announced"]:
                vault.note = failing

        vault.note = announce_only
        assert released(client, clock) == 1
        assert vault.epoch["shelves"]["1"]["announced"] == [0]
    if backup:
        put_back(tmp_path)
    with inline(database, tmp_path, clock=clock) as client:
        assert released(client, clock) == (0 if backup else 1)
        found = promise(client)
        assert [event["batch"] for event in found["events"]] == [0]
        assert [f"{FIRST} visitors were left out" in note for note in found["notes"]] == [True] * backup
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST * backup
        assert found["unit"] == "person"  # nobody was released whom this database does not know
        people(client, 40, prefix="later")
        assert released(client, clock) >= 1
        assert faultless(client)


def test_a_release_that_was_announced_and_rolled_back_is_burnt_by_the_same_process(tmp_path: Path) -> None:
    """Whether its noise was drawn is not asked: its cost is entered, and its visitors are left out."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        vault = client.service.vault  # type: ignore[attr-defined]
        stocked(client)
        people(client, FIRST)
        real = vault.note

        def write_and_fail(*given: Any) -> None:
            real(*given)
            if vault.epoch["shelves"]["1"]["announced"]:
                failing()

        vault.note = write_and_fail
        clock.time += WINDOW + 1
        for _ in range(200):
            if client.get("/readyz").json()["visitors_left_out"]:
                break
        vault.note = real
        assert released(client, clock) == 0
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST
        assert [event["batch"] for event in promise(client)["events"]] == [0]
        assert {event["detail"] for event in promise(client)["events"]} == {BURNT}
        people(client, 2 * FIRST, prefix="later")
        assert released(client, clock) >= 1
        assert faultless(client)


@pytest.mark.parametrize("rest", [0.0, 1e9])
def test_a_release_whose_commit_is_lost_while_the_process_lives_is_not_made_again(
    database: str, tmp_path: Path, rest: float
) -> None:
    """R8: after a failover to a standby that lacks it, the batch is back; the epoch file knows, and it is dropped.

    However long looks at memory rest where batches open: a release looks before it draws.
    """
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock, poll_seconds=3600.0) as client:
        service = client.service  # type: ignore[attr-defined]
        service.check_rest = rest
        stocked(client)
        people(client, FIRST + 2)
        before = snapshot(service.store)
        assert released(client, clock) == 1
        first = client.get("/v1/shelves/teas/releases").json()["releases"][0]["score"]
        put_back_live(service.store, before)
        assert client.get("/v1/shelves/teas").json()["releases"] == 0  # acknowledged, and lost
        assert released(client, clock) == 0
        found = promise(client)
        assert [event["batch"] for event in found["events"]][:1] == [0]
        assert {event["detail"] for event in found["events"][:1]} == {LOST}
        assert found["rho"] >= 4.0
        assert found["unit"] == "visit"
        assert client.get("/readyz").json()["visitors_left_out"] == FIRST + 2
        people(client, 3 * FIRST, prefix="later")
        assert released(client, clock) >= 1
        assert all(each["score"] != first for each in client.get("/v1/shelves/teas/releases").json()["releases"])
        assert faultless(client)


def test_a_commit_that_is_lost_before_it_is_noted_burns_the_batch(database: str, tmp_path: Path) -> None:
    """R7 and R8: the file strikes an announcement off only if the database has the cost of that batch."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock, poll_seconds=3600.0) as client:
        service = client.service  # type: ignore[attr-defined]
        stocked(client)
        people(client, FIRST + 2)
        lost: list[Any] = []

        enter = service.releasing._enter

        def acknowledged_and_lost(drawn: Any) -> Any:
            before = snapshot(service.store)
            outcome = enter(drawn)
            if not lost:
                put_back_live(service.store, before)
                lost.append(outcome)
            return outcome

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.releasing, "_enter", acknowledged_and_lost)
            released(client, clock)
        assert released(client, clock) == 0
        assert [event["batch"] for event in promise(client)["events"]] == [0]
        assert {event["detail"] for event in promise(client)["events"]} == {BURNT}
        people(client, 2 * FIRST, prefix="later")
        assert released(client, clock) >= 1
        assert faultless(client)


def test_a_shelf_deleted_between_announcement_and_burning_pays_for_the_batch(tmp_path: Path) -> None:
    """The batch is gone with its shelf; its cost is not."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock, poll_seconds=3600.0) as client:
        service = client.service  # type: ignore[attr-defined]
        stocked(client)
        stocked(client, "others")
        people(client, FIRST)
        people(client, 2, name="others")
        client.get("/readyz")
        file = service.vault.epoch
        file["shelves"]["1"]["announced"] = [0]
        service.vault.note(file)
        assert client.delete("/v1/shelves/teas").status_code == 204
        with service.vault.locked():
            assert restore.check(service.store, service.source).dropped == (0, 1)
        assert promise(client)["rho"] == pytest.approx(4.0)
        assert client.get("/readyz").json()["visitors_left_out"] == 0  # the other shelf goes on


def test_offers_that_are_lost_with_their_commit_harm_nobody(database: str, tmp_path: Path) -> None:
    """A failover that loses offers and no release: their slots are taken by others, their answers are refused."""
    clock = FakeClock()
    with inline(database, tmp_path, clock=clock, poll_seconds=3600.0) as client:
        service = client.service  # type: ignore[attr-defined]
        stocked(client)
        people(client, 2)
        before = snapshot(service.store)
        lost = offered(client, person="lost").json()
        put_back_live(service.store, before)
        again = offered(client, person="another").json()
        assert lost["offer"].split(".")[:3] == again["offer"].split(".")[:3]
        assert answered(client, lost["offer"], None).status_code == 409
        assert answered(client, again["offer"], None).status_code == 204
        people(client, FIRST, prefix="later")
        assert released(client, clock) == 1
        assert promise(client)["unit"] == "person"
        assert faultless(client)


def test_a_restore_in_the_middle_of_a_release_that_was_not_full_drops_all(tmp_path: Path) -> None:
    """A batch announced as full that is not full here: the database is older than the announcement."""
    clock, database = FakeClock(), f"sqlite:///{tmp_path}/shop.db"
    with inline(database, tmp_path, clock=clock) as client:
        stocked(client)
        people(client, 3)
    epoch = tmp_path / "secrets" / "epoch.json"
    content = json.loads(epoch.read_text())
    content["shelves"]["1"]["announced"] = [0]
    epoch.write_text(json.dumps(content))
    with inline(database, tmp_path, clock=clock) as client:
        assert client.get("/readyz").json()["epoch"] == 1
        assert {event["batch"] for event in promise(client)["events"]} == {0, 1}
        assert promise(client)["unit"] == "visit"
