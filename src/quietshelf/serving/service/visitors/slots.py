"""Gives each arrival its slot (R2): from this process's lease or, with the shelf locked, from the open batch.

With a large enough lease, a transaction only reads the shelf and adds its own rows, so any number of processes can
serve one shelf in parallel. What they must agree on (who has which slots, which batch is open, when it is full) is
written under the shelf's lock, once per lease (docs/proofs.md, section 6). `slot_rows` reads and writes the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quietshelf.curation.batches import LEASE_SECONDS, Batch, Lease, Schedule, arrive, block, end, ended, lease, take
from quietshelf.serving.service.writer import Contended

Opens = Callable[[Schedule], tuple[Schedule, Batch]]
Block = Callable[[float, int], int]
"""How many slots to lease, given arrivals per second and free slots; 0 to take a single slot without a lease."""


class Pace(NamedTuple):
    """Arrivals per second over the last second or so, by their stamps."""

    rate: float = 0.0
    last: float = 0.0

    def after(self, now: float) -> Pace:
        """The pace after one more arrival."""
        return Pace(self.rate * math.exp(min(0.0, self.last - now)) + 1.0, max(self.last, now))


class Held(NamedTuple):
    """A lease and its anonymous arrivals; ``new`` if this transaction created it."""

    lease: Lease
    anonymous: int = 0
    new: bool = False


@dataclass
class Slots:
    """The slots of one shelf that one transaction may give out.

    Attributes:
        shelf: Number of the shelf.
        now: The shelf's time.
        seen_due: When its oldest batch's release is due to be published, as of the start of this transaction.
        held: This process's lease.
        batches: Batches that may change, by number; None if the shelf is not locked and only the lease can be used.
        schedule: What decides the next batch.
        pace: How fast visitors arrive at this process.
        block: How many slots to lease. That depends on stamps, not on who shares a transaction.
        ends: When the first lease of an unlocked shelf ends.
    """

    shelf: int
    now: float
    seen_due: float = math.inf
    held: Held | None = None
    batches: dict[int, Batch] | None = None
    schedule: Schedule = field(default_factory=Schedule)
    pace: Pace = field(default_factory=Pace)
    block: Block = block
    before: Mapping[int, Batch] = field(default_factory=dict)
    over: list[Lease] = field(default_factory=list)
    opened_at: dict[int, float] = field(default_factory=dict)
    ends: float = math.inf
    arrivals: int = 0
    anonymous: int = 0

    def due(self, now: float) -> float:
        """When the oldest batch's release is published, as known at ``now``; infinity if the batch is not full."""
        self._finish_mine(now)  # which may fill it
        return next((batch.published_at for batch in (self.batches or {}).values()), self.seen_due)

    @property
    def opened_or_filled(self) -> bool:
        """Whether this transaction opened or filled a batch."""
        full = [number for number, batch in (self.batches or {}).items() if batch.full]
        return bool(self.opened_at) or any(number in self.before and not self.before[number].full for number in full)

    def next(self, now: float, opens: Opens) -> tuple[int, int]:
        """R2: batch and number of the slot for an arrival at ``now``."""
        self.now, self.pace = now, self.pace.after(now)
        if not self._lasts():
            newest = self._newest(opens)
            number, count = newest.frozen.number, min(self.block(self.pace.rate, newest.free), newest.free)
            if count <= 1:
                return number, newest.given
            assert self.batches is not None  # noqa: S101 - else there was no newest
            self.batches[number], mine = lease(newest, count, now, until=now + LEASE_SECONDS)
            self.held = Held(mine, new=True)
        assert self.held is not None  # noqa: S101 - it lasts
        return self.held.lease.batch, self.held.lease.next

    def take(self, *, present: bool, share: float, anonymous: bool) -> None:
        """Take the slot that `next` returned."""
        if self.held is not None:
            taken = take(self.held.lease, self.now, present=present, share=share)
            self.held = self.held._replace(lease=taken, anonymous=self.held.anonymous + anonymous)
            return
        assert self.batches is not None  # noqa: S101 - else there was no next one
        number = self.schedule.opened
        self.batches[number] = arrive(self.batches[number], self.now, present=present, share=share)
        self.arrivals += 1
        self.anonymous += anonymous

    def _lasts(self) -> bool:
        return self.held is not None and not ended(self.held.lease, self.now)

    def _newest(self, opens: Opens) -> Batch:
        """The batch with free slots, opened now if there is none. This process's lease has ended."""
        self._finish_mine(self.now)
        assert self.batches is not None  # noqa: S101 - there was no lease that lasts
        newest = self.batches.get(self.schedule.opened)
        if newest is None or not newest.free:
            self.schedule, newest = opens(self.schedule)
            self.batches[newest.frozen.number] = newest
            self.opened_at[newest.frozen.number] = self.now
        return newest

    def end_mine(self) -> None:
        """R2: return this process's lease if it has ended and the shelf is locked."""
        if self.batches is not None:
            self._finish_mine(self.now)

    def _finish_mine(self, now: float) -> None:
        if self.held is not None and ended(self.held.lease, now):
            if self.batches is None:
                raise Contended  # to come again with the shelf locked
            self.finish(self.held)
            self.held = None

    def finish(self, over: Held) -> None:
        """R2: add the arrivals of a lease that has ended to its batch."""
        assert self.batches is not None  # noqa: S101 - the shelf is locked
        mine = over.lease
        self.batches[mine.batch] = end(self.batches[mine.batch], mine)
        self.arrivals += mine.taken
        self.anonymous += over.anonymous
        if not over.new:
            self.over.append(mine)
