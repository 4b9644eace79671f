"""The leases of one process: on which shelves it holds slots, and how many to take next (R2, `slots`)."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from quietshelf.curation.batches import Lease, block, ended
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.visitors.offers import OfferRequest
from quietshelf.serving.service.visitors.slot_rows import Found, SlotRows, first_end, read, shelves_with_ended_leases
from quietshelf.serving.service.visitors.slots import Block, Pace, Slots
from quietshelf.serving.service.writer import Contended


class Mine(NamedTuple):
    """A lease of this process, and the number of its shelf."""

    shelf: int
    lease: Lease


class Leasing:
    """What this process knows about its leases. The database has the final say.

    Args:
        store: The database.
        now: The time by which leases end, the same as for stamps.

    Attributes:
        block: How many slots to lease, given the rate of arrivals and the free slots.
        next_end: When the next lease of any process ends, as far as is known.
    """

    def __init__(self, store: Store, now: Callable[[Connection], float]) -> None:
        self._store, self._now, self._holder = store, now, secrets.token_hex(8)
        self.block: Block = block
        self._held: dict[str, Mine] = {}
        self._paces: dict[str, Pace] = {}
        self._fresh: dict[str, Slots] = {}
        self.next_end = math.inf

    def slots(self, connection: Connection, asked: Mapping[str, Sequence[OfferRequest]]) -> dict[str, Found]:
        """For each shelf that exists, slots for these requests, and the row with its versions."""
        mine = {name: self._held[name] for name, some in asked.items() if self._enough(name, some)}
        for name in asked:
            self._held.pop(name, None)  # until the transaction is committed
        rest = [name for name in asked if name not in mine]
        numbers = [held.shelf for held in mine.values()]
        found = read(connection, self._store.frozen, self._holder, rest, numbers, lambda: self._now(connection))
        for name in mine:  # another process ended it; or a lease has ended, which may have filled a batch
            if name not in found or any(each.receipt.time >= found[name][1].ends for each in asked[name]):
                raise Contended  # to come again with the shelf locked
        for name, (_, slots) in found.items():
            slots.pace, slots.block = self._paces.get(name, Pace()), self.block
        return found

    def enter(self, rows: SlotRows, name: str, slots: Slots) -> None:
        """Add what has changed in the slots to the rows to write."""
        slots.end_mine()
        rows.enter(slots, self._holder)
        self._fresh[name] = slots

    def settled(self, committed: bool) -> None:
        """Called after each transaction. If it may not have been committed, the next one asks the database."""
        for name, slots in self._fresh.items():
            self._held.pop(name, None)
            if committed:
                self._paces[name] = slots.pace
            if committed and slots.held is not None:
                self._held[name] = Mine(slots.shelf, slots.held.lease)
                self.next_end = min(self.next_end, slots.held.lease.until)
        self._fresh = {}

    def look(self, connection: Connection) -> None:
        """Find out when the next lease of any process ends."""
        self.next_end = first_end(connection) or math.inf

    def end(self, now: float) -> bool:
        """R2: return leases that are used up, or ended by ``now``; whether that filled a batch.

        Everything this process received before ``now`` must be written.
        """
        names = [name for name, held in self._held.items() if held.lease.taken >= held.lease.size]
        if now >= self.next_end:
            with self._store.read() as connection:
                names = shelves_with_ended_leases(connection, min(now, self._now(connection)))
                self.look(connection)
        for name in names:
            self._held.pop(name, None)
        return bool(names) and self._enter_ended(names, now)

    def _enter_ended(self, names: Sequence[str], now: float) -> bool:
        rows = SlotRows()
        with self._store.write() as connection:
            found = read(connection, self._store.frozen, "", names, (), lambda: min(now, self._now(connection)))
            for _, slots in found.values():
                rows.enter(slots, "")
            rows.write(connection)
        self._store.frozen.settled(True)
        return any(slots.opened_or_filled for _, slots in found.values())

    def _enough(self, name: str, requests: Sequence[OfferRequest]) -> bool:
        held = self._held[name].lease if name in self._held else None
        if held is None or held.taken + len(requests) > held.size:
            return False
        return not any(ended(held, request.receipt.time) for request in requests)
