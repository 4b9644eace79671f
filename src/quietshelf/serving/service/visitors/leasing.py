"""The leases of one process: at which shelf it holds slots, and how many it takes next (R2, `slots`)."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from sqlalchemy import Connection

from quietshelf.curation.batches import Lease, block, ended
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.problems import NotFound
from quietshelf.serving.service.visitors.offers import OfferRequest
from quietshelf.serving.service.visitors.slot_rows import first_end, shelves_with_ended_leases
from quietshelf.serving.service.visitors.slots import Block, Pace, Slots, end_leases, leased, locked
from quietshelf.serving.service.writer import Contended


class Leasing:
    """What this process knows of its leases; the database decides.

    Args:
        store: The database.
        now: The time of the service, by which leases end: that of its stamps.

    Attributes:
        block: How many slots to lease, by the rate of arrivals and the slots that are free.
        next_end: When the next lease ends of itself, whoever has it, as far as is known.
    """

    def __init__(self, store: Store, now: Callable[[Connection], float]) -> None:
        self._store, self._now, self._holder = store, now, secrets.token_hex(8)
        self.block: Block = block
        self._held: dict[str, Lease] = {}
        self._paces: dict[str, Pace] = {}
        self._fresh: dict[str, Slots] = {}
        self.next_end = math.inf

    def slots(self, connection: Connection, name: str, requests: Sequence[OfferRequest]) -> tuple[Row, Slots]:
        """Slots for these requests, and the row of their shelf: of it only the versions, where a lease has enough."""
        row, found = self._slots(connection, name, requests)
        found.pace, found.block = self._paces.get(name, Pace()), self.block
        return row, found

    def _slots(self, connection: Connection, name: str, requests: Sequence[OfferRequest]) -> tuple[Row, Slots]:
        if self._enough(name, requests):
            found, _ = leased(connection, name, self._holder), self._held.pop(name)
            if found is not None:  # else it was ended, or dropped, by another process
                row, mine, ends = found
                if all(request.receipt.time < ends for request in requests):
                    return row, mine
                raise Contended  # a lease has ended: that may have filled a batch, and the shelf is to be locked first
        row = shelf_row(connection, name, lock=True)
        return row, locked(connection, row, self._holder, self._now(connection))

    def write(self, name: str, slots: Slots) -> None:
        """Write what has changed of the slots."""
        slots.write(self._holder)
        self._fresh[name] = slots

    def settled(self, committed: bool) -> None:
        """Told after each transaction; if it may not have been committed, the database is asked the next time."""
        for name, slots in self._fresh.items():
            self._held.pop(name, None)
            if committed:
                self._paces[name] = slots.pace
            if committed and slots.held is not None:
                self._held[name] = slots.held.lease
                self.next_end = min(self.next_end, slots.held.lease.until)
        self._fresh = {}

    def look(self, connection: Connection) -> None:
        """Find out when the next lease ends, whoever has it."""
        self.next_end = first_end(connection) or math.inf

    def end(self, now: float) -> bool:
        """R2: enter leases that are used up here or were over by ``now``; whether a batch was filled by that.

        All that this process has received before ``now`` is written.
        """
        names, filled = [name for name, held in self._held.items() if held.taken >= held.size], False
        if now >= self.next_end:
            with self._store.read() as connection:
                names = shelves_with_ended_leases(connection, min(now, self._now(connection)))
                self.look(connection)
        for name in names:
            self._held.pop(name, None)
            with suppress(NotFound), self._store.write() as connection:  # it may be deleted meanwhile
                row = shelf_row(connection, name, lock=True)
                filled |= end_leases(connection, row, min(now, self._now(connection))).opened_or_filled
        return filled

    def _enough(self, name: str, requests: Sequence[OfferRequest]) -> bool:
        held = self._held.get(name)
        if held is None or held.taken + len(requests) > held.size:
            return False
        return not any(ended(held, request.receipt.time) for request in requests)
