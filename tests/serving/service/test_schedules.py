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
from tests.serving.service.backups import put_back_live, snapshot
from tests.serving.service.clusters import LONG, Cluster
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.elections import ledger, people, unit, waiting
from tests.serving.service.harness import FIRST, FakeClock
from tests.serving.service.machines import shop
from tests.studies.size import FULL

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.releases import election
from quietshelf.serving.service.releases.losses import BURNT
from quietshelf.serving.service.service import Service

SEEDS, STEPS = (2000, 40) if FULL else (3, 30)
NAMES = "abc"
REFUSED = (sa.exc.DBAPIError, ValueError, RuntimeError)
"""What the chores of a machine may raise: they log it and try again."""


class Killed(BaseException):
    """The machine ends here."""


class Schedule:
    """One run; ``said`` is what happened, for whoever reads of a failure."""

    def __init__(self, database: str, folder: Path, own: FakeClock, seed: int) -> None:
        self.random, self.said = random.Random(seed), [f"seed {seed}"]  # noqa: S311 - a schedule is no secret
        patient = database + ("&" if "?" in database else "?") + "options=-c%20lock_timeout%3D200"
        self.cluster, self.own = Cluster(patient, folder), own
        self.kept: list[dict[str, list[dict[str, Any]]]] = []
        self.arrived = self.lost = self.troubles = 0
        self.busy: set[str] = set()
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
        if name not in self.cluster.alive or name in self.busy:
            return
        self.said.append(f"{name}.{what}")
        self.busy.add(name)
        try:
            getattr(self.cluster.alive[name].releasing, what)()
        except REFUSED as error:
            self.said.append(f"  {type(error).__name__}: {str(error)[:90]}")
            self.troubles += 1
        except Killed:
            self.end(name)
        finally:
            self.busy.discard(name)
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
        for _ in range(self.random.choice([1, 2, 5])):
            self.pass_on(5.0)
            for name in list(self.cluster.alive):
                self.tried(name, "stay")

    def stopped(self) -> None:
        """All but one are stopped for a while."""
        name = self.any_one()
        for _ in range(self.random.choice([1, 3, 5])):
            self.pass_on(6.0)
            self.tried(name, self.random.choice(["stay", "stay", "release"]))

    def arrive(self) -> None:
        name = self.any_one()
        if name in self.cluster.alive:
            count = self.random.choice([FIRST // 2, FIRST, 2 * FIRST])
            self.said.append(f"{count} visitors")
            self.arrived += count
            people(self.cluster.alive[name], count, f"person {self.arrived}")

    def start(self) -> None:
        self.start_one(self.random.choice(NAMES))

    def start_one(self, name: str) -> None:
        """Start a machine unless it runs."""
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
        name = self.any_one()
        if name in self.cluster.alive:
            self.end(name)

    def end(self, name: str) -> None:
        self.said.append(f"{name} ends")
        self.troubles += 1
        if name in self.cluster.alive:
            self.cluster.kill(name)

    def keep(self) -> None:
        self.said.append(f"backup {len(self.kept)}")
        self.kept.append(snapshot(self.store))

    def put_back(self, which: int | None = None, apart: float | None = None) -> None:
        """An earlier state takes over, perhaps with another clock; whatever was under way is cut off."""
        if self.kept:
            which = self.random.randrange(len(self.kept)) if which is None else which
            apart = self.random.choice([-30.0, -3.0, 0.0, 0.0, 3.0, 30.0]) if apart is None else apart
            self.said.append(f"backup {which} put back, clock {apart:+}")
            self.lost += 1
            with self.store.write() as connection:
                others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                connection.execute(sa.text(others + " AND pid <> pg_backend_pid()"))
            put_back_live(self.store, self.kept[which])
            self.cluster.clock.time += apart

    def cut(self) -> None:
        """A machine is killed somewhere in a release."""
        self.planned(self._killed, self.random.randrange(24))

    def among(self) -> None:
        """Others do something in the middle of a release."""
        self.planned(self._others, self.random.randrange(24))

    def forgets(self) -> None:
        """The database is put back in the middle of a release."""
        self.planned(self.put_back, self.random.randrange(24))

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
        for _ in range(2):
            for _ in range(6):
                self.pass_on(LONG / 6)
                for name in NAMES:
                    self.tried(name, "stay")
            for name in NAMES:
                self.tried(name, "release")
                for other in NAMES:
                    self.tried(other, "stay")
                self.tried(name, "release")
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
            assert len(burnt) <= self.troubles
            if not burnt:
                assert waiting(service) + sum(map(len, self.cluster.drawn)) == arrivals(service)

    def close(self) -> None:
        self.cluster.close()
        self.store.close()


def arrivals(service: Service) -> int:
    with service.store.read() as connection:
        return int(connection.execute(sa.select(schema.shelves.c.arrivals)).scalar_one())


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


WITNESSES = ["looks", "is stopped", "is restarted", "is new"]
CUTS = 40
"""More than a release has durable steps, counted before and after each."""


@pytest.mark.study
@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("cut", range(0, CUTS, 1 if FULL else 19))
def test_a_commit_that_is_lost_at_any_step_is_never_made_up_for(
    postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int, witness: str
) -> None:
    """The database is put back to before the release and the releaser killed, at each durable step of the release."""
    own = FakeClock()
    monkeypatch.setattr(election, "_own_clock", own.now)
    lose_at(fresh_postgres(postgres), tmp_path, own, cut, witness)


def lose_at(database: str, folder: Path, own: FakeClock, cut: int, witness: str) -> bool:
    """Whether the release has so many steps."""
    schedule = Schedule(database, folder, own, cut)
    cluster = schedule.cluster
    try:
        if witness != "is new":
            cluster.start("b")
        people(cluster.alive["a"], 2 * FIRST, "person")
        everybody(schedule, 3, 5.0)
        schedule.keep()
        if witness == "is restarted":
            schedule.end("b")
        if witness != "looks":
            for _ in range(5):
                schedule.pass_on(5.0)
                schedule.tried("a", "stay")
        if witness == "is new":
            schedule.start_one("b")
            schedule.tried("a", "stay")
            schedule.keep()

        def loses() -> None:
            schedule.put_back(-1, 0.0)
            raise Killed

        schedule.plan = ("a", cut, loses)
        for _ in range(3):
            schedule.tried("a", "release")
            if witness == "looks":
                schedule.tried("b", "stay")
        reached = schedule.plan is None
        schedule.plan = None
        if "a" in cluster.alive:
            schedule.put_back(-1, 0.0)
            schedule.end("a")
        schedule.start_one("b")
        everybody(schedule, 8, 6.0)
        schedule.start_one("a")
        schedule.ends_well()
    except BaseException as error:
        error.add_note("\n".join(schedule.said))
        raise
    finally:
        schedule.close()
    return reached


def everybody(schedule: Schedule, looks: int, seconds: float) -> None:
    """Everybody who is alive looks, and tries to release."""
    for _ in range(looks):
        schedule.pass_on(seconds)
        for name in sorted(schedule.cluster.alive):
            schedule.tried(name, "stay")
    for name in 2 * sorted(schedule.cluster.alive):
        schedule.tried(name, "release")
