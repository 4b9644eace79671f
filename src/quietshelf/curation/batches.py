"""A batch from its first slot to its release: R2, R5 and R7 of the protocol (docs/proofs.md, section 6).

A batch is a fixed number of slots. Where several processes serve one shelf, each leases some of them and gives them out
to its own arrivals; slots that nobody took when their lease ends contribute zero. Nothing about answers moves a slot, a
lease, a due time or a release.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from quietshelf.model.types import require
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.outlook import Outlook
from quietshelf.privacy.release.quiet import Learner, OpenBatch
from quietshelf.privacy.statistics import Total

MIXED = -1.0
"""The share of a batch over which it changed."""
LEASE_SECONDS = 2.0
"""How long a lease lasts: a process that is lost delays the batch in which it holds slots by no more than this."""
BUSY = 64.0
"""Arrivals per second from which on a process leases more slots than it needs now: below, no slot is ever wasted."""
AHEAD = 0.5
"""Seconds of arrivals for which it does."""
PART = 4
"""The largest lease is one slot in so many of those that are left: a batch that is nearly full is not held up."""
READ, ADDED, DRAWN = 20_000, 500_000, 20_000
"""Visitors who are read, their numbers that are added up, and numbers of noise drawn, each within `release_seconds`."""


class Batch(NamedTuple):
    """What is public of a batch that is not released.

    Attributes:
        frozen: What its contributions are computed with: a function of earlier releases.
        grid: To which contributions are rounded.
        window: How long after its last arrival it is due.
        taken: Slots taken so far, without those of leases that have not ended.
        full_at: When the last slot was taken, or the last lease ended; None before.
        present: Slots that the shop's present ranking served; by coins, so public.
        share: Share of visitors that the learned policy served; None before the first slot, `MIXED` once it changed.
        leased: Slots of leases that have not ended.
        unused: Slots that nobody had taken when their lease ended: nobody ever will.
        latest: When a slot was taken, or a lease ended, last; by stamps on receipt and ends of leases.
        lag: How long after it is due its release is published: the time in which the machine makes it.
    """

    frozen: OpenBatch
    grid: float
    window: float
    taken: int = 0
    full_at: float | None = None
    present: int = 0
    share: float | None = None
    leased: int = 0
    unused: int = 0
    latest: float | None = None
    lag: float = 0.0

    @property
    def given(self) -> int:
        """Slots that were given out, which is the number of the next one."""
        return self.taken + self.unused + self.leased

    @property
    def free(self) -> int:
        """Slots that were not given out."""
        return self.frozen.size - self.given

    @property
    def full(self) -> bool:
        """Whether the last slot is taken, or its lease has ended."""
        return self.taken + self.unused >= self.frozen.size

    @property
    def due_at(self) -> float:
        """R5: from when on no answer counts and no erasure covers it: what it adds up to is fixed."""
        return math.inf if self.full_at is None or not self.full else self.full_at + self.window

    @property
    def published_at(self) -> float:
        """R5: the time its release is published with, whenever the work is done."""
        return self.due_at + self.lag


class Lease(NamedTuple):
    """Slots of one batch that one process gives out to its own arrivals, in their order. All of it is public.

    Attributes:
        batch: Number of the batch.
        first: The first slot.
        size: How many.
        until: When it ends, used up or not.
        last: Time of its latest arrival; of the lease itself before the first.
        taken: Slots taken so far.
        present: Of them, those that the shop's present ranking served.
        share: As of a batch.
    """

    batch: int
    first: int
    size: int
    until: float
    last: float
    taken: int = 0
    present: int = 0
    share: float | None = None

    @property
    def next(self) -> int:
        """The slot of the next arrival."""
        return self.first + self.taken

    @property
    def ended_at(self) -> float:
        """R5: when it ends: with its last slot, or when its time is over, whoever finds that out whenever."""
        return self.last if self.taken >= self.size else self.until


@dataclass(frozen=True)
class Schedule:
    """What the next batch needs to know of those before it.

    Attributes:
        opened: Number of the batch opened last; -1 before the first. A number is never used twice.
        last_size: Its size.
        next_size: Size of the next one where a batch was dropped; None for the rule's.
    """

    opened: int = -1
    last_size: int | None = None
    next_size: int | None = None

    def dropped(self, batches: Iterable[Batch]) -> Schedule:
        """After batches were dropped: the next one is as large as the first of them."""
        return replace(self, next_size=next((batch.frozen.size for batch in batches), self.next_size))


def open_batch(
    schedule: Schedule,
    learner: Learner,
    source: NoiseSource,
    outlook: Outlook,
    *,
    window: float,
    most: int | None = None,
    release_seconds: float = 0.0,
) -> tuple[Schedule, Batch]:
    """R2: the next batch, with everything that its contributions are computed with frozen as it is known now.

    ``most``: the largest that the machine can take; ``release_seconds``: as of `lag`.
    """
    wanted = schedule.next_size or learner.next_size(schedule.last_size)
    size = min(each for each in (wanted, most, batch_pair.most_visitors(source.grid)) if each is not None)
    frozen = learner.open(schedule.opened + 1, size, outlook)
    late = lag(release_seconds, size, frozen.theta.shape[-1])
    return Schedule(frozen.number, size), Batch(frozen, source.grid, window, lag=late)


def lag(release_seconds: float, size: int, dim: int) -> float:
    """R5: how long after a batch of that size is due its release is published, known when it opens.

    ``release_seconds``: what the machine is given for a small batch in few dimensions; 0 if it works while all wait.
    """
    return release_seconds * (1.0 + size / READ + size * dim / ADDED + dim * (dim + 1) / 2 / DRAWN)


def lease(batch: Batch, count: int, now: float, *, until: float) -> tuple[Batch, Lease]:
    """R2: the next slots of a batch are leased to one process; nobody else gives them out, and none is leased twice."""
    require(1 <= count <= batch.free, "a full batch has no slot to take", batch=batch.frozen.number)
    held = Lease(batch.frozen.number, batch.given, count, until, now)
    return batch._replace(leased=batch.leased + count), held


def take(held: Lease, received: float, *, present: bool = False, share: float = 1.0) -> Lease:
    """R2: the next arrival at the process that has the lease takes its next slot."""
    require(not ended(held, received), "a lease that has ended has no slot to take", batch=held.batch)
    same = _merged(held.share, share)
    return held._replace(taken=held.taken + 1, last=received, present=held.present + present, share=same)


def ended(held: Lease, now: float) -> bool:
    """R2: whether a lease has ended: it is used up, or its time is over."""
    return held.taken >= held.size or now >= held.until


def end(batch: Batch, held: Lease) -> Batch:
    """R2: enter a lease that has ended: slots not taken contribute zero, and the last one to end fills the batch."""
    after = batch._replace(
        taken=batch.taken + held.taken,
        unused=batch.unused + held.size - held.taken,
        leased=batch.leased - held.size,
        latest=held.ended_at if batch.latest is None else max(held.ended_at, batch.latest),
        present=batch.present + held.present,
        share=_merged(batch.share, held.share),
    )
    return after._replace(full_at=after.latest) if after.full else after


def arrive(batch: Batch, received: float, *, present: bool = False, share: float = 1.0, count: int = 1) -> Batch:
    """R2: the next valid arrival takes the next slot, or ``count`` of them the next ones: a lease used up at once."""
    require(1 <= count <= batch.free, "a full batch has no slot to take", batch=batch.frozen.number)
    latest = received if batch.latest is None else max(received, batch.latest)
    taken, presently = batch.taken + count, batch.present + count * present
    after = batch._replace(taken=taken, latest=latest, present=presently, share=_merged(batch.share, share))
    return after._replace(full_at=latest) if after.full else after


def block(rate: float, free: int) -> int:
    """How many slots a process leases for arrivals to come, by arrivals per second and by slots that are free."""
    return min(int(rate * AHEAD), free // PART) if rate >= BUSY else 0


def _merged(one: float | None, other: float | None) -> float | None:
    """The share of two groups of slots."""
    if one is None or other is None or one == other:
        return other if one is None else one
    return MIXED


def shelf_time(received: float, last: float) -> float:
    """R5: the time of an arrival. A shelf's time never goes back, whichever process stamped the request."""
    return max(received, last)


def due(oldest: Batch | None, now: float) -> bool:
    """R5: whether the oldest batch of a shelf is to be released before an arrival at ``now`` is decided."""
    return oldest is not None and now >= oldest.due_at


def published(batch: Batch, last: float | None) -> float:
    """R5: the time of a release: that of its batch, and never before that of the release before it, ``last``."""
    return batch.published_at if last is None else max(batch.published_at, last)


def announce(learner: Learner, batch: Batch, source: NoiseSource) -> Learner:
    """R7: enter the cost. The store makes this durable, and from then on the batch is released or burnt.

    A learner that is announced and never closed is one whose batch was burnt: the cost is entered, no figure is known.
    """
    require(batch.full, "only a full batch may be released", batch=batch.frozen.number)
    same = batch.grid == source.grid
    require(same, "noise must be on the grid that contributions were rounded to", grid=source.grid, rounded=batch.grid)
    return learner.charge(batch.frozen, source)


def close(announced: Learner, batch: Batch, total: Total, source: NoiseSource) -> Learner:
    """R7: draw the noise, once, and learn from the release."""
    return announced.learn(batch.frozen, total, source, present=batch.present, steady=batch.share != MIXED)
