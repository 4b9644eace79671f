"""Several machines on one PostgreSQL: one releases, the others know, and any of them takes over without a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.serving.service.backups import put_back_live, snapshot
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.elections import full, ledger, people, two_machines, unit, waiting
from tests.serving.service.harness import FIRST, WINDOW, FakeClock
from tests.serving.service.machines import machine, shop, with_the_key_of

from quietshelf.serving.service.catalogue import shelves
from quietshelf.serving.service.releases.election import LEASE_SECONDS, LOST_LEASE, WITNESS_SECONDS, announced
from quietshelf.serving.service.releases.losses import BURNT, LOST
from quietshelf.serving.service.service import Service


@pytest.fixture
def pair(postgres: Any, tmp_path: Path, clock: FakeClock) -> Iterator[tuple[Service, Service]]:
    """A machine that releases and, with nothing but a copy of its key, another that has been vouched for."""
    with two_machines(fresh_postgres(postgres), tmp_path, clock) as both:
        yield both


def passes(clock: FakeClock, seconds: float, *alive: Service) -> None:
    """Time passes, and machines that live look every few seconds."""
    for _ in range(round(seconds / 5)):
        clock.time += 5.0
        for each in alive:
            each.releasing.stay()


def test_a_release_waits_until_every_machine_that_lives_has_noted_it(
    pair: tuple[Service, Service], clock: FakeClock
) -> None:
    """Nothing is drawn before; afterwards every file has it."""
    first, second = pair
    full(pair, clock)
    assert not first.releasing.release()
    assert first.source.draws == 0  # type: ignore[attr-defined]
    second.releasing.stay()
    assert second.vault.epoch["shelves"]["1"]["announced"] == [0]
    assert first.releasing.release()
    second.releasing.stay()
    assert ledger(first) == [(0, "")]
    for each in pair:
        mark = each.vault.epoch["shelves"]["1"]
        assert (mark["released"], mark["announced"]) == (0, [])
    assert first.vault.epoch["releaser_ids"] == second.vault.epoch["releaser_ids"]


def test_a_process_that_is_gone_is_not_waited_for_if_another_of_its_machine_lives(
    pair: tuple[Service, Service], clock: FakeClock, tmp_path: Path
) -> None:
    """They share an epoch file: what one has noted the machine knows, as after every restart."""
    first, second = pair
    gone = machine(first.settings.database, tmp_path / "b", clock)
    gone.prepare()
    gone.store.close()
    full(pair, clock)
    assert not first.releasing.release()
    assert first.source.draws == 0  # type: ignore[attr-defined]
    second.releasing.stay()
    assert first.releasing.release()


def test_a_machine_that_is_gone_is_not_waited_for_long(pair: tuple[Service, Service], clock: FakeClock) -> None:
    """A witness that is not heard of counts as dead after a while."""
    first, second = pair
    full(pair, clock)
    assert not first.releasing.release()
    second.store.close()
    passes(clock, WITNESS_SECONDS, first)
    assert first.releasing.release()


def test_another_machine_takes_over_and_loses_nothing(pair: tuple[Service, Service], clock: FakeClock) -> None:
    """The releaser is gone before it announced anything: every visitor counts, and persons keep their promise."""
    first, second = pair
    full(pair, clock)
    first.store.close()
    passes(clock, WITNESS_SECONDS, second)
    assert second.releasing.release()
    assert ledger(second) == [(0, "")]
    assert unit(second) == "person"
    assert waiting(second) == 1


@pytest.mark.parametrize("noted", [False, True])
def test_what_the_lost_releaser_had_announced_is_burnt_and_nothing_else(
    pair: tuple[Service, Service], clock: FakeClock, noted: bool
) -> None:
    """Whether its noise was drawn cannot be known."""
    first, second = pair
    full(pair, clock)
    assert not first.releasing.release()
    if noted:
        second.releasing.stay()
    first.store.close()
    passes(clock, WITNESS_SECONDS, second)
    assert not second.releasing.release()
    assert ledger(second) == [(0, BURNT)]
    assert unit(second) == "person"
    assert waiting(second) == 1
    people(second, 2 * FIRST, "later")
    clock.time += WINDOW
    assert second.releasing.release()
    assert ledger(second) == [(0, BURNT), (1, "")]


def test_a_process_that_asks_who_leads_takes_nothing_from_the_leader(
    pair: tuple[Service, Service], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks at the very moment at which the leader renews its lease: what was announced is released, not burnt."""
    first, second = pair
    full(pair, clock)
    assert not first.releasing.release()
    now = second.store.now
    kept: list[bool] = []

    def while_it_asks(connection: Connection, **given: float) -> float:
        kept.append(first.releasing._leads())
        return now(connection, **given)

    monkeypatch.setattr(second.store, "now", while_it_asks)
    assert not second.releasing.release()
    monkeypatch.undo()
    assert kept
    assert all(kept)
    assert first.releasing.release()
    assert ledger(first) == [(0, "")]


