"""R4: every verdict on an answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietshelf.curation.answers import ERASED, ERASURE, Slot, Verdict, answer

IN_TIME = [
    (None, 2, Verdict.COUNTS),
    (None, -1, Verdict.COUNTS),
    (2, 2, Verdict.SAME),
    (-1, -1, Verdict.SAME),
    (2, 1, Verdict.CONFLICT),
    (2, -1, Verdict.CONFLICT),
    (-1, 0, Verdict.CONFLICT),
    (0, -1, Verdict.CONFLICT),
    (ERASED, 0, Verdict.ERASED),
    (ERASED, -1, Verdict.ERASED),
]


@pytest.mark.parametrize(("kept", "chosen", "verdict"), IN_TIME)
def test_an_answer_in_time_is_judged_by_the_one_kept(kept: int | None, chosen: int, verdict: Verdict) -> None:
    """The first one stands, the same again is fine, another is a conflict, and what was erased stays erased."""
    assert answer(kept, chosen, received=0.0, expires=1.0) is verdict
    assert answer(kept, chosen, received=1e9, expires=math.inf) is verdict  # its batch is not full yet


@pytest.mark.parametrize(("kept", "chosen"), [(kept, chosen) for kept, chosen, _ in IN_TIME])
def test_a_late_answer_is_late_whatever_it_is(kept: int | None, chosen: int) -> None:
    """At the moment of expiry and after, nothing that was kept shows in the verdict."""
    for received in (1.0, math.nextafter(1.0, 2.0), math.inf):
        assert answer(kept, chosen, received=received, expires=1.0) is Verdict.EXPIRED


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_time_of_receipt_alone_decides_what_is_late(received: float, expires: float) -> None:
    """Received before its expiry it counts, else not: nothing else is asked."""
    found = answer(None, 0, received=received, expires=expires)
    assert found is (Verdict.COUNTS if received < expires else Verdict.EXPIRED)


def test_every_verdict_is_reached() -> None:
    """A new verdict must have a case here."""
    assert {verdict for *_, verdict in IN_TIME} | {Verdict.EXPIRED} == set(Verdict)


def test_erasure_leaves_the_slot_and_nothing_in_it() -> None:
    """It stays taken; features, answer and contribution are gone, and no place has the number of an erasure."""
    assert ERASURE == {"answer": ERASED, "rows": None, "contribution": None}
    assert ERASED not in (None, -1)
    assert ERASED < 0


def test_a_new_slot_is_unanswered() -> None:
    """None is no answer yet; -1 is the answer that nothing was chosen."""
    assert Slot(None).answer is None
