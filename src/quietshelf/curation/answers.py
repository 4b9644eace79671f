"""R4: an answer counts if and only if it was received before its offer expires, and the first one stands.

An answer is received when it is stamped on entry, before any queue, so that other requests cannot make it late
(docs/proofs.md, section 6).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, NamedTuple

from quietshelf.model.types import FloatArray

ERASED: Final = -3
"""The answer of a slot whose visitor asked for erasure; -1 means no choice, 0 and above the place chosen."""
ERASURE: Final[dict[str, Any]] = {"answer": ERASED, "rows": None, "contribution": None}
"""What erasure leaves of an unreleased slot: it stays taken and contributes zero."""


class Slot(NamedTuple):
    """What is kept about one arrival until its batch is released.

    Attributes:
        rows: Features of the items shown, (items shown, d); None once summed, or if the visit does not count.
        answer: Place of the chosen item, -1 for none; None while unanswered.
    """

    rows: FloatArray | None
    answer: int | None = None


class Verdict(Enum):
    """What happens to an answer."""

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
