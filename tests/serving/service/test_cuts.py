"""Every durable step of a release is cut in turn: announce, draw, enter, commit, note (R7).

Whatever fails, and whether the same process goes on or another starts, the batch is released once or burnt: its noise
is never drawn a second time, and its cost is in the ledger if it may have been drawn once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.serving.service.cut_short import Counting, Cut
from tests.serving.service.harness import FIRST, WINDOW, FakeClock
from tests.serving.service.machines import machine, shop, visitors

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release import records
from quietshelf.serving.service import queries
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.releases import summing, verify
from quietshelf.serving.service.releases.election import LEASE_SECONDS
from quietshelf.serving.service.releases.losses import BURNT
from quietshelf.serving.service.service import Service

Patch = Callable[[Service, pytest.MonkeyPatch], None]


def while_it_is_added_up(_: Service, patch: pytest.MonkeyPatch) -> None:
    """The batch is sealed; its sum is in memory alone."""
    patch.setattr(summing, "summed", _cut)


def before_the_announcement(service: Service, patch: pytest.MonkeyPatch) -> None:
    real = service.vault.note

    def note(content: dict[str, Any]) -> None:
        if _announced(content):
            raise Cut
        real(content)

    patch.setattr(service.vault, "note", note)


def after_the_announcement(service: Service, patch: pytest.MonkeyPatch) -> None:
    real = service.vault.note

    def note(content: dict[str, Any]) -> None:
        real(content)
        if _announced(content):
            raise Cut

    patch.setattr(service.vault, "note", note)


def between_two_draws(service: Service, patch: pytest.MonkeyPatch) -> None:
    source: Any = service.source
    real = source.draw

    def draw(*given: Any) -> FloatArray:
        if source.draws:
            raise Cut
        drawn: FloatArray = real(*given)
        return drawn

    patch.setattr(source, "draw", draw)


def after_the_draws(_: Service, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "rebuild", _cut)


def before_the_ledger_entry(_: Service, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(learning, "enter", _cut)


def before_the_commit(service: Service, patch: pytest.MonkeyPatch) -> None:
    real = service.store._writer.dialect.do_commit

    def commit(connection: Any) -> None:
        if getattr(service.source, "draws", 0):
            raise Cut
        real(connection)

    patch.setattr(service.store._writer.dialect, "do_commit", commit)


def after_the_commit(service: Service, patch: pytest.MonkeyPatch) -> None:
    real = service.store._writer.dialect.do_commit

    def commit(connection: Any) -> None:
        real(connection)
        if getattr(service.source, "draws", 0):
            raise Cut

    patch.setattr(service.store._writer.dialect, "do_commit", commit)


def before_the_note(service: Service, patch: pytest.MonkeyPatch) -> None:
    real = service.vault.note

    def note(content: dict[str, Any]) -> None:
        if getattr(service.source, "draws", 0):
            raise Cut
        real(content)

    patch.setattr(service.vault, "note", note)


def _announced(content: dict[str, Any]) -> bool:
    return any(mark["announced"] for mark in content["shelves"].values())


def _cut(*_: Any, **__: Any) -> Any:
    raise Cut


RELEASED = {while_it_is_added_up: True, before_the_announcement: True, after_the_commit: True, before_the_note: True}
"""Cuts after which the batch is released, at the next try or already; after all others it is burnt.

On PostgreSQL a process that has announced a batch, and goes on, knows whether it began to draw it.
"""
CUTS: list[Patch] = [
    while_it_is_added_up,
    before_the_announcement,
    after_the_announcement,
    between_two_draws,
    after_the_draws,
    before_the_ledger_entry,
    before_the_commit,
    after_the_commit,
    before_the_note,
]


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restart"])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__.replace("_", " "))
def test_a_release_that_is_cut_off_is_made_once_or_burnt(
    database: str, tmp_path: Path, cut: Patch, restart: bool
) -> None:
    """Never a second draw; after it the ledger is in order, and the next batch is released."""
    clock, source = FakeClock(), Counting()
    service = machine(database, tmp_path / "secrets", clock, source=source)
    service.prepare()
    shop(service)
    visitors(service, FIRST + 1)
    clock.time += WINDOW
    with pytest.MonkeyPatch.context() as patch:
        cut(service, patch)
        with pytest.raises(Cut):
            service.releasing.release()
    drawn = source.draws
    if restart:
        service.store.close()
        clock.time += 2 * LEASE_SECONDS  # a process that is killed does not give its lease back
        service = machine(database, tmp_path / "secrets", clock, source=source)
        service.prepare()
    service.releasing.release()
    undrawn = cut in (while_it_is_added_up, before_the_announcement) or (
        cut is after_the_announcement and not (restart or service.store.sqlite)
    )
    released = cut in RELEASED or undrawn
    assert source.draws == (3 if undrawn else drawn)
    check(service, releases=int(released), burnt=not released)
    visitors(service, 2 * FIRST)
    clock.time += WINDOW
    assert service.releasing.release()
    check(service, releases=1 + released, burnt=not released)
    service.store.close()


def check(service: Service, *, releases: int, burnt: bool) -> None:
    """What the ledger and the tables hold."""
    with service.store.read() as connection:
        row = queries.latest_row(connection, "teas")
        events = learning.stored_events(connection, row["shelf"])
        assert row["releases"] == releases
        assert len(events) == releases + burnt
        assert [event.detail for event in events[:1]] == [BURNT if burnt else ""]
        assert queries.ledger_of(connection, row).rho == pytest.approx(4.0)
        assert verify.verify(connection, row) == []
        first = sa.select(schema.offers).where(schema.offers.c.batch == 0)
        assert connection.execute(first).first() is None
