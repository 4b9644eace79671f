"""A batch from its first slot to its release: R2, R5 and R7 of the protocol (docs/proofs.md, section 6).

A batch is a fixed number of slots. If several processes serve one shelf, each leases some slots and gives them to its
own arrivals; slots still free when their lease ends contribute zero. Answers never move a slot, a lease, a due time or
a release.
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
"""Stands for the share of a batch during which the share changed."""
LEASE_SECONDS = 2.0
"""How long a lease lasts, and so the longest that a lost process delays the batch in which it holds slots."""
BUSY = 64.0
"""Arrivals per second above which a process leases slots ahead; below, no slot is ever wasted."""
AHEAD = 0.5
"""Seconds of arrivals for which slots are leased ahead."""
PART = 4
"""A lease takes at most one in this many of the free slots, so that it does not hold up a nearly full batch."""
READ, ADDED, DRAWN = 20_000, 500_000, 20_000
"""How many visitors can be read, numbers summed, and noise draws made, each within `release_seconds`."""


class Batch(NamedTuple):
    """The public state of an unreleased batch.

    Attributes:
        frozen: What its contributions are computed with: a function of earlier releases.
        grid: The grid to which contributions are rounded.
        window: Time from its last arrival until it is due.
        taken: Slots taken so far, except those of leases that have not ended.
        full_at: When the last slot was taken, or the last lease ended; None before.
        present: Slots served by the shop's present ranking; public, because coins decide.
        share: Share of visitors served by the learned policy; None before the first slot, `MIXED` once it changed.
        leased: Slots of leases that have not ended.
        unused: Slots still free when their lease ended; they stay empty.
        latest: When the latest slot was taken or lease ended, by receipt stamps and lease ends.
        lag: Time from due to published, in which the machine makes the release.
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
        """Slots given out so far, which is the number of the next one."""
        return self.taken + self.unused + self.leased

    @property
    def free(self) -> int:
        """Slots not given out yet."""
        return self.frozen.size - self.given

    @property
    def full(self) -> bool:
        """Whether the last slot is taken, or its lease has ended."""
        return self.taken + self.unused >= self.frozen.size

    @property
    def due_at(self) -> float:
        """R5: when its sum becomes fixed; later answers and erasures no longer count."""
        return math.inf if self.full_at is None or not self.full else self.full_at + self.window

    @property
    def published_at(self) -> float:
        """R5: the time stated for its release, whenever the work is done."""
        return self.due_at + self.lag


