"""A batch in the making: a slot for each arrival, answers summed as they come, raw features dropped when summed.

Slots are given out by arrival and never by answers; a batch is full when its last slot is taken, and due a fixed number
of arrivals later (docs/proofs.md, section 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from quietshelf.release.quiet import OpenBatch
from quietshelf.shelf.errors import AnswerConflict
from quietshelf.statistics import Pair, Shown, Total, contribution, nothing, summed
from quietshelf.types import NOTHING, FloatArray, require

UNANSWERED = -2


@dataclass
class Slot:
    """One arrival.

    Attributes:
        items: What was shown.
        rows: Features it was shown with, (len(items), d); None once summed, or where the visit does not count.
        answer: Item chosen, -1 for none, -2 while unanswered.
    """

    items: tuple[int, ...]
    rows: FloatArray | None
    answer: int = UNANSWERED


@dataclass
class Batch:
    """Slots of one open or waiting batch.

    Attributes:
        frozen: What contributions are computed with.
        grid: To which they are rounded.
        total: Their sum so far.
        slots: By offer id, in order of arrival.
        last_arrival: The number of the last arrival that took a slot.
    """

    frozen: OpenBatch
    grid: float
    total: Total
    slots: dict[str, Slot] = field(default_factory=dict)
    last_arrival: int = -1

    @classmethod
    def of(cls, frozen: OpenBatch, grid: float) -> Batch:
        """A batch without slots yet."""
        return cls(frozen, grid, nothing((), frozen.theta.shape[-1]))

    @property
    def full(self) -> bool:
        """Whether the last slot is taken."""
        return len(self.slots) >= self.frozen.size

    def check(self, offer: str, item: int) -> None:
        """Refuse an answer that cannot be taken: an item not shown, or another answer than before."""
        slot = self.slots[offer]
        shown = item == NOTHING or item in slot.items
        require(shown, f"choice must be None or one of the items shown, {list(slot.items)}", choice=item)
        if slot.answer not in (UNANSWERED, item):
            raise AnswerConflict(
                "choice must be the one given before, which stands, got another answer to the same offer"
            )

    def answer(self, offer: str, item: int) -> None:
        """Take one answer, checked before: item index, or -1 for none. The same again changes nothing."""
        slot = self.slots[offer]
        if slot.answer == UNANSWERED:
            self._sum(slot, item)
            slot.answer = item

    def finish(self, silence: Literal["no-choice", "zero"]) -> Total:
        """The sum over all slots, silent ones by rule."""
        total = self.total
        if silence == "no-choice":
            for slot in self.slots.values():
                if slot.answer == UNANSWERED and slot.rows is not None:
                    total = total + self._contribution(slot.rows, NOTHING)
        return total

    def _sum(self, slot: Slot, item: int) -> None:
        if slot.rows is not None:
            position = NOTHING if item == NOTHING else slot.items.index(item)
            self.total = self.total + self._contribution(slot.rows, position)
            slot.rows = None

    def _contribution(self, rows: FloatArray, position: int) -> Total:
        if not len(rows):  # nothing was shown, nothing is learned
            return nothing((), self.frozen.theta.shape[-1])
        seen = Shown(rows, np.ones(len(rows), dtype=bool), np.asarray(position))
        pair = contribution(seen, self.frozen.theta, self.frozen.coordinates)
        return summed(Pair(pair.score[None], pair.information[None]), self.grid)