def test_a_leader_at_work_after_its_lease_is_not_waited_for(pair: tuple[Service, Service], clock: FakeClock) -> None:
    """It is late in a transaction that rests on the lease: the other leaves it alone, and leads once that has ended."""
    first, second = pair
    with first.store.write() as connection:
        first.releasing._fence(connection)
        clock.time += LEASE_SECONDS + 1.0
        second.releasing.stay()
        assert not second.releasing._leads()
    assert second.releasing._leads()
    assert not first.releasing._leads()


def test_the_cost_of_an_announced_batch_is_entered_though_its_shelf_is_deleted(
    pair: tuple[Service, Service], clock: FakeClock
) -> None:
    """Nothing else is due: the next look enters it, and nothing is drawn."""
    first, second = pair
    full(pair, clock)
    assert not first.releasing.release()
    with first.store.write() as connection:
        shelves.delete(connection, "teas", clock.time)
    for each in (second, first):
        each.releasing.stay()
    assert ledger(first) == [(0, BURNT)]
    assert first.source.draws == 0  # type: ignore[attr-defined]
    with first.store.read() as connection:
        assert announced(connection) == []


def test_a_releaser_that_lost_its_lease_draws_nothing(pair: tuple[Service, Service], clock: FakeClock) -> None:
    """It was stopped between announcement and draw, and goes on after another has taken over."""
    first, second = pair
    full(pair, clock)
    assert not first.releasing.release()
    passes(clock, WITNESS_SECONDS, second)
    assert not second.releasing.release()
    told = first.releasing._told
    assert told is not None
    with pytest.raises(ValueError, match=LOST_LEASE), first.store.write() as connection:
        first.releasing._fence(connection)
    assert not first.releasing.release()
    assert first.releasing.elsewhere
    assert first.source.draws == second.source.draws == 0  # type: ignore[attr-defined]
    assert ledger(first) == [(0, BURNT)]


def test_a_database_that_lost_a_release_is_known_by_any_machine(
    pair: tuple[Service, Service], clock: FakeClock
) -> None:
    """A standby takes over that lacks the release, and the machine that made it is gone: the other one knows."""
    first, second = pair
    full(pair, clock)
    before = snapshot(second.store)
    first.releasing.release()
    second.releasing.stay()
    assert first.releasing.release()
    put_back_live(second.store, before)
    first.store.close()
    passes(clock, WITNESS_SECONDS, second)
    assert not second.releasing.release()
    assert second.source.draws == 0  # type: ignore[attr-defined]
    assert ledger(second)[0] == (0, LOST)
    assert unit(second) == "visit"
    assert waiting(second) == 0
    people(second, 3 * FIRST, "later")
    clock.time += WINDOW
    assert second.releasing.release()


def test_a_second_machine_refuses_what_the_database_has_forgotten(
    pair: tuple[Service, Service], clock: FakeClock
) -> None:
    """The one that leads has a file as old as the database; a witness that knows better is asked before the draw."""
    first, second = pair
    full(pair, clock)
    before, file = snapshot(second.store), first.vault.epoch
    first.releasing.release()
    second.releasing.stay()
    assert first.releasing.release()
    put_back_live(second.store, before)
    first.vault.note(file)
    drawn = first.source.draws  # type: ignore[attr-defined]
    first.releasing.release()
    second.releasing.stay()
    first.releasing.release()
    assert first.source.draws == drawn  # type: ignore[attr-defined]
    assert (0, LOST) in ledger(second)
    assert waiting(second) == 0


def test_a_newcomer_alone_serves_and_releases_nothing(postgres: Any, tmp_path: Path, clock: FakeClock) -> None:
    """Only the key was copied, and nobody is left who knows: whether this is a backup cannot be known."""
    database = fresh_postgres(postgres)
    first = machine(database, tmp_path / "a", clock)
    first.prepare()
    shop(first)
    people(first, FIRST, "early")
    first.store.close()
    clock.time += WINDOW + 2 * LEASE_SECONDS
    second = machine(database, with_the_key_of(tmp_path / "a", tmp_path / "b"), clock)
    second.prepare()
    people(second, 1, "later")
    second.releasing.stay()
    assert not second.releasing.release()
    assert ledger(second) == []
    first = machine(database, tmp_path / "a", clock)  # comes back, and vouches
    first.prepare()
    clock.time += 1.0
    first.releasing.stay()
    second.releasing.stay()
    first.releasing.leave()
    first.store.close()
    assert second.releasing.release()
    assert ledger(second) == [(0, "")]
    second.store.close()
