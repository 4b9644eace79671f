"""Stamps every write when its last byte arrives, before any queue (R4, R5).

A stamp stays open until its request is written. The oldest open stamp is the current time for releases: no batch due
later is released yet, so everything received before a release is written before it (docs/proofs.md, section 6).
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
    """When a request was received. Once ``queued``, the writer settles it."""

    time: float
    queued: bool = False


class Inbox:
    """The open receipts, in order of time, as told by ``clock``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Receipt, None] = {}
        self._last = 0.0

    def stamp(self) -> Receipt:
        """R4, R5: stamp a request received now. Time never goes back."""
        with self._lock:
            self._last = max(self._clock(), self._last)
            receipt = Receipt(self._last)
            self._open[receipt] = None
            return receipt

    def settle(self, receipt: Receipt) -> None:
        """Close a receipt, because its request was written or refused. Repeating it is harmless."""
        with self._lock:
            self._open.pop(receipt, None)

    def time(self) -> float:
        """The time before which every received request is settled."""
        with self._lock:
            return next((receipt.time for receipt in self._open), max(self._clock(), self._last))


@dataclass(frozen=True, slots=True)
class Step:
    """A write of its own, such as a change of ``shelf`` or an erasure, and its receipt.

    Like visitors' requests, it is written after every release due when it was received, and before later ones.
    Otherwise an answer that delays a release could change the order, which others can see.
    """

    step: Callable[[Connection], Any]
    receipt: Receipt
    shelf: str | None = None

    def __call__(self, connection: Connection) -> Any:
        """Carry it out; returns its result."""
        return self.step(connection)
