"""R4: an answer counts if and only if it was received before its offer expires, and the first one stands.

Received means stamped on entry, before any queue: nobody else's work decides whether an answer is late
(docs/proofs.md, section 6).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, NamedTuple

from quietshelf.model.types import FloatArray

ERASED: Final = -3
"""The answer of a slot whose visitor asked for erasure; -1 is no choice, other numbers are the place chosen."""
ERASURE: Final[dict[str, Any]] = {"answer": ERASED, "rows": None, "contribution": None}
"""What erasure leaves of a slot that is not released: it stays taken, and contributes zero."""


class Slot(NamedTuple):
    """What is kept of one arrival until its batch is released.

    Attributes:
        rows: Features of what was shown, (items shown, d); None once summed, or where the visit does not count.
        answer: Place of the item chosen, -1 for none; None while unanswered.
    """

    rows: FloatArray | None
    answer: int | None = None


class Verdict(Enum):
    """What becomes of an answer."""

    COUNTS = "counts"
    SAME = "the same as before"
    CONFLICT = "another than before"
    EXPIRED = "too late"
    ERASED = "erased"


def answer(kept: int | None, chosen: int, *, received: float, expires: float) -> Verdict:
    """R4: the verdict on an answer to an offer whose slot holds ``kept`` (None: unanswered)."""
    if received >= expires:
        return Verdict.EXPIRED
    if kept is None:
        return Verdict.COUNTS
    if kept == ERASED:
        return Verdict.ERASED
    return Verdict.SAME if kept == chosen else Verdict.CONFLICT
