"""What the machine has found, each as the shortest schedule that showed it: none of it may come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.protocol.places import Place
from tests.protocol.steps import (
    A,
    Answer,
    Arrive,
    Change,
    Crash,
    Erase,
    Look,
    Lose,
    Save,
    Schedule,
    Shop,
    Step,
    Tick,
    Visit,
    Write,
)
from tests.protocol.users import maker
from tests.protocol.worlds import compare

SHOP = Shop(
    items=((0.0, 1.0), (1.0, 0.0), (0.5, 0.5), (2.0, -1.0)),
    visitor_dim=1,
    rho=500.0,
    max_batch=2,
    window=4,
    poll=False,
    capacity=2,
)
"""Two visitors in every batch."""
N, M = 0, 1
"""The target, whose name is ann, and somebody else, whose name is bob."""


@dataclass(frozen=True)
class Found:
    """A schedule of visitor 0 and others; steps of visitor 0 are in the first world only."""

    says: str
    user: str
    steps: tuple[Step, ...]
    shop: Shop = field(default=SHOP)

    @property
    def schedule(self) -> Schedule:
        """Whole; the target brings something else in the second world."""
        others = tuple((Visit((0.5,), "bob"), Visit((0.5,), "bob")) for _ in range(9))
        target = (Visit((1e308,), "ann"), Visit((-0.5,), "ann"))
        return Schedule(self.shop, (target, *others), frozenset({N}), self.steps, persons=frozenset({"ann"}))


ANSWER, ERASURE = Answer(visit=N, place=0, only=A), Erase(person="ann", only=A)
FOUND = [
    Found("an answer after a save decides that batches are dropped", "shelf",
          (Arrive(visit=N), Arrive(visit=M), Save(), ANSWER, Crash(), Arrive(visit=M + 1), Look())),
    Found("an answer in a forked process decides when batches are dropped", "shelf",
          (Arrive(visit=N), Crash(where="fork"), ANSWER, Look())),
    Found("features so large that they overflow are in a log", "shelf", (Arrive(visit=N), Look())),
    Found("an erasure moves a change of the catalogue before an offer", "service-sqlite",
          (ERASURE, Arrive(visit=M), Change(kind="retire", item=3), Write(), Look())),
    Found("an erasure moves another erasure before an offer", "service-sqlite",
          (ERASURE, Arrive(visit=M), Erase(person="bob"), Write(), Look())),
    Found("an answer moves the end of a group, and with it a change of the catalogue", "service-sqlite",
          (Arrive(visit=N), Write(), ANSWER, Arrive(visit=M), Change(kind="retire", item=3), Arrive(visit=M + 1),
           Write()),
          Shop(**{**SHOP.__dict__, "group_limit": 3})),
    Found("an answer in time decides how a wrong key is refused", "service-sqlite",
          (Arrive(visit=N), Arrive(visit=M), Write(), ANSWER, Tick(seconds=5.0),
           Answer(visit=M, place=0, foreign=True), Write())),
    Found("an erasure decides when a lost commit is noticed", "service-sqlite",
          (Arrive(visit=M), Arrive(visit=M + 1), Write(), Save(), Tick(seconds=4.0), Write(), Lose(), ERASURE, Write(),
           Look())),
    Found("an answer decides whether an erasure comes before a release that was not due yet", "service-sqlite",
          (Arrive(visit=N), Arrive(visit=M), Write(), ANSWER, Erase(person="bob"), Tick(seconds=5.0), Write(), Look())),
    Found("an answer decides whether an erasure comes before a release that was due", "service-sqlite",
          (Arrive(visit=N), Arrive(visit=M), Write(), Tick(seconds=3.0), ANSWER, Tick(seconds=2.0), Erase(person="bob"),
           Write(), Look())),
    Found("an erasure decides whether a change of the catalogue comes before a release that was due", "service-sqlite",
          (ERASURE, Crash(where="committed"), *(Arrive(visit=M + k) for k in range(4)), Tick(seconds=4.0),
           Change(kind="retire", item=3), Look()),
          Shop(**{**SHOP.__dict__, "group_limit": 2, "poll": True})),
]  # fmt: skip


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.says)
def test_found_interference_does_not_come_back(found: Found, place: Callable[[str], Place]) -> None:
    """In both worlds others receive the same."""
    assert compare(found.schedule, maker(found.user, place))["schedules"] == 1
