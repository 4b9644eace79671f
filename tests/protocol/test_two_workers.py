"""Two workers on one database: what neither knows of the other must not decide what a visitor gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.protocol.oracles import EXPIRED
from tests.protocol.places import Place
from tests.protocol.service_user import ServiceUser
from tests.protocol.steps import Answer, Arrive, Crash, Schedule, Shop, Step, Tick, Visit, Write
from tests.protocol.worlds import Make, Seen, run

FIRST, SECOND = 2, 2
"""Visitors in the first batches of this shop."""
SHOP = Shop(items=((0.0, 1.0), (1.0, 0.0), (0.5, 0.5)), visitor_dim=1, rho=500.0, max_batch=FIRST, window=4)
STORES = ("sqlite", "postgresql")


def told(steps: list[Step], make: Make) -> list[Seen]:
    """What everybody receives, of visitors who all bring the same."""
    visits = (Visit((0.5,)), Visit((0.5,)))
    found = run(Schedule(SHOP, (visits,) * 9, frozenset(), tuple(steps), workers=2), make)
    return [each for seen in found.seen for each in seen]


@pytest.mark.parametrize("store", STORES)
def test_an_arrival_from_before_a_due_time_does_not_wait_for_a_release_that_waits_for_it(
    store: str, place: Callable[[str], Place]
) -> None:
    """R5: two batches are due, one worker stops after the first release, the other holds a request older than both."""
    arrivals = [Arrive(visit=0, worker=1), *(Arrive(visit=1 + n) for n in range(FIRST + SECOND)), Write()]
    released = [Tick(seconds=4.0), Crash(where="committed"), Write(), Write(worker=1)]
    seen = told([*arrivals, *released], partial(ServiceUser, place=place(store)))
    (offer,) = [each.content for each in seen if each.owner == 0]
    assert (offer["status"], offer["release"]) == (200, 1)


@pytest.mark.parametrize("store", STORES)
def test_an_answer_is_refused_if_another_worker_released_before_it_was_written(
    store: str, place: Callable[[str], Place]
) -> None:
    """A limit of R4 that docs/proofs.md, section 6, states: a release waits for its own process's queue alone."""
    arrivals = [*(Arrive(visit=n) for n in range(FIRST)), Write(), Tick(seconds=3.0)]
    released = [Answer(visit=0, place=0, worker=1), Tick(seconds=2.0), Write(), Write(worker=1)]
    seen = told([*arrivals, *released], partial(ServiceUser, place=place(store)))
    (answer,) = [each.content for each in seen if each.what == "answer"]
    assert answer["received"] < answer["expires"]
    assert EXPIRED in answer["body"]
