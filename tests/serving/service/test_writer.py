"""Group commit: one transaction for many, each answered after it, and nothing done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Vault
from quietshelf.serving.service.problems import Failure, Invalid, Unavailable
from quietshelf.serving.service.writer import Job, Operation, Writer


@pytest.fixture
def store(tmp_path: Path) -> Any:
    found = Store(f"sqlite:///{tmp_path}/shop.db", Vault(tmp_path / "secrets"))
    with found.write() as connection:
        connection.exec_driver_sql("CREATE TABLE marks (mark INTEGER)")
    yield found
    found.close()


def enter(connection: Connection, marks: Sequence[int]) -> list[Any]:
    """Negative marks are refused, 13 breaks the transaction."""
    replies: list[Any] = []
    for mark in marks:
        if mark == 13:
            raise RuntimeError("broken")
        if mark < 0:
            replies.append(Invalid("mark must be at least zero"))
            continue
        connection.execute(sa.text("INSERT INTO marks VALUES (:mark)"), {"mark": mark})
        replies.append((mark, len(marks)))
    return replies


def run(store: Store, marks: Sequence[Any], operation: Operation = enter) -> list[Any]:
    """All marks at once, before the thread starts, so that they meet in one group."""

    async def ask() -> list[Any]:
        writer = Writer(store, lambda: 1.0, group_limit=64)
        asked = [asyncio.ensure_future(writer.submit(operation, mark)) for mark in marks]
        await asyncio.sleep(0)
        writer.start()
        found = await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.to_thread(writer.stop)
        return list(found)

    return asyncio.run(ask())


def stored(store: Store) -> list[int]:
    with store.read() as connection:
        return list(connection.exec_driver_sql("SELECT mark FROM marks ORDER BY mark").scalars())


def test_many_writes_share_a_transaction_and_a_refusal_harms_nobody(store: Store) -> None:
    """Each is answered in place; the refused one changed nothing."""
    found = run(store, [1, -1, 2])
    assert found[0] == (1, 3)
    assert isinstance(found[1], Invalid)
    assert stored(store) == [1, 2]


def test_a_write_that_breaks_its_group_is_the_only_one_lost(store: Store) -> None:
    """The others are done again, each in a transaction of its own, and once."""
    found = run(store, [1, 13, 2])
    assert [found[0], found[2]] == [(1, 1), (2, 1)]
    assert isinstance(found[1], Failure)
    assert stored(store) == [1, 2]


def test_a_shelf_that_is_locked_elsewhere_keeps_no_other_waiting(store: Store) -> None:
    """Its requests are refused together, those of other shelves that shared the transaction are written."""

    class TakenError(Exception):
        sqlstate = "55P03"

    class Visitor(NamedTuple):
        shelf: str
        mark: int

    tried: list[list[str]] = []

    def place(connection: Connection, visitors: Sequence[Visitor]) -> list[Any]:
        tried.append([each.shelf for each in visitors])
        if any(each.shelf == "teas" for each in visitors):
            raise OperationalError("SELECT", {}, TakenError())
        return enter(connection, [each.mark for each in visitors])

    found = run(store, [Visitor("teas", 1), Visitor("jams", 2), Visitor("teas", 3), Visitor("jams", 4)], place)
    assert tried == [["teas", "jams", "teas", "jams"], ["teas", "teas"], ["jams", "jams"]]
    assert [isinstance(each, Unavailable) for each in found] == [True, False, True, False]
    assert stored(store) == [2, 4]


def test_a_commit_of_unknown_outcome_is_never_repeated(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit went through but its confirmation was lost: callers are told to try again, nothing is done twice."""
    real = store._writer.dialect.do_commit

    def lost(connection: Any) -> None:
        real(connection)
        raise OperationalError("COMMIT", {}, Exception("the line went dead"))

    monkeypatch.setattr(store._writer.dialect, "do_commit", lost)
    assert all(isinstance(reply, Unavailable) for reply in run(store, [1, 2]))
    monkeypatch.undo()
    assert stored(store) == [1, 2]


def test_who_waits_for_a_release_keeps_nobody_out(store: Store) -> None:
    """However many are asked again, as many new ones are taken with them as ever."""
    writer = Writer(store, lambda: 1.0, group_limit=4)
    loop = asyncio.new_event_loop()
    jobs = [Job(enter, mark, loop, print) for mark in range(14)]
    for job in jobs[6:]:
        writer._queue.put(job)
    assert writer._take(0.0, jobs[:6]) == (jobs[:10], True)
    assert writer._take(0.0, []) == (jobs[10:], True)
    loop.close()
