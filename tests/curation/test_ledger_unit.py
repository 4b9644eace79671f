"""Whom a ledger protects."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.curation.ledger_unit import addressed
from quietshelf.privacy.accounting import Assumption, Event, gaussian
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.quiet_settings import Quiet

SOURCE = Simulated(np.random.default_rng(0))


def spent(batches: int) -> list[Event]:
    return [
        gaussian("score", sensitivity=2**0.5, noise=1.0, batch=batch, assumption=Assumption.EXACT_GRID)
        for batch in range(batches)
    ]


def test_a_ledger_with_an_incomplete_history_promises_nothing_to_persons() -> None:
    """Whatever the cap was: to a visit, at the cost of one release, as one more batch."""
    known = Quiet(rho=3.0, visits=3, unit="person").ledger(SOURCE)
    found = addressed(known.spend(*spent(3)), arrivals=3, anonymous=0, history_incomplete="why", rho_per_release=1.0)
    assert (found.unit, found.visits) == ("visit", 1)
    assert found.rho == pytest.approx(1.0)
    assert found.events[-1].batch == 3
    assert found.events[-1].detail == "why"


def test_an_incomplete_history_without_releases_promises_no_less_than_one() -> None:
    """Nothing is listed, and yet a release may have been made elsewhere."""
    found = addressed(
        Quiet(rho=2.0).ledger(SOURCE), arrivals=0, anonymous=0, history_incomplete="why", rho_per_release=2
    )
    assert found.rho == 2.0


@pytest.mark.parametrize(
    ("arrivals", "anonymous", "unit"), [(0, 0, "visit"), (5, 0, "person"), (5, 1, "visit"), (5, 5, "visit")]
)
def test_a_ledger_is_to_persons_only_if_everybody_was_named(arrivals: int, anonymous: int, unit: str) -> None:
    """One anonymous visitor, or none at all, and it is to visits; the sum stays what it was."""
    known = Quiet(rho=1.0).ledger(SOURCE).spend(*spent(2))
    found = addressed(known, arrivals=arrivals, anonymous=anonymous, history_incomplete=None, rho_per_release=1.0)
    assert (found.unit, found.rho, found.events) == (unit, known.rho, known.events)
