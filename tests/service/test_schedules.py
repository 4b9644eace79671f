"""Random schedules of machines, kills and a database that forgets: nobody is drawn twice, and no person is needed.

A machine is killed, stopped, or runs into a database that was put back, before or after any durable step of a release,
while others do what they like; the clock of the database that takes over may be another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.service.backups import put_back_live, snapshot
from tests.service.clusters import LONG, Cluster
from tests.service.conftest import fresh_postgres
from tests.service.harness import FIRST, FakeClock
from tests.service.test_election import ledger, people, unit, waiting
from tests.service.test_machines import shop
from tests.studies.size import FULL

from quietshelf.service import election
from quietshelf.service.restore import BURNT
from quietshelf.service.store import Store
from quietshelf.service.vault import Vault

SEEDS, STEPS = (2000, 40) if FULL else (6, 30)
NAMES = "abc"
REFUSED = (sa.exc.DBAPIError, ValueError, RuntimeError)
"""What the chores of a machine may raise: they log it and try again."""


class Killed(BaseException):
    """The machine ends here."""


class Schedule:
    """One run; ``said`` is what happened, for whoever reads of a failure."""

    def __init__(self, database: str, folder: Path, own: FakeClock, seed: int) -> None:
        self.random, self.said = random.Random(seed), [f"seed {seed}"]
        patient = database + ("&" if "?" in database else "?") + "options=-c%20lock_timeout%3D200"
        self.cluster, self.own = Cluster(patient, folder), own
        self.kept: list[dict[str, list[dict[str, Any]]]] = []
        self.arrived = self.lost = self.kills = 0
        self.plan: tuple[str, int, Callable[[], None]] | None = None
        self.cluster.point = self.point
        shop(self.cluster.start("a"))
        self.store = Store(self.cluster.alive["a"].settings.url, Vault(folder / "a"), self.cluster.clock)
        self.arrive()

    def point(self, name: str, step: str) -> None:
        """Before or after a durable step: perhaps it is where something was planned to happen."""
        if self.plan is None or self.plan[0] != name:
            return
        _, left, happens = self.plan
        self.plan = (name, left - 1, happens)
        if left == 0:
            self.plan = None
            self.said.append(f"  {step} of {name}:")
            happens()

    def one(self) -> None:
        """Something happens."""
        kinds = {self.look: 20, self.release: 30, self.time: 12, self.stopped: 10, self.arrive: 10, self.kill: 4}
        kinds |= {self.start: 10, self.keep: 6, self.put_back: 2, self.cut: 12, self.among: 12, self.forgets: 5}
        self.random.choices(list(kinds), list(kinds.values()))[0]()

    def tried(self, name: str, what: str) -> None:
        """A machine does something, which may fail, or be its end."""
        if name not in self.cluster.alive:
            return
        self.said.append(f"{name}.{what}")
        try:
            getattr(self.cluster.alive[name].releasing, what)()
        except REFUSED as error:
            self.said.append(f"  {type(error).__name__}: {str(error)[:90]}")
        except Killed:
            self.end(name)
        assert self.cluster.once(), "drawn twice"

    def any_one(self) -> str:
        return self.random.choice(sorted(self.cluster.alive) or ["a"])

    def look(self) -> None:
        self.tried(self.any_one(), "stay")

    def release(self) -> None:
        self.tried(self.any_one(), "release")

    def pass_on(self, seconds: float) -> None:
        self.cluster.clock.time += seconds
        self.own.time += seconds

    def time(self) -> None:
        """Some time in which everybody looks."""
        for _ in range(self.random.choice([1, 4, 12])):
            self.pass_on(2.0)
            for name in list(self.cluster.alive):
                self.tried(name, "stay")

    def stopped(self) -> None:
        """All but one are stopped for a while."""
        name = self.any_one()
        for _ in range(self.random.choice([2, 5, 12])):
            self.pass_on(3.0)
            self.tried(name, self.random.choice(["stay", "stay", "release"]))

    def arrive(self) -> None:
        name = self.any_one()
        if name in self.cluster.alive:
            count = self.random.choice([FIRST // 2, FIRST, 2 * FIRST])
            self.said.append(f"{count} visitors")
            self.arrived += count
            people(self.cluster.alive[name], count, f"person {self.arrived}")

    def start(self) -> None:
        name = self.random.choice(NAMES)
        if name not in self.cluster.alive:
            self.said.append(f"{name} starts")
            try:
                self.cluster.start(name)
            except REFUSED as error:
                self.said.append(f"  {type(error).__name__}: {str(error)[:90]}")
                self.end(name)
            except Killed:
                self.end(name)

    def kill(self) -> None:
        if self.cluster.alive:
            self.end(self.any_one())

    def end(self, name: str) -> None:
        self.said.append(f"{name} ends")
        self.kills += 1
        if name in self.cluster.alive:
            self.cluster.kill(name)

    def keep(self) -> None:
        self.said.append(f"backup {len(self.kept)}")
        self.kept.append(snapshot(self.store))

    def put_back(self) -> None:
        """An earlier state takes over, perhaps with another clock; whatever was under way is cut off."""
        if self.kept:
            which = self.random.randrange(len(self.kept))
            apart = self.random.choice([-30.0, -3.0, 0.0, 0.0, 3.0, 30.0])
            self.said.append(f"backup {which} put back, clock {apart:+}")
            self.lost += 1
            with self.store.write() as connection:
                others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                connection.execute(sa.text(others + " AND pid <> pg_backend_pid()"))
            put_back_live(self.store, self.kept[which])
            self.cluster.clock.time += apart

    def cut(self) -> None:
        """A machine is killed somewhere in a release."""
        self.planned(self._killed, self.random.randrange(30))

    def among(self) -> None:
        """Others do something in the middle of a release."""
        self.planned(self._others, self.random.randrange(30))

    def forgets(self) -> None:
        """The database is put back in the middle of a release."""
        self.planned(self.put_back, self.random.randrange(30))

    def planned(self, happens: Callable[[], None], after: int) -> None:
        name = self.any_one()
        self.plan = (name, after, happens)
        for _ in range(3):
            self.tried(name, "release")
            for other in list(self.cluster.alive):
                if self.random.random() < 0.7:
                    self.tried(other, "stay")
        self.plan = None

    def _killed(self) -> None:
        raise Killed

    def _others(self) -> None:
        if self.random.random() < 0.5:
            self.pass_on(self.random.choice([1.0, 12.0, 25.0]))
        for _ in range(self.random.choice([1, 3, 6])):
            name = self.any_one()
            self.tried(name, self.random.choice(["stay", "release"]))

    def ends_well(self) -> None:
        """Everybody is started: by themselves they find a releaser, and the next batch is released."""
        for name in NAMES:
            if name not in self.cluster.alive:
                self.cluster.start(name)
        before = len(self.cluster.drawn)
        for _ in range(3):
            for _ in range(round(LONG / 3)):
                self.pass_on(3.0)
                for name in NAMES:
                    self.tried(name, "stay")
            for name in 2 * NAMES:
                self.tried(name, "release")
                for other in NAMES:
                    self.tried(other, "stay")
            self.arrive()
            people(self.cluster.alive["a"], 12 * FIRST, f"late {self.arrived}")
            self.arrived += 12 * FIRST
        assert len(self.cluster.drawn) > before, "nobody releases"
        found = ledger(self.cluster.alive["a"])
        assert len(found) >= len(self.cluster.drawn) or self.lost, "a draw is not in the ledger"
        if not self.lost:  # nothing was lost: at most what was announced is burnt
            service = self.cluster.alive["a"]
            burnt = [batch for batch, detail in found if detail == BURNT]
            assert {detail for _, detail in found} <= {"", BURNT}
            assert unit(service) == "person"
            assert len(burnt) <= self.kills + sum("Error" in line or ":" in line for line in self.said)
            if not burnt:
                assert waiting(service) + sum(map(len, self.cluster.drawn)) == self.arrived

    def close(self) -> None:
        self.cluster.close()
        self.store.close()


def run(database: str, folder: Path, own: FakeClock, seed: int) -> Schedule:
    """A schedule, to its end; ``own``: the clock of all machines, which no database sets."""
    schedule = Schedule(database, folder, own, seed)
    try:
        for _ in range(STEPS):
            schedule.one()
        schedule.ends_well()
    except BaseException as error:
        error.add_note("\n".join(schedule.said))
        raise
    finally:
        schedule.close()
    return schedule


@pytest.mark.study
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nobody_is_drawn_twice_and_no_person_is_needed(
    postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever is killed, stopped, put back or started, at whichever step."""
    own = FakeClock()
    monkeypatch.setattr(election, "_own_clock", own.now)
    run(fresh_postgres(postgres), tmp_path, own, seed)
