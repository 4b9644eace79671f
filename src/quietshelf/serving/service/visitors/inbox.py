"""Time on receipt: every write is stamped when its last byte is in, before any queue (R4, R5).

A stamp stays open until its request is written. The oldest open one is how far time has come for this process: no batch
that is due later is released yet, so that whatever was received before a release is written before it (docs/proofs.md,
section 6).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(eq=False, slots=True)
class Receipt:
    """When a request was received; ``queued`` once the writer has it, who then settles it."""

    time: float
    queued: bool = False


class Inbox:
    """Receipts that are open, in order of time; ``clock`` tells it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Receipt, None] = {}
        self._last = 0.0

    def stamp(self) -> Receipt:
        """R4, R5: a request is received now; time never goes back."""
        with self._lock:
            self._last = max(self._clock(), self._last)
            receipt = Receipt(self._last)
            self._open[receipt] = None
            return receipt

    def settle(self, receipt: Receipt) -> None:
        """The request is written, or was refused; again is fine."""
        with self._lock:
            self._open.pop(receipt, None)

    def time(self) -> float:
        """Everything received before this is settled."""
        with self._lock:
            return next((receipt.time for receipt in self._open), max(self._clock(), self._last))


@dataclass(frozen=True, slots=True)
class Step:
    """A write that stands alone, a change of ``shelf`` or an erasure, and when it was received.

    Like what visitors send it is written before a release that was due later, and after one that was due by then: else
    an answer that a release waits for would decide the order, which others can see.
    """

    step: Callable[[Connection], Any]
    receipt: Receipt
    shelf: str | None = None

    def __call__(self, connection: Connection) -> Any:
        """What it answers."""
        return self.step(connection)
