"""A witness that missed a release, or may have, never leads: whatever the database forgets, nobody is drawn twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.serving.service.backups import put_back_live, snapshot
from tests.serving.service.clusters import LONG, Cluster, started
from tests.serving.service.conftest import fresh_postgres
from tests.serving.service.elections import ledger, people, unit, waiting
from tests.serving.service.harness import FIRST, WINDOW
from tests.serving.service.machines import machine, shop

from quietshelf.serving.service import logs
from quietshelf.serving.service.catalogue import shelves
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.releases import election, steps
from quietshelf.serving.service.releases.election import LOST_LEASE, WITNESS_SECONDS
from quietshelf.serving.service.releases.losses import BURNT


@pytest.fixture
def cluster(postgres: Any, tmp_path: Path) -> Iterator[Cluster]:
    with started(fresh_postgres(postgres), tmp_path) as found:
        yield found


def test_a_witness_that_was_not_waited_for_never_leads(cluster: Cluster) -> None:
    """It was stopped, the release was drawn without it, its commit was lost, and the releaser is gone."""
    a, b = cluster.alive["a"], cluster.alive["b"]
    cluster.due()
    before = snapshot(a.store)
    cluster.passes(WITNESS_SECONDS + 1, without="b")
    assert cluster.releases("a")
    put_back_live(b.store, before)
    cluster.kill("a")
    cluster.passes(LONG)
    assert not cluster.releases("b")
    assert cluster.once()
    assert not b.releasing.release()


def test_a_machine_that_was_restarted_leads_only_beside_those_who_knew_it(cluster: Cluster) -> None:
    """The same, of a machine that was off meanwhile; once the other is back, nothing is left to a person."""
    cluster.due()
    before = snapshot(cluster.alive["a"].store)
    cluster.kill("b")
    cluster.passes(WITNESS_SECONDS + 1)
    assert cluster.releases("a")
    put_back_live(cluster.alive["a"].store, before)
    cluster.kill("a")
    cluster.passes(LONG)
    cluster.start("b")
    cluster.passes(LONG)
    assert not cluster.releases("b")
    cluster.start("a")
    cluster.passes(LONG)
    people(cluster.alive["b"], 3 * FIRST, "later")
    cluster.passes(WINDOW)
    assert cluster.releases("a", others="b") or cluster.releases("b", others="a")
    assert cluster.once()


def test_nobody_is_vouched_for_by_what_was_said_before_the_draw(cluster: Cluster) -> None:
    """A newcomer sees the releaser live; it releases and is gone, and the database forgets the release alone."""
    cluster.kill("b")
    cluster.passes(WITNESS_SECONDS + 1)
    cluster.due()
    a = cluster.alive["a"]
    c = cluster.start("c")
    cluster.passes(1, without="c")
    before = snapshot(a.store)
    cluster.releases("a")
    put_back_live(c.store, before)
    cluster.kill("a")
    cluster.passes(LONG)
    cluster.releases("c")
    assert cluster.once()


def test_a_newcomer_amid_a_release_drops_nothing(cluster: Cluster) -> None:
    """It notes what is announced before it is vouched for; nothing was lost."""
    cluster.due()
    a = cluster.alive["a"]
    assert not a.releasing.release()
    c = cluster.start("c")
    c.releasing.stay()
    c.releasing.stay()
    assert waiting(c) == FIRST + 1
    assert unit(c) == "person"
    assert cluster.releases("a", others="bc")
    assert ledger(a) == [(0, "")]


def test_a_releaser_forgets_what_another_has_burnt(cluster: Cluster) -> None:
    """It was stopped while it waited for witnesses; back in the lead it goes on with the next batch."""
    cluster.due()
    a, b = cluster.alive["a"], cluster.alive["b"]
    assert not a.releasing.release()
    cluster.passes(LONG, without="a")
    assert not b.releasing.release()
    assert ledger(b) == [(0, BURNT)]
    people(b, 6 * FIRST, "later")
    cluster.passes(WINDOW, without="a")
    assert cluster.releases("b")
    cluster.start("c")
    cluster.passes(4)
    cluster.kill("b")
    cluster.passes(LONG)
    assert cluster.releases("a", others="c")
    assert ledger(a)[:3] == [(0, BURNT), (1, ""), (2, "")]
    assert cluster.once()


def test_a_restore_that_is_lost_as_well_forgets_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database goes back once more after its loss was settled, before the epoch file notes that."""
    from quietshelf.serving.service.releases import epochs

    cluster.kill("b")
    cluster.passes(WITNESS_SECONDS + 1)
    cluster.due()
    a = cluster.alive["a"]
    before = snapshot(a.store)
    assert cluster.releases("a")
    put_back_live(a.store, before)
    real = epochs.note

    def note(store: Any, **how: Any) -> Any:
        if how.get("afresh"):
            put_back_live(a.store, before)
        return real(store, **how)

    with monkeypatch.context() as patch:
        patch.setattr(epochs, "note", note)
        a.releasing.stay()
    cluster.passes(LONG)
    cluster.releases("a")
    assert cluster.once()


