"""Large work is cut in pieces that are bounded: in rows, in memory, and in the pages that writers wait for."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from tests.serving.service.elections import people
from tests.serving.service.harness import FIRST, WINDOW, FakeClock
from tests.serving.service.machines import machine, shop

from quietshelf.curation.contributions import NUMBERS
from quietshelf.curation.fields import record_from
from quietshelf.serving.service import queries
from quietshelf.serving.service.catalogue.views import settings_in
from quietshelf.serving.service.database import learning, store
from quietshelf.serving.service.database.pieces import Piece
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.releases import steps, summing
from quietshelf.serving.service.releases.summing import Sum
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.work import Beside


def test_a_piece_that_took_too_long_is_followed_by_a_smaller_one() -> None:
    """In proportion, and at most twice as large a one otherwise; never more rows than memory is given to."""
    piece = Piece(64, 1000, seconds=0.01)
    piece.took(64, 0.02)
    assert piece.rows == 32
    piece.took(5, 0.0)  # there were no more
    piece.took(0, 0.0)
    assert piece.rows == 32
    piece.took(32, 10.0)
    assert piece.rows == Piece.LEAST
    for _ in range(20):
        before = piece.rows
        piece.took(before, 0.0)
        assert before <= piece.rows <= 2 * before
    assert piece.rows == 1000
    assert Piece(64, 8, seconds=0.01).rows == 8


@pytest.fixture
def due(database: str, tmp_path: Path) -> Iterator[tuple[Service, Any]]:
    """A service with a full batch that is due, and its sealed row."""
    clock = FakeClock()
    service = machine(database, tmp_path / "secrets", clock)
    service.prepare()
    shop(service)
    people(service, FIRST, "person")
    clock.time += WINDOW
    with service.store.write() as connection:
        row = steps.seal(connection, (1, 0))
    yield service, row
    service.store.close()


@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_a_batch_is_read_in_pieces_of_that_many_slots(
    due: tuple[Service, Any], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """However many visitors it has; and however it is cut, the sum has the same bits."""
    service, row = due
    whole, cut = Sum(service.store, row), Sum(service.store, row)
    while whole.step():
        pass
    read: list[int] = []
    real = Prepared.tuples

    def counted(self: Prepared, *given: Any) -> list[tuple[Any, ...]]:
        found = real(self, *given)
        read.append(len(found))
        return found

    monkeypatch.setattr(Prepared, "tuples", counted)
    cut._piece = Piece(rows, rows, seconds=1e9)
    while cut.step():
        pass
    assert max(read) <= rows
    assert sum(read) == FIRST
    for one, other in zip(whole.total, cut.total, strict=True):
        np.testing.assert_array_equal(one, other)


def test_pieces_in_many_dimensions_hold_as_many_numbers_as_in_few(due: tuple[Service, Any]) -> None:
    """Memory is bounded by numbers, not by visitors."""
    service, row = due
    wide = dict(row)
    for name, size in (("theta", 500), ("coordinates", 500 * 500), ("expected", 500 * 500)):
        wide[name] = np.zeros(size).tobytes()
    most = Sum(service.store, wide)._piece._most
    assert 1 < most * 500 * summing.PLACES <= NUMBERS
    assert Sum(service.store, row)._piece._most <= summing.MOST


def test_a_shelf_that_is_known_reads_its_new_releases_alone(database: str, tmp_path: Path) -> None:
    """And the last one before, for the estimate: in many dimensions each has megabytes."""
    clock = FakeClock()
    service = machine(database, tmp_path / "secrets", clock)
    service.prepare()
    shop(service)
    found = []
    for _ in range(3):
        people(service, 2 * FIRST, f"at {clock.time}")
        clock.time += WINDOW
        assert service.releasing.release()
        with service.store.read() as connection:
            row = queries.latest_row(connection, "teas")
            found.append(learning.learner(connection, row, settings_in(row)))
    first, _, whole = found
    assert first is not None
    assert whole is not None
    read: list[Any] = []

    def counted(row: Any) -> Any:
        read.append(row)
        return record_from(row)

    with pytest.MonkeyPatch.context() as patch, service.store.read() as connection:
        patch.setattr(learning, "record_from", counted)
        again = learning.learner(connection, row, settings_in(row), known=whole)
        later = learning.learner(connection, row, settings_in(row), known=first)
    assert len(read) == 1 + len(whole.records)
    for each in (again, later):
        assert each is not None
        assert each.ledger == whole.ledger
        for one, other in zip(each.records, whole.records, strict=True):
            np.testing.assert_array_equal(one.score, other.score)
            np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(each.estimate.theta, whole.estimate.theta)
    service.store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    """A database with a table, of which nothing is moved out of the log file by whoever writes."""
    found = Store(f"sqlite:///{tmp_path}/shop.db", Vault(tmp_path / "secrets"))
    with found.write() as connection:
        connection.exec_driver_sql("CREATE TABLE marks (mark INTEGER, more BLOB)")
    yield found
    found.close()


def _write(to: Store, pages: int) -> None:
    with to.write() as connection:
        rows = [{"mark": mark, "more": b"x" * 3900} for mark in range(pages)]
        connection.execute(sa.text("INSERT INTO marks VALUES (:mark, :more)"), rows)


def test_writers_wait_for_the_last_pages_of_a_checkpoint_alone(sqlite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of SQLite's log file is moved while others write; the rest, and cutting it, takes their turn."""
    _write(sqlite, 1500)  # one commit, more than SQLite would let stand by itself
    asked: list[tuple[str, bool]] = []
    real = store._moved

    def moved(cursor: Any, how: str) -> float:
        asked.append((how, sqlite._turn.locked()))  # type: ignore[attr-defined]
        return real(cursor, how)

    monkeypatch.setattr(store, "_moved", moved)
    assert sqlite.written
    assert sqlite.checkpoint()
    assert not sqlite.written
    assert asked == [("PASSIVE", False), ("PASSIVE", True)]
    asked.clear()
    assert sqlite.checkpoint(empty=True)
    assert asked == [("PASSIVE", False), ("TRUNCATE", True)]


