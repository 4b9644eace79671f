"""Faults of leases (R2), entered in the table of `faults`: what ends one, and what becomes of its slots."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import sqlalchemy as sa
from tests.protocol.faults import fault

from quietshelf.curation.batches import LEASE_SECONDS, end, lease
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.visitors import answers, slots
from quietshelf.serving.service.visitors.leasing import Leasing
from quietshelf.serving.service.visitors.slot_rows import SlotRows
from quietshelf.serving.service.visitors.slots import Held, Slots


@fault("R2", "an answer ends the leases of its shelf", "service-sqlite-leases")
def _lease_ended_by_an_answer() -> list[Any]:
    real = answers._enter

    def enter(connection: Any, entries: Any) -> None:
        real(connection, entries)
        connection.execute(sa.update(schema.leases).values(until=0.0))

    return [mock.patch.object(answers, "_enter", enter)]


@fault("R2", "what is leased depends on who shares a transaction", "service-sqlite-leases")
def _leased_by_the_group() -> list[Any]:
    real = Leasing.enter

    def enter(self: Leasing, rows: SlotRows, name: str, given: Slots) -> None:
        newest = None if given.batches is None or given.held is not None else given.batches.get(given.schedule.opened)
        if newest is not None and newest.free and given.batches is not None:
            number, until = newest.frozen.number, given.now + LEASE_SECONDS
            given.batches[number], mine = lease(newest, 1, given.now, until=until)
            given.held = Held(mine, new=True)
        real(self, rows, name, given)

    return [mock.patch.object(Leasing, "enter", enter)]


@fault("R2", "slots that nobody took are given out again", "service-sqlite-leases")
def _given_again() -> list[Any]:
    return [mock.patch.object(slots, "end", lambda batch, held: end(batch, held)._replace(unused=0))]


@fault("R2", "slots are given out after their lease has ended", "service-sqlite-leases")
def _given_late() -> list[Any]:
    real_slots, real_enter, kept = Leasing.slots, SlotRows.enter, dict[str, Any]()

    def found(self: Leasing, connection: Any, asked: Any) -> Any:
        each = real_slots(self, connection, asked)
        for _, mine in each.values():
            before = kept.get(self._holder)
            if mine.held is None and before is not None and before.lease.taken < before.lease.size:
                mine.held = before._replace(lease=before.lease._replace(until=math.inf), new=False)
        return each

    def enter(self: SlotRows, given: Slots, holder: str) -> None:
        if given.held is not None:
            kept[holder] = given.held
            if given.held.lease.until == math.inf:
                given.held = None
        real_enter(self, given, holder)

    return [mock.patch.object(Leasing, "slots", found), mock.patch.object(SlotRows, "enter", enter)]
