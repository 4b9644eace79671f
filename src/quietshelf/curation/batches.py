"""A batch from its first slot to its release: R2, R5 and R7 of the protocol (docs/proofs.md, section 6).

A batch is a fixed number of arrivals. Nothing about answers moves a slot, a due time or a release.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from quietshelf.release.noise import NoiseSource
from quietshelf.release.outlook import Outlook
from quietshelf.release.quiet import Learner, OpenBatch
from quietshelf.statistics import Total
from quietshelf.types import require

MIXED = -1.0
"""The share of a batch over which it changed."""


class Batch(NamedTuple):
    """What is public of a batch that is not released.

    Attributes:
        frozen: What its contributions are computed with: a function of earlier releases.
        grid: To which contributions are rounded.
        window: How long after its last arrival it is released.
        taken: Slots taken so far.
        full_at: When the last slot was taken, as stamped on receipt; None before.
        present: Slots that the shop's present ranking served; by coins, so public.
        share: Share of visitors that the learned policy served; None before the first slot, `MIXED` once it changed.
    """

    frozen: OpenBatch
    grid: float
    window: float
    taken: int = 0
    full_at: float | None = None
    present: int = 0
    share: float | None = None

    @property
    def full(self) -> bool:
        """Whether the last slot is taken."""
        return self.taken >= self.frozen.size

    @property
    def due_at(self) -> float:
        """R5: when it is released, and the time its release is published with, whenever the work is done."""
        return math.inf if self.full_at is None or not self.full else self.full_at + self.window


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
    schedule: Schedule, learner: Learner, source: NoiseSource, outlook: Outlook, *, window: float
) -> tuple[Schedule, Batch]:
    """R2: the next batch, with everything that its contributions are computed with frozen as it is known now."""
    size = schedule.next_size or learner.next_size(schedule.last_size)
    frozen = learner.open(schedule.opened + 1, size, outlook)
    return Schedule(frozen.number, size), Batch(frozen, source.grid, window)


def arrive(batch: Batch, received: float, *, present: bool = False, share: float = 1.0) -> Batch:
    """R2: the next valid arrival takes the next slot; whoever takes the last one fills the batch."""
    require(not batch.full, "a full batch has no slot to take", batch=batch.frozen.number)
    taken = batch.taken + 1
    full_at = received if taken == batch.frozen.size else None
    same = share if batch.share in (None, share) else MIXED
    return batch._replace(taken=taken, full_at=full_at, present=batch.present + present, share=same)


def shelf_time(received: float, last: float) -> float:
    """R5: the time of an arrival. A shelf's time never goes back, whichever process stamped the request."""
    return max(received, last)


def due(oldest: Batch | None, now: float) -> bool:
    """R5: whether the oldest batch of a shelf is to be released before an arrival at ``now`` is decided."""
    return oldest is not None and now >= oldest.due_at


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
