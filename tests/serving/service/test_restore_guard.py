"""`quietshelf restore` refuses what needs no restore, and costs what it said it would."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.cli.command import START, command
from tests.serving.service.backups import faultless, people, put_back_live, released, snapshot
from tests.serving.service.harness import FIRST, FakeClock, inline, stocked
from tests.serving.service.machines import machine
from tests.serving.service.restoring import Rows, all_of_it, asked, flags, opened

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases import restore_command
from quietshelf.serving.service.settings import ServiceSettings

CONTROLLED = "import os; os.close(os.open(os.ttyname(0), os.O_RDWR)); "
"""The first terminal that the leader of a session opens is the one whose Ctrl-C it hears."""


def shop(database: str, folder: Path) -> tuple[Rows, bytes]:
    """Persons come, are released, come again, and a second shelf is made: the rows and the epoch file of half-time."""
    clock, half_time = FakeClock(), (folder / "secrets" / "epoch.json").read_bytes
    with inline(database, folder, clock=clock) as client:
        stocked(client, visits=2, conversion=0.25)  # batches of 18 and 25, as with one visit
        people(client, FIRST + 3)
        assert released(client, clock) == 1
        people(client, 7, prefix="early")
        old = snapshot(client.service.store), half_time()  # type: ignore[attr-defined]
        people(client, 20, prefix="late")
        assert released(client, clock) == 2
        people(client, 5, prefix="last")
        stocked(client, "new", rho=5.0)
        people(client, 2, name="new")
    return old


def lagging(database: str, folder: Path, rows: Rows, _: bytes) -> None:
    """The rows of half-time, under the epoch file of now."""
    store = opened(database, folder / "secrets")
    put_back_live(store, rows)
    store.close()


def without_file(_: str, folder: Path, __: Rows, ___: bytes) -> None:
    """On a new machine, with the key alone."""
    (folder / "secrets" / "epoch.json").unlink()


def with_an_old_file(_: str, folder: Path, __: Rows, old: bytes) -> None:
    """On a machine whose epoch file does not have the last release."""
    (folder / "secrets" / "epoch.json").write_bytes(old)


def with_another_file(_: str, folder: Path, __: Rows, ___: bytes) -> None:
    """Beside the epoch file of a shop that is gone."""
    clock = FakeClock()
    with inline(f"sqlite:///{folder}/other.db", folder / "other", clock=clock) as client:
        stocked(client, "coffee")
        people(client, FIRST, name="coffee")
        assert released(client, clock, name="coffee") == 1
    os.replace(folder / "other" / "secrets" / "epoch.json", folder / "secrets" / "epoch.json")


Disaster = Callable[[str, Path, Rows, bytes], None]
DISASTERS: list[tuple[Disaster, str, tuple[int, int]]] = [
    (lagging, restore_command.BEHIND, (10, 1)),
    (without_file, restore_command.NO_FILE, (12, 0)),
    (with_an_old_file, restore_command.ELSEWHERE, (12, 0)),
    (with_another_file, restore_command.OTHER, (12, 1)),
]


@pytest.mark.parametrize(("disaster", "reason", "cost"), DISASTERS, ids=[each[0].__name__ for each in DISASTERS])
def test_a_restore_costs_what_it_said_and_says_so_without_a_change(
    disaster: Disaster, reason: str, cost: tuple[int, int], database: str, tmp_path: Path
) -> None:
    """Each lawful reason: first the cost, every row and the epoch file as they were; then exactly that cost."""
    secrets = tmp_path / "secrets"
    disaster(database, tmp_path, *shop(database, tmp_path))
    before = all_of_it(database, secrets)
    shown = asked(database, secrets, "--json")
    assert "confirmed (at a terminal, or with --yes)" in str(shown.exception)
    planned = json.loads(shown.stdout)
    assert planned["restored"] is False
    assert planned["reason"] == reason
    assert all_of_it(database, secrets) == before
    done = asked(database, secrets, "--json", "--yes")
    assert json.loads(done.stdout) == {**planned, "restored": True}
    assert (planned["visitors"], planned["lost_releases"]) == cost
    dropped = snapshot_of(database, secrets)["store"][0]["dropped"]
    assert dropped == planned["visitors"]
    with inline(database, tmp_path, clock=FakeClock(1_900_000_000.0)) as client:
        found = client.get("/v1/privacy").json()
        assert found["rho"] == planned["rho"]
        assert {shelf["number"]: (shelf["unit"], shelf["rho"], shelf["words"]) for shelf in found["shelves"]} == {
            shelf["number"]: tuple(shelf["after"].values()) for shelf in planned["shelves"]
        }
        while (ready := client.get("/readyz")).status_code == 503:  # shelves are being read
            time.sleep(0.05)
        assert ready.json()["releases_here"] is True
        assert faultless(client)
    assert "there is nothing to restore" in str(asked(database, secrets, "--yes").exception)


def snapshot_of(database: str, secrets: Path) -> Rows:
    return all_of_it(database, secrets)[0]


def test_a_person_loses_a_promise_and_is_told_before(tmp_path: Path) -> None:
    """Now to a person, afterwards to a visit; losses are shown with their cost; a pipe is not asked."""
    database, secrets = f"sqlite:///{tmp_path}/shop.db", tmp_path / "secrets"
    lagging(database, tmp_path, *shop(database, tmp_path))
    before = all_of_it(database, secrets)
    found = command(*flags(database, secrets))
    assert found.returncode == 2
    assert found.stdout == ""
    for line in (
        "shelf teas (number 1): 10 visitors of open batches left out, 1 lost release entered at rho 2 each",
        "promised now: rho = 2 to each person; promised afterwards: rho = 2 to each visit, not each person",
        "shelf new (number 2): 0 visitors of open batches left out, 0 lost releases entered",
        "this database does not know it; it comes back as a deleted shelf",
        "in all: 10 visitors left out, 1 lost release entered; to a person on all shelves rho = 2 now, 7 afterwards",
        "nothing was changed",
    ):
        assert line in found.stderr
    assert all_of_it(database, secrets) == before
    done = command(*flags(database, secrets), "--yes")
    assert done.returncode == 0
    assert done.stdout == "10 visitors left out, 1 lost release entered in the ledger\n"


@pytest.mark.parametrize(("answer", "status"), [("n", 1), ("", 1), ("\x03", 1), ("\x04", 1), ("y", 0)])
def test_at_a_terminal_it_asks_and_takes_no_for_an_answer(answer: str, status: int, tmp_path: Path) -> None:
    """No, nothing, Ctrl-C and the end of the input change no row; yes restores."""
    database, secrets = f"sqlite:///{tmp_path}/shop.db", tmp_path / "secrets"
    lagging(database, tmp_path, *shop(database, tmp_path))
    before = all_of_it(database, secrets)
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-c", CONTROLLED + START, *flags(database, secrets)]
    with subprocess.Popen(
        arguments, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            seen = ""
            while "Continue? [y/N]" not in seen:
                seen += os.read(ours, 65536).decode()
            printed = answered(process, ours, answer)
        finally:
            process.kill()
    rest = b""
    try:
        while part := os.read(ours, 65536):
            rest += part
    except OSError:  # the other end is closed
        os.close(ours)
    assert process.returncode == status
    assert (printed == "") == (status == 1)
    assert (b"nothing was changed" in rest) == (status == 1)
    assert (all_of_it(database, secrets) == before) == (status == 1)


def answered(process: subprocess.Popen[str], terminal: int, answer: str) -> str:
    """What it prints after the answer. Ctrl-C between the question and the read is not heard: one presses again."""
    key = answer in ("\x03", "\x04")
    for _ in range(30):
        os.write(terminal, (answer if key else answer + "\n").encode())
        try:
            return process.communicate(timeout=2 if key else 60)[0]
        except subprocess.TimeoutExpired:
            continue
    raise TimeoutError(f"{answer!r} was not heard")


def test_a_lost_database_is_not_made_before_somebody_agrees(database: str, tmp_path: Path) -> None:
    """The cost is that of what its epoch file knows, and the same afterwards."""
    secrets = tmp_path / "secrets"
    shop(database, tmp_path)
    store = opened(database, secrets)
    with store.write() as connection:
        for table in snapshot(store) | {"alembic_version": []}:
            connection.exec_driver_sql(f"DROP TABLE {table}")
    store.close()
    if database.startswith("sqlite"):
        (tmp_path / "shop.db").unlink()
    before = sorted(path.name for path in tmp_path.rglob("*"))
    planned = json.loads(asked(database, secrets, "--json").stdout)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert (planned["visitors"], planned["lost_releases"]) == (0, 2)
    assert [shelf["before"] for shelf in planned["shelves"]] == [None, None]
    done = asked(database, secrets, "--json", "--yes")
    assert json.loads(done.stdout) == {**planned, "restored": True}
    with inline(database, tmp_path, clock=FakeClock(1_900_000_000.0)) as client:
        stocked(client, "newest")
        found = client.get("/v1/privacy").json()
        assert [shelf["number"] for shelf in found["shelves"]] == [1, 2, 3]
        assert found["rho"] >= planned["rho"]


@pytest.mark.parametrize("announced", [[], [0]])
def test_a_database_with_all_that_was_released_is_refused(announced: list[int], database: str, tmp_path: Path) -> None:
    """Also one whose release was cut off: the service settles that by itself, and drops no other batch."""
    secrets = tmp_path / "secrets"
    with inline(database, tmp_path, clock=FakeClock()) as client:
        stocked(client)
        people(client, FIRST + 1)
    known = json.loads((secrets / "epoch.json").read_text())
    known["shelves"]["1"]["announced"] = announced
    (secrets / "epoch.json").write_text(json.dumps(known))
    if announced and database.startswith("postgresql"):
        told = {"id": known["releaser_ids"][-1], "previous": None, "shelf": 1, "batch": 0}
        store = opened(database, secrets)
        with store.write() as connection:
            connection.execute(sa.insert(schema.announcements).values(told))
        store.close()
    before = all_of_it(database, secrets)
    for more in (["--yes"], ["--yes", "--json"], ["--json"], []):
        found = asked(database, secrets, *more)
        assert found.stdout == ""
        assert "there is nothing to restore" in str(found.exception)
    assert all_of_it(database, secrets) == before


def test_what_has_changed_since_is_not_restored(tmp_path: Path) -> None:
    """Only the cost that was shown was agreed to."""
    database, secrets = f"sqlite:///{tmp_path}/shop.db", tmp_path / "secrets"
    lagging(database, tmp_path, *shop(database, tmp_path))
    settings = ServiceSettings(database=database, secrets=str(secrets))
    source = machine(database, secrets, FakeClock()).source
    agreed = restore_command.plan(settings, source)
    store = opened(database, secrets)
    with store.write() as connection:
        connection.execute(sa.update(schema.batches).values(taken=schema.batches.c.taken - 1))
    store.close()
    before = all_of_it(database, secrets)
    with pytest.raises(ValueError, match="got another cost"):
        restore_command.carry_out(settings, source, agreed)
    assert all_of_it(database, secrets) == before