def test_nobody_waits_for_a_checkpoint_that_a_reader_holds_up(sqlite: Store, tmp_path: Path) -> None:
    """It leaves the log file as it is, and is tried again once the reader has gone."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM marks").fetchall()
        _write(sqlite, 500)
        assert not sqlite.checkpoint(empty=True)
        assert sqlite.written
    assert sqlite.checkpoint(empty=True)
    assert path.with_name("shop.db-wal").stat().st_size == 0


def test_who_commits_moves_nothing_out_of_the_log_file(sqlite: Store, tmp_path: Path) -> None:
    """Visitors would wait for it; the log file grows until the next checkpoint, or to `LOG_PAGES`."""
    for _ in range(4):
        _write(sqlite, 1000)
    pages = tmp_path.joinpath("shop.db-wal").stat().st_size / 4096
    assert 4000 <= pages < store.LOG_PAGES


def test_chores_beside_are_done_in_order_and_once_at_a_time() -> None:
    """What is under way is not asked for again; what fails is raised to whoever settles, with when it was asked for."""
    woken, free, fail = threading.Event(), threading.Event(), threading.Event()
    done: list[Any] = []
    now = [1.0]
    beside = Beside(woken.set, lambda: now[0])
    beside.start()
    beside.ask("one", lambda: free.wait(20), done.append)
    beside.ask("one", lambda: done.append("twice"))
    beside.ask("two", lambda: _failing(fail))
    now[0] = 2.0
    assert beside.busy("one")
    assert beside.busy("two")
    free.set()
    while beside.busy("one"):
        woken.wait(20)
        beside.settle()
    assert done == [True]
    fail.set()
    while not beside._asked["two"][0].done:
        woken.wait(0.01)
    with pytest.raises(ValueError, match="never"):
        beside.settle()
    assert beside.tried == 1.0
    assert beside.failing == {"two"}
    beside.stop()
    beside.ask("two", lambda: done.append("at once"))
    assert done == [True, "at once"]
    assert not beside.failing


def _failing(when: threading.Event) -> None:
    when.wait(20)
    raise ValueError("never")