def test_a_newcomer_does_not_take_over_a_database_that_was_used(postgres: Any, tmp_path: Path) -> None:
    """It was served before any releaser was there; that it was not drawn and put back since, nobody knows."""
    cluster = Cluster(fresh_postgres(postgres), tmp_path)
    serving = machine(cluster.database, tmp_path / "a", cluster.clock, releaser=False)
    serving.prepare()
    shop(serving)
    people(serving, FIRST + 1, "person")
    cluster.start("b")
    cluster.passes(WINDOW)
    assert not cluster.releases("b")
    assert cluster.drawn == []
    serving.store.close()
    cluster.close()


def test_a_machine_that_loses_the_lead_while_it_draws_enters_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not heard of meanwhile; whoever leads by then has burnt the batch, and what was drawn is seen by nobody."""
    cluster.due()
    a, b = cluster.alive["a"], cluster.alive["b"]
    assert not a.releasing.release()
    b.releasing.stay()
    real = steps.draw

    def slow(*given: Any) -> Any:
        cluster.passes(LONG, without="a")
        b.releasing.release()
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "draw", slow)
        with pytest.raises(ValueError, match=LOST_LEASE):
            a.releasing.release()
    assert ledger(b) == [(0, BURNT)]
    with b.store.read() as connection:
        assert not connection.execute(sa.select(schema.releases.c.batch)).all()
    assert cluster.once()


def test_a_machine_knows_by_its_own_clock_that_it_was_not_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the database that took over is behind: by it no time has passed."""
    cluster.due()
    cluster.kill("a")
    asleep = election._own_clock() + WITNESS_SECONDS
    monkeypatch.setattr(election, "_own_clock", lambda: asleep)
    b = cluster.alive["b"].releasing
    b.stay()
    assert b._election is not None
    assert not b._election.member


@pytest.mark.parametrize("back", [60.0, 600.0])
def test_a_clock_that_goes_back_keeps_nobody_from_leading(cluster: Cluster, back: float) -> None:
    """The leader's lease would end far in the future: it is shortened before the leader is gone."""
    cluster.clock.time -= back
    cluster.passes(5)
    cluster.kill("a")
    cluster.passes(LONG)
    assert cluster.alive["b"].releasing._leads()


@pytest.mark.parametrize("returns", [False, True])
def test_the_cost_of_what_a_lost_releaser_drew_is_entered_though_its_shelf_is_deleted(
    cluster: Cluster, returns: bool
) -> None:
    """Nothing else is due: whoever sees an announcement that nobody goes on with takes the lease that is free."""
    cluster.due()
    a, b = cluster.alive["a"], cluster.alive["b"]
    assert not a.releasing.release()
    b.releasing.stay()

    def killed(name: str, step: str) -> None:
        if (name, step) == ("a", "after the draw"):
            raise KeyboardInterrupt

    cluster.point = killed
    with pytest.raises(KeyboardInterrupt):
        a.releasing.release()
    cluster.point = lambda _machine, _step: None
    cluster.kill("a")
    assert len(cluster.drawn) == 1
    with b.store.write() as connection:
        shelves.delete(connection, "teas", cluster.clock.time)
    if returns:
        cluster.start("a")
    cluster.passes(LONG)
    assert ledger(b) == [(0, BURNT)]


def test_a_process_that_leads_no_longer_says_so_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it looks; and one that leads never does."""
    said = list[str]()
    monkeypatch.setattr(logs, "say", lambda _grade, event, **_: said.append(event))
    cluster.alive["a"].releasing.prepare()
    assert "releases are made elsewhere" not in said
    cluster.due(without="a")
    cluster.passes(LONG, without="a")
    cluster.releases("b")
    for _ in range(5):
        cluster.alive["a"].releasing.check_memory()
        cluster.alive["a"].releasing.stay()
    assert said.count("releases are made elsewhere") == 1