class Lease(NamedTuple):
    """Slots of one batch that one process gives to its own arrivals, in order. Everything here is public.

    Attributes:
        batch: Number of the batch.
        first: The first slot.
        size: How many.
        until: When it ends at the latest.
        last: Time of its latest arrival; before the first, of the lease itself.
        taken: Slots taken so far.
        present: Slots of these served by the shop's present ranking.
        share: As in `Batch`.
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
        """R5: when it ends: with its last slot or when its time is over, regardless of who notices when."""
        return self.last if self.taken >= self.size else self.until


@dataclass(frozen=True)
class Schedule:
    """What the next batch needs to know about those before it.

    Attributes:
        opened: Number of the latest batch; -1 before the first. No number is used twice.
        last_size: Size of that batch.
        next_size: Size of the next batch if one was dropped; None to apply the rule.
    """

    opened: int = -1
    last_size: int | None = None
    next_size: int | None = None

    def dropped(self, batches: Iterable[Batch]) -> Schedule:
        """The schedule after batches were dropped: the next one is as large as the first of them."""
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
    """R2: open the next batch and freeze everything that its contributions are computed with.

    ``most`` is the largest batch that the machine can take; ``release_seconds`` is as in `lag`.
    """
    wanted = schedule.next_size or learner.next_size(schedule.last_size)
    size = min(each for each in (wanted, most, batch_pair.most_visitors(source.grid)) if each is not None)
    frozen = learner.open(schedule.opened + 1, size, outlook)
    late = lag(release_seconds, size, frozen.theta.shape[-1])
    return Schedule(frozen.number, size), Batch(frozen, source.grid, window, lag=late)


def lag(release_seconds: float, size: int, dim: int) -> float:
    """R5: time from due to published for a batch of that size; known when the batch opens.

    ``release_seconds`` is the time allowed for a small batch in few dimensions; 0 if everything waits for the release.
    """
    return release_seconds * (1.0 + size / READ + size * dim / ADDED + dim * (dim + 1) / 2 / DRAWN)


def lease(batch: Batch, count: int, now: float, *, until: float) -> tuple[Batch, Lease]:
    """R2: lease the next slots of a batch to one process; no other process gives them out, and none is leased twice."""
    require(1 <= count <= batch.free, "a full batch has no slot to take", batch=batch.frozen.number)
    held = Lease(batch.frozen.number, batch.given, count, until, now)
    return batch._replace(leased=batch.leased + count), held


def take(held: Lease, received: float, *, present: bool = False, share: float = 1.0) -> Lease:
    """R2: give the next slot of a lease to the next arrival at the process that holds it."""
    require(not ended(held, received), "a lease that has ended has no slot to take", batch=held.batch)
    same = _merged(held.share, share)
    return held._replace(taken=held.taken + 1, last=received, present=held.present + present, share=same)


def ended(held: Lease, now: float) -> bool:
    """R2: whether a lease is used up or its time is over."""
    return held.taken >= held.size or now >= held.until


def end(batch: Batch, held: Lease) -> Batch:
    """R2: enter a lease that has ended: its free slots contribute zero, and the last lease to end fills the batch."""
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
    """R2: give the next slot to the next valid arrival, or ``count`` slots to as many: a lease used up at once."""
    require(1 <= count <= batch.free, "a full batch has no slot to take", batch=batch.frozen.number)
    latest = received if batch.latest is None else max(received, batch.latest)
    taken, presently = batch.taken + count, batch.present + count * present
    after = batch._replace(taken=taken, latest=latest, present=presently, share=_merged(batch.share, share))
    return after._replace(full_at=latest) if after.full else after


def block(rate: float, free: int) -> int:
    """How many slots a process leases ahead, given arrivals per second and free slots."""
    return min(int(rate * AHEAD), free // PART) if rate >= BUSY else 0


def _merged(one: float | None, other: float | None) -> float | None:
    """The share of two groups of slots taken together."""
    if one is None or other is None or one == other:
        return other if one is None else one
    return MIXED


def shelf_time(received: float, last: float) -> float:
    """R5: the time of an arrival. Time on a shelf never runs backwards, whichever process stamped the request."""
    return max(received, last)


def due(oldest: Batch | None, now: float) -> bool:
    """R5: whether the oldest batch of a shelf must be released before an arrival at ``now`` is decided."""
    return oldest is not None and now >= oldest.due_at


def published(batch: Batch, last: float | None) -> float:
    """R5: the time of a release: that of its batch, but not before ``last``, that of the previous release."""
    return batch.published_at if last is None else max(batch.published_at, last)


def charge(learner: Learner, batch: Batch, source: NoiseSource) -> Learner:
    """R7: enter the cost. Once the store has made this durable, the batch is either released or burnt.

    If a batch is charged and never drawn, it was burnt: the cost is spent and nothing is known.
    """
    require(batch.full, "only a full batch may be released", batch=batch.frozen.number)
    same = batch.grid == source.grid
    require(same, "noise must be on the grid that contributions were rounded to", grid=source.grid, rounded=batch.grid)
    return learner.charge(batch.frozen, source)


def draw(charged: Learner, batch: Batch, total: Total, source: NoiseSource) -> Learner:
    """R7: draw the noise, once, and learn from the release."""
    return charged.learn(batch.frozen, total, source, present=batch.present, steady=batch.share != MIXED)
